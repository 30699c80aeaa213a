/* Reading an object of a bucket: the first request brings size and bytes, and all of them when it is no larger than
 * a chunk. */
#include "storage/object_store_s3_private.h"

#include <string.h>

#include "base/text.h"
#include "net/http_range.h"

#define WINDOW_BYTES (9u << 20) /* a chunk's frame fits */

typedef struct {
  Reader base;
  S3Client *client;
  char *key, *etag;
  guint64 start; /* of the window in the object */
  guint8 *window;
  gsize window_size;
} S3Reader;

/* One ranged request. */
typedef struct {
  guint64 wanted_first, wanted_size;
  guint64 total;
  char *etag;
  guint8 *bytes;
  gsize size, filled;
} Fetch;

static void
fetch_clear (Fetch *self)
{
  g_free (self->etag);
  g_free (self->bytes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Fetch, fetch_clear)

/* A store may answer with the whole object: fine where that is what was asked for. */
static gboolean
read_extent (Fetch *self, guint status, GHashTable *headers, GError **error)
{
  guint64 first = 0, last = 0;
  const char *length = g_hash_table_lookup (headers, "content-length");
  if (status == 206)
    {
      if (!http_content_range_parse (g_hash_table_lookup (headers, "content-range"), &first, &last, &self->total,
                                     error))
        return FALSE;
      self->size = (gsize) MIN (last - first + 1, (guint64) WINDOW_BYTES + 1);
    }
  else if (length != NULL && text_parse_u64 (length, &self->total))
    self->size = (gsize) MIN (self->total, (guint64) WINDOW_BYTES + 1);
  else
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store does not say how long the object is");
  if (self->total == G_MAXUINT64 || first != self->wanted_first || self->size > self->wanted_size
      || self->size < MIN (self->wanted_size, self->total - MIN (self->total, first)))
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL,
                    "the object store answers with another range than was asked for");
  return TRUE;
}

static gboolean
on_start (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  Fetch *self = data;
  self->filled = 0;
  g_clear_pointer (&self->bytes, g_free);
  g_free (self->etag);
  self->etag = g_strdup (g_hash_table_lookup (headers, "etag"));
  if (!read_extent (self, status, headers, error))
    return FALSE;
  self->bytes = g_malloc (self->size + 1);
  return TRUE;
}

static gboolean
on_bytes (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Fetch *self = data;
  if (size > self->size - self->filled)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store sends more than it announced");
  memcpy (self->bytes + self->filled, bytes, size);
  self->filled += size;
  return TRUE;
}

static gboolean
fetch (Ctx *ctx, S3Client *client, const char *key, const char *etag, Fetch *self, GError **error)
{
  static const HttpDownload sink = { on_start, on_bytes, NULL };
  g_autofree char *range = g_strdup_printf ("bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, self->wanted_first,
                                            self->wanted_first + self->wanted_size - 1);
  const S3Pair headers[] = { { "range", range }, { "if-match", etag } };
  S3Call call = { .method = "GET",
                  .key = key,
                  .headers = headers,
                  .n_headers = etag != NULL ? 2 : 1,
                  .download = &sink,
                  .download_data = self };
  g_autoptr (GError) problem = NULL;
  if (s3_client_call (ctx, client, &call, NULL, &problem))
    return self->filled == self->size
           || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "object %s: the object store sends less than it announced",
                       key);
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "there is no object %s", key);
  if (etag != NULL && am_error_is (problem, AM_ERROR_ALREADY_EXISTS))
    return am_fail (error, AM_ERROR_ABORTED, NULL, "object %s was replaced while it was read", key);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static void
take_window (S3Reader *self, Fetch *fetched)
{
  g_free (self->window);
  self->window = g_steal_pointer (&fetched->bytes);
  self->window_size = fetched->filled;
  self->start = fetched->wanted_first;
}

static gboolean
move_window (Ctx *ctx, S3Reader *self, guint64 offset_bytes, GError **error)
{
  g_auto (Fetch) fetched = { .wanted_first = offset_bytes,
                             .wanted_size = MIN (WINDOW_BYTES, self->base.size_bytes - offset_bytes) };
  if (!fetch (ctx, self->client, self->key, self->etag, &fetched, error))
    return FALSE;
  take_window (self, &fetched);
  return TRUE;
}

static gboolean
read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  S3Reader *self = (S3Reader *) base;
  guint8 *out = buffer;
  while (size > 0)
    {
      gboolean inside = offset_bytes >= self->start && offset_bytes - self->start < self->window_size;
      if (!inside && !move_window (ctx, self, offset_bytes, error))
        return FALSE;
      gsize skip = (gsize) (offset_bytes - self->start);
      gsize n = MIN (size, self->window_size - skip);
      memcpy (out, self->window + skip, n);
      out += n;
      offset_bytes += n;
      size -= n;
    }
  return TRUE;
}

static void
reader_close (Reader *base)
{
  S3Reader *self = (S3Reader *) base;
  g_free (self->key);
  g_free (self->etag);
  g_free (self->window);
  g_free (self);
}

static Reader *
reader_from (S3Store *store, const char *key, Fetch *fetched)
{
  static const ReaderClass klass = { read_at, reader_close };
  S3Reader *self = g_new0 (S3Reader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = fetched->total;
  self->client = store->client;
  self->key = g_strdup (key);
  self->etag = g_steal_pointer (&fetched->etag);
  take_window (self, fetched);
  return &self->base;
}

Reader *
s3_store_open_head (Ctx *ctx, ObjectStore *base, const char *key, gsize head_bytes, GError **error)
{
  S3Store *self = (S3Store *) base;
  g_auto (Fetch) fetched = { .wanted_size = MIN (head_bytes, WINDOW_BYTES) };
  g_autoptr (GError) problem = NULL;
  ObjectInfo info = { 0 };
  if (fetch (ctx, self->client, key, NULL, &fetched, &problem))
    return reader_from (self, key, &fetched);
  /* An empty object has no range that could be asked for. */
  if (am_error_is (problem, AM_ERROR_OUT_OF_RANGE) && base->klass->stat (ctx, base, key, &info, error))
    {
      if (info.size_bytes == 0)
        return reader_from (self, key, &fetched);
    }
  if (error == NULL || *error == NULL)
    g_propagate_error (error, g_steal_pointer (&problem));
  return NULL;
}

Reader *
s3_store_open (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  return s3_store_open_head (ctx, base, key, WINDOW_BYTES, error);
}
