#include "controllers/artifact_registry.h"

#include <string.h>

#include "net/http_client.h"
#include "oci/manifest.h"
#include "registry/registry_login.h"

#define TAG "published"
#define CALL_TIMEOUT_MS (30 * 1000)
#define MAX_ATTEMPTS 2 /* whoever asks tries again by himself */
#define REGISTRY "the module's registry"

struct ArtifactRegistry {
  HttpClient *http;
  char *origin; /* "https://host" */
};

static gboolean
log_in (ArtifactRegistry *self, const char *dir, GError **error)
{
  g_autofree char *header = registry_login_header (dir, error);
  if (header != NULL)
    http_client_set_credentials (self->http, self->origin, header);
  return header != NULL;
}

ArtifactRegistry *
artifact_registry_new (const ControllerSettings *settings, GError **error)
{
  g_autoptr (ArtifactRegistry) self = g_new0 (ArtifactRegistry, 1);
  HttpClientConfig config = { .ca_file = settings->registry_ca_file, .max_attempts = MAX_ATTEMPTS, .proxy = "" };
  self->origin = g_strconcat (settings->registry_plain_http ? "http://" : "https://", settings->registry, NULL);
  self->http = http_client_new (&config, error);
  if (self->http == NULL
      || (settings->registry_login_dir != NULL && !log_in (self, settings->registry_login_dir, error)))
    return NULL;
  return g_steal_pointer (&self);
}

void
artifact_registry_free (ArtifactRegistry *self)
{
  if (self == NULL)
    return;
  http_client_free (self->http);
  g_free (self->origin);
  g_free (self);
}

/* TRUE with a status of 2xx or 404. `out_reply` may be cleared by the caller in any case. */
static gboolean
ask (Ctx *ctx, ArtifactRegistry *self, const char *method, const char *repository, const char *what,
     HttpReply *out_reply, GError **error)
{
  static const guint accepted[] = { 404, 0 };
  static const char *const headers[] = { "Accept: " MANIFEST_ACCEPT, NULL };
  g_autoptr (Ctx) limited = ctx_new_child (ctx, CALL_TIMEOUT_MS);
  g_autoptr (GError) failure = NULL;
  g_autofree char *url = g_strdup_printf ("%s/v2/%s/%s", self->origin, repository, what);
  HttpCall call = { .method = method,
                    .url = url,
                    .headers = headers,
                    .reply_limit_bytes = MANIFEST_MAX_BYTES,
                    .no_redirects = TRUE,
                    .accept_statuses = accepted };
  return http_client_call (limited, self->http, &call, out_reply, &failure)
         || registry_tell_failure (REGISTRY, failure, out_reply->status, error);
}

static gboolean
check_blob (Ctx *ctx, ArtifactRegistry *self, const char *repository, const Descriptor *blob, char **out_damage,
            GError **error)
{
  char digest[DIGEST_STRING_SIZE];
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *what = g_strconcat ("blobs/", digest_format (&blob->digest, digest), NULL);
  if (!ask (ctx, self, "HEAD", repository, what, &reply, error))
    return FALSE;
  const char *length = http_reply_header (&reply, "content-length");
  guint64 size = length != NULL ? g_ascii_strtoull (length, NULL, 10) : 0;
  if (reply.status == 404)
    *out_damage = g_strdup_printf ("the file %.19s… of it is missing", digest);
  else if (length != NULL && size != blob->size_bytes)
    *out_damage = g_strdup_printf ("the file %.19s… of it has another size than it should", digest);
  return TRUE;
}

gboolean
artifact_registry_check (Ctx *ctx, ArtifactRegistry *self, const char *repository, const char *digest,
                         char **out_damage, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *what = g_strconcat ("manifests/", digest, NULL);
  *out_damage = NULL;
  if (!ask (ctx, self, "GET", repository, what, &reply, error))
    return FALSE;
  Digest wanted, found;
  g_autoptr (Manifest) manifest = reply.status != 404 && digest_parse (digest, &wanted, NULL)
                                    ? manifest_parse (reply.body, http_reply_header (&reply, "content-type"), NULL)
                                    : NULL;
  if (manifest != NULL)
    digest_of (wanted.algorithm, g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), &found);
  if (manifest == NULL || !digest_equal (&wanted, &found))
    {
      *out_damage = g_strdup (reply.status == 404 ? "its manifest is missing" : "its manifest is not what it was");
      return TRUE;
    }
  g_autoptr (GArray) references = manifest_refs (manifest);
  for (guint i = 0; i < references->len && *out_damage == NULL; i++)
    {
      const ManifestRef *reference = &g_array_index (references, ManifestRef, i);
      if (reference->role != MANIFEST_REF_CHILD && !reference->may_be_absent
          && !check_blob (ctx, self, repository, reference->descriptor, out_damage, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
remove_one (Ctx *ctx, ArtifactRegistry *self, const char *repository, const char *digest, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *what = g_strconcat ("manifests/", digest, NULL);
  return ask (ctx, self, "DELETE", repository, what, &reply, error);
}

gboolean
artifact_registry_remove (Ctx *ctx, ArtifactRegistry *self, const char *repository, const char *digest,
                          GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  if (digest != NULL && !remove_one (ctx, self, repository, digest, error))
    return FALSE;
  if (!ask (ctx, self, "HEAD", repository, "manifests/" TAG, &reply, error))
    return FALSE;
  const char *tagged = reply.status != 404 ? http_reply_header (&reply, "docker-content-digest") : NULL;
  return tagged == NULL || g_strcmp0 (tagged, digest) == 0 || remove_one (ctx, self, repository, tagged, error);
}
