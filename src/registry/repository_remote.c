#include "registry/repository_remote.h"

#include <string.h>

#include "base/text.h"
#include "net/http_range.h"
#include "oci/manifest.h"
#include "oci/reference.h"
#include "registry/remote.h"
#include "registry/upload_location.h"

#define DEFAULT_PARALLEL 4u
#define MAX_PARALLEL 16u

void
remote_progress (RemoteProgress *self, guint64 position_bytes, guint64 moved_bytes)
{
  guint64 logical = position_bytes > self->told_bytes ? position_bytes - self->told_bytes : 0;
  self->told_bytes += logical;
  if (self->report != NULL && (logical > 0 || moved_bytes > 0))
    self->report (logical, moved_bytes, self->data);
}

/* A store behind the registry may take no HEAD for the address of a GET (moby#50065): its size is asked for with a
 * GET of one byte. */
static gboolean
ask_size_by_get (Ctx *ctx, Remote *self, const char *url, guint64 *out_size, GError **error)
{
  static const char *const headers[] = { "Range: bytes=0-0", NULL };
  static const guint empty[] = { 416, 0 };
  HttpCall call = {
    .method = "GET", .url = url, .headers = headers, .accept_statuses = empty, .reply_limit_bytes = 4096
  };
  g_auto (HttpReply) reply = { 0 };
  guint64 first, last;
  if (!registry_client_call (ctx, self->client, REGISTRY_PULL, &call, &reply, error))
    return FALSE;
  if (reply.status == 206)
    return http_content_range_parse (http_reply_header (&reply, "content-range"), &first, &last, out_size, error);
  *out_size = reply.body == NULL ? 0 : g_bytes_get_size (reply.body);
  return TRUE;
}

gboolean
remote_blob_exists (Ctx *ctx, Repository *base, const Digest *digest, guint64 *out_size, GError **error)
{
  Remote *self = (Remote *) base;
  char text[DIGEST_STRING_SIZE];
  g_autofree char *url = registry_client_url (self->client, "blobs/%s", digest_format (digest, text));
  HttpCall call = { .method = "HEAD", .url = url, .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  if (!registry_client_call (ctx, self->client, REGISTRY_PULL, &call, &reply, &failure))
    {
      if (am_error_is (failure, AM_ERROR_NOT_FOUND))
        return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "%s has no blob %s", base->display, text);
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (out_size == NULL)
    return TRUE;
  const char *length = http_reply_header (&reply, "content-length");
  if (!http_status_is_redirect (reply.status) && length != NULL && text_parse_u64 (length, out_size))
    return TRUE;
  return ask_size_by_get (ctx, self, url, out_size, error);
}

gboolean
remote_has_blob (Ctx *ctx, Remote *self, const Digest *digest, gboolean *out_has, GError **error)
{
  g_autoptr (GError) failure = NULL;
  *out_has = remote_blob_exists (ctx, &self->base, digest, NULL, &failure);
  if (*out_has || am_error_is (failure, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

/* POST ?mount=&from=: 201 is the blob, 202 an ordinary session, which is not wanted; a refusal means that the blob has
 * to be sent. */
static gboolean
remote_mount_blob (Ctx *ctx, Repository *base, const Digest *digest, const char *from_repository,
                   gboolean *out_mounted, GError **error)
{
  Remote *self = (Remote *) base;
  char text[DIGEST_STRING_SIZE];
  if (!repository_name_check (from_repository, error))
    return FALSE;
  g_autofree char *url = registry_client_url (self->client, "blobs/uploads/?mount=%s&from=%s",
                                              digest_format (digest, text), from_repository);
  HttpCall call = { .method = "POST", .url = url, .idempotent = TRUE, .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  if (!registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, &failure))
    {
      if (reply.status < 400 || reply.status >= 500 || reply.status == 429)
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return FALSE;
        }
      am_ignore (&failure, "a blob that cannot be mounted is sent");
    }
  *out_mounted = reply.status == 201;
  g_autofree char *location = NULL;
  if (reply.status == 202 && remote_follow_location (&reply, url, &location, NULL) && location != NULL)
    remote_cancel_upload (ctx, self, location);
  return TRUE;
}

static GError *
manifest_problem (Remote *self, const char *reference, GError *failure)
{
  if (!am_error_is (failure, AM_ERROR_NOT_FOUND))
    return failure;
  GError *told = NULL;
  am_fail (&told, AM_ERROR_NOT_FOUND, "MANIFEST_UNKNOWN", "there is no \"%s\" in %s", reference, self->base.display);
  g_error_free (failure);
  return told;
}

/* The bytes must have the digest that was asked for and the one that the registry tells. */
static gboolean
check_manifest (Remote *self, const char *reference, GBytes *bytes, const char *told, Digest *out_digest,
                GError **error)
{
  Digest wanted[2];
  guint n_wanted = 0;
  if (strchr (reference, ':') != NULL)
    n_wanted += digest_parse (reference, &wanted[n_wanted], NULL) ? 1 : 0;
  if (told != NULL)
    n_wanted += digest_parse (told, &wanted[n_wanted], NULL) ? 1 : 0;
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  digest_of (n_wanted > 0 ? wanted[0].algorithm : DIGEST_SHA256, data, size, out_digest);
  for (guint i = 0; i < n_wanted; i++)
    {
      Digest actual;
      char text[DIGEST_STRING_SIZE];
      digest_of (wanted[i].algorithm, data, size, &actual);
      if (!digest_equal (&actual, &wanted[i]))
        return am_fail (error, AM_ERROR_DATA_LOSS, "DIGEST_INVALID",
                        "%s: what came as \"%s\" is damaged or something else: its digest is not %s",
                        self->base.display, reference, digest_format (&wanted[i], text));
    }
  return TRUE;
}

/* What the answer says it is, unless that says nothing. */
static char *
reply_media_type (const HttpReply *reply, GBytes *bytes, GError **error)
{
  const char *header = http_reply_header (reply, "content-type");
  g_autofree char *sent = g_strndup (header == NULL ? "" : header, header == NULL ? 0 : strcspn (header, "; "));
  if (manifest_type_is_known (sent))
    return g_steal_pointer (&sent);
  g_autoptr (Manifest) manifest = manifest_parse (bytes, NULL, error);
  return manifest == NULL ? NULL : g_strdup (manifest->media_type);
}

static GBytes *
remote_get_manifest (Ctx *ctx, Repository *base, const char *reference, char **out_media_type, Digest *out_digest,
                     GError **error)
{
  Remote *self = (Remote *) base;
  static const char *const headers[] = { "Accept: " MANIFEST_ACCEPT, NULL };
  gboolean is_digest;
  Digest digest;
  if (!reference_selector_parse (reference, &is_digest, &digest, error))
    return NULL;
  g_autofree char *url = registry_client_url (self->client, "manifests/%s", reference);
  HttpCall call = { .method = "GET", .url = url, .headers = headers, .reply_limit_bytes = MANIFEST_MAX_BYTES };
  g_auto (HttpReply) reply = { 0 };
  GError *failure = NULL;
  if (!registry_client_call (ctx, self->client, REGISTRY_PULL, &call, &reply, &failure))
    {
      g_propagate_error (error, manifest_problem (self, reference, failure));
      return NULL;
    }
  if (!check_manifest (self, reference, reply.body, http_reply_header (&reply, "docker-content-digest"), &digest,
                       error))
    return NULL;
  if (out_media_type != NULL)
    {
      char *type = reply_media_type (&reply, reply.body, error);
      if (type == NULL)
        {
          g_prefix_error (error, "%s: \"%s\": ", base->display, reference);
          return NULL;
        }
      *out_media_type = type;
    }
  if (out_digest != NULL)
    *out_digest = digest;
  return g_bytes_ref (reply.body);
}

static gboolean
remote_put_manifest (Ctx *ctx, Repository *base, const char *reference, const char *media_type, GBytes *bytes,
                     Digest *out_digest, GError **error)
{
  Remote *self = (Remote *) base;
  gboolean is_digest = FALSE;
  Digest digest = { .algorithm = DIGEST_SHA256 };
  char text[DIGEST_STRING_SIZE];
  if (reference != NULL && !reference_selector_parse (reference, &is_digest, &digest, error))
    return FALSE;
  Digest wanted = digest;
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  digest_of (is_digest ? wanted.algorithm : DIGEST_SHA256, data, size, &digest);
  if (is_digest && !digest_equal (&digest, &wanted))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the manifest's digest is %s, not %s",
                    digest_format (&digest, text), reference);
  g_autofree char *url = registry_client_url (self->client, "manifests/%s",
                                              reference != NULL ? reference : digest_format (&digest, text));
  g_autofree char *type = g_strconcat ("Content-Type: ", media_type != NULL ? media_type : OCI_MANIFEST, NULL);
  const char *headers[] = { type, NULL };
  HttpCall call = { .method = "PUT", .url = url, .headers = headers, .body = bytes };
  g_auto (HttpReply) reply = { 0 };
  if (!registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, error))
    return FALSE;
  const char *told = http_reply_header (&reply, "docker-content-digest");
  if (told != NULL && digest_parse (told, &wanted, NULL) && wanted.algorithm == digest.algorithm
      && !digest_equal (&wanted, &digest))
    return am_fail (error, AM_ERROR_DATA_LOSS, "DIGEST_INVALID",
                    "%s stored the manifest under %s, but its digest is another: the registry changed it",
                    base->display, told);
  if (http_reply_header (&reply, "oci-subject") == NULL
      && !remote_tell_referrer (ctx, self, bytes, media_type, &digest, error))
    return FALSE;
  if (out_digest != NULL)
    *out_digest = digest;
  return TRUE;
}

static gboolean
remote_remove_manifest (Ctx *ctx, Repository *base, const char *reference, GError **error)
{
  Remote *self = (Remote *) base;
  gboolean is_digest;
  gboolean has_subject = FALSE;
  Digest digest, subject;
  if (!reference_selector_parse (reference, &is_digest, &digest, error)
      || (is_digest && !remote_find_subject (ctx, self, reference, &has_subject, &subject, error)))
    return FALSE;
  g_autofree char *url = registry_client_url (self->client, "manifests/%s", reference);
  HttpCall call = { .method = "DELETE", .url = url };
  g_auto (HttpReply) reply = { 0 };
  GError *failure = NULL;
  if (registry_client_call (ctx, self->client, REGISTRY_DELETE, &call, &reply, &failure))
    return !has_subject || remote_forget_referrer (ctx, self, &subject, &digest, error);
  if (reply.status == 405 || (reply.status == 400 && !is_digest))
    am_fail (error, AM_ERROR_UNIMPLEMENTED, "UNSUPPORTED", "%s does not let %s be removed%s", base->display,
             is_digest ? "manifests" : "tags", is_digest ? "" : "; try by digest");
  else
    {
      g_propagate_error (error, manifest_problem (self, reference, failure));
      return FALSE;
    }
  g_error_free (failure);
  return FALSE;
}

static void
remote_free (Repository *base)
{
  Remote *self = (Remote *) base;
  registry_client_free (self->client);
  g_free (self->resume_dir);
  g_free (self);
}

static const RepositoryClass remote_class = {
  .blob_exists = remote_blob_exists,
  .claim_blob = remote_blob_exists, /* a registry cannot know what a HEAD is for */
  .push_blob = remote_push_blob,
  .mount_blob = remote_mount_blob,
  .read_blob = remote_read_blob,
  .get_recipe = remote_get_recipe,
  .read_chunks = remote_read_chunks,
  .get_manifest = remote_get_manifest,
  .put_manifest = remote_put_manifest,
  .list_tags = remote_list_tags,
  .list_referrers = remote_list_referrers,
  .remove_manifest = remote_remove_manifest,
  .free = remote_free,
};

Repository *
repository_remote_new (const RegistryConfig *config, const char *name, GError **error)
{
  RegistryClient *client = registry_client_new (config, name, error);
  if (client == NULL)
    return NULL;
  Remote *self = g_new0 (Remote, 1);
  self->base = (Repository){ &remote_class, g_strdup (name), g_strdup (registry_client_display (client)), FALSE };
  self->client = client;
  self->n_parallel = config->n_parallel == 0 ? DEFAULT_PARALLEL : MIN (config->n_parallel, MAX_PARALLEL);
  self->resume_dir = g_strdup (config->resume_dir);
  self->notes_in_dir = push_notes_in_directory (self->resume_dir);
  self->notes = config->notes != NULL ? config->notes : self->resume_dir != NULL ? &self->notes_in_dir : NULL;
  self->retry_base_ms = config->retry_base_ms;
  return &self->base;
}
