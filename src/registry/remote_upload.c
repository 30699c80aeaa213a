/* Upload sessions of any registry (distribution-spec 1.1 "Push"): begin, ask, close, forget. */
#include "registry/remote.h"

#include <string.h>

#include "base/text.h"
#include "registry/upload_location.h"

#define CANCEL_TIMEOUT_MS 5000

gboolean
remote_follow_location (const HttpReply *reply, const char *request_url, char **location, GError **error)
{
  const char *header = http_reply_header (reply, "location");
  if (header == NULL)
    return TRUE;
  char *next = upload_location_resolve (request_url, header, error);
  if (next == NULL)
    return FALSE;
  g_free (*location);
  *location = next;
  return TRUE;
}

char *
remote_start_upload (Ctx *ctx, Remote *self, guint64 *out_min_piece_bytes, GError **error)
{
  g_autofree char *url = registry_client_url (self->client, "blobs/uploads/");
  /* A session too many costs nothing, so the call may be repeated. */
  HttpCall call = { .method = "POST", .url = url, .idempotent = TRUE, .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  if (!registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, error))
    return NULL;
  const char *least = http_reply_header (&reply, "oci-chunk-min-length");
  if (out_min_piece_bytes != NULL && (least == NULL || !text_parse_u64 (least, out_min_piece_bytes)))
    *out_min_piece_bytes = 0;
  char *location = upload_location_resolve (url, http_reply_header (&reply, "location"), error);
  if (location == NULL)
    g_prefix_error (error, "%s: ", self->base.display);
  return location;
}

void
remote_cancel_upload (Ctx *ctx, Remote *self, const char *location)
{
  g_autoptr (Ctx) brief = ctx_new_child (ctx, CANCEL_TIMEOUT_MS);
  g_autoptr (GError) problem = NULL;
  HttpCall call = { .method = "DELETE", .url = location };
  g_auto (HttpReply) reply = { 0 };
  if (!registry_client_call (brief, self->client, REGISTRY_PUSH, &call, &reply, &problem))
    am_ignore (&problem, "the registry will forget the session by itself");
}

/* The exact count of our own server, or what "0-N" tells: "0-0" is nothing by old custom. */
static gboolean
read_offset (const HttpReply *reply, guint64 *out_offset)
{
  const char *exact = http_reply_header (reply, "x-ai-models-upload-offset");
  const char *range = http_reply_header (reply, "range");
  if (exact != NULL)
    return text_parse_u64 (exact, out_offset);
  if (range == NULL)
    return FALSE;
  if (g_str_has_prefix (range, "bytes="))
    range += strlen ("bytes=");
  guint64 last = 0;
  if (!g_str_has_prefix (range, "0-") || !text_parse_u64 (range + 2, &last) || last == G_MAXUINT64)
    return FALSE;
  *out_offset = last == 0 ? 0 : last + 1;
  return TRUE;
}

gboolean
remote_upload_offset (Ctx *ctx, Remote *self, char **location, guint64 *out_offset, GError **error)
{
  g_autofree char *url = g_strdup (*location);
  HttpCall call = { .method = "GET", .url = url };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  if (!registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, &failure))
    {
      if (am_error_is (failure, AM_ERROR_NOT_FOUND))
        return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "%s: the registry has forgotten the upload",
                        self->base.display);
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (!remote_follow_location (&reply, url, location, error))
    return FALSE;
  return read_offset (&reply, out_offset)
         || am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                     "%s: the registry does not tell how much of an upload it has", self->base.display);
}

gboolean
remote_check_stored (Remote *self, const HttpReply *reply, const Digest *digest, GError **error)
{
  const char *told = http_reply_header (reply, "docker-content-digest");
  char text[DIGEST_STRING_SIZE];
  Digest actual;
  if (told == NULL || !digest_parse (told, &actual, NULL) || actual.algorithm != digest->algorithm
      || digest_equal (&actual, digest))
    return TRUE;
  return am_fail (error, AM_ERROR_DATA_LOSS, "DIGEST_INVALID", "%s: the registry stored %s instead of %s",
                  self->base.display, told, digest_format (digest, text));
}

gboolean
remote_close_upload (Ctx *ctx, Remote *self, const char *location, const Digest *digest, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  g_autofree char *url = http_url_with (location, "digest", digest_format (digest, text));
  g_autoptr (GBytes) nothing = g_bytes_new_static ("", 0);
  HttpCall call = { .method = "PUT", .url = url, .body = nothing, .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  gboolean has = FALSE;
  if (registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, &failure))
    return remote_check_stored (self, &reply, digest, error);
  /* An earlier answer may have been lost: then the session is gone because the blob is complete. */
  if (am_error_is (failure, AM_ERROR_NOT_FOUND))
    {
      if (!remote_has_blob (ctx, self, digest, &has, error))
        return FALSE;
      return has
             || am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN",
                         "%s: the registry has forgotten the upload", self->base.display);
    }
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}
