/* Reading a blob of any registry in order, going on where a broken connection stopped. */
#include "registry/remote.h"

#include <string.h>

#include "base/text.h"
#include "net/http_range.h"

typedef struct {
  Remote *remote;
  const char *digest;
  guint64 position_bytes, end_bytes; /* delivered up to here; wanted up to there */
  BlobSink sink;
  gpointer data;
  /* Of the answer that arrives. */
  guint64 at_bytes;  /* where its next byte belongs */
  gboolean is_whole; /* 200: it goes on behind the end we want */
  gboolean is_done;  /* all that is wanted came; the rest is cut off */
  GError *final;     /* a failure that no other attempt mends */
} BlobRead;

/* The cause is kept as it is; what the HTTP client makes of it on the way out is not shown. */
static gboolean
fail_finally (BlobRead *self, GError **error)
{
  g_propagate_error (error, g_error_copy (self->final));
  return FALSE;
}

static gboolean
fail_lie (BlobRead *self, GError **error, const char *what)
{
  am_fail (&self->final, AM_ERROR_DATA_LOSS, "BlobCorrupt", "%s: blob %s: %s", self->remote->base.display,
           self->digest, what);
  return fail_finally (self, error);
}

/* Only a 206 for exactly what was asked is appended; a 200 starts at the blob's beginning. */
static gboolean
read_start (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  BlobRead *self = data;
  const char *encoding = g_hash_table_lookup (headers, "content-encoding");
  const char *length = g_hash_table_lookup (headers, "content-length");
  guint64 first = 0, last = 0, total = G_MAXUINT64, body = G_MAXUINT64;
  if (encoding != NULL && g_ascii_strcasecmp (encoding, "identity") != 0)
    return fail_lie (self, error, "the registry sends it re-encoded");
  self->is_whole = status != 206;
  self->at_bytes = 0;
  if (length != NULL && !text_parse_u64 (length, &body))
    return fail_lie (self, error, "the answer's Content-Length is no number");
  if (self->is_whole)
    return body == G_MAXUINT64 || body >= self->end_bytes
           || fail_lie (self, error, "it is shorter in the registry than it should be");
  if (!http_content_range_parse (g_hash_table_lookup (headers, "content-range"), &first, &last, &total, NULL))
    return fail_lie (self, error, "the registry answered a range request without saying which range");
  if (first != self->position_bytes || last != self->end_bytes - 1)
    return fail_lie (self, error, "the registry answered with another range than was asked for");
  self->at_bytes = first;
  return TRUE;
}

static gboolean
read_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  BlobRead *self = data;
  const guint8 *from = bytes;
  /* A whole blob is passed over up to where we stand. */
  if (self->at_bytes < self->position_bytes)
    {
      gsize skip = (gsize) MIN (size, self->position_bytes - self->at_bytes);
      self->at_bytes += skip;
      from += skip;
      size -= skip;
    }
  gsize n = (gsize) MIN (size, self->end_bytes - self->position_bytes);
  if (n > 0 && !self->sink (ctx, self->data, from, n, &self->final))
    return fail_finally (self, error);
  self->position_bytes += n;
  self->at_bytes += size;
  if (n == size)
    return TRUE;
  if (!self->is_whole)
    return fail_lie (self, error, "more bytes came than were asked for");
  /* The end of what is wanted lies before the end of the blob, or the body never ends: either way enough. */
  self->is_done = TRUE;
  return am_fail (error, AM_ERROR_CANCELLED, NULL, "enough");
}

static gboolean
read_attempt (Ctx *ctx, BlobRead *self, GError **error)
{
  static const HttpDownload download = { read_start, read_write, NULL };
  g_autofree char *url = registry_client_url (self->remote->client, "blobs/%s", self->digest);
  g_autofree char *range = g_strdup_printf ("Range: bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT,
                                            self->position_bytes, self->end_bytes - 1);
  const char *headers[] = { range, NULL };
  HttpCall call = { .method = "GET", .url = url, .headers = headers, .download = &download, .download_data = self };
  g_auto (HttpReply) reply = { 0 };
  if (!registry_client_call (ctx, self->remote->client, REGISTRY_PULL, &call, &reply, error))
    return FALSE;
  return self->position_bytes == self->end_bytes
         || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "%s: blob %s: the body ended early",
                     self->remote->base.display, self->digest);
}

static gboolean
run (Ctx *ctx, BlobRead *self, GError **error)
{
  Retry retry = { .base_ms = self->remote->retry_base_ms, .furthest_bytes = self->position_bytes };
  while (self->position_bytes < self->end_bytes)
    {
      g_autoptr (GError) failure = NULL;
      if (read_attempt (ctx, self, &failure) || self->is_done)
        continue;
      retry_reached (&retry, self->position_bytes);
      if (self->final != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&self->final));
          return FALSE;
        }
      if (am_error_is (failure, AM_ERROR_NOT_FOUND))
        return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "%s has no blob %s", self->remote->base.display,
                        self->digest);
      if (!retry_wait (ctx, &retry, failure, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
remote_read_blob (Ctx *ctx, Repository *base, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                  BlobSink sink, gpointer data, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  guint64 total = 0;
  /* To the end means: to the end that the registry tells now; so no body is endless. */
  if (size_bytes == G_MAXUINT64 && !remote_blob_exists (ctx, base, digest, &total, error))
    return FALSE;
  if ((size_bytes == G_MAXUINT64 && offset_bytes > total)
      || (size_bytes != G_MAXUINT64 && size_bytes > G_MAXUINT64 - offset_bytes))
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL, "%s: the range is not within blob %s", base->display,
                    digest_format (digest, text));
  BlobRead read = { .remote = (Remote *) base,
                    .digest = digest_format (digest, text),
                    .end_bytes = size_bytes == G_MAXUINT64 ? total : offset_bytes + size_bytes,
                    .position_bytes = offset_bytes,
                    .sink = sink,
                    .data = data };
  return run (ctx, &read, error);
}
