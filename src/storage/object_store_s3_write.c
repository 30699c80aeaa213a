/* Writing an object of a bucket: held in memory until its key is known, then one request. */
#include "storage/object_store_s3_private.h"

#include <string.h>

#include "base/text.h"

#define MAX_OBJECT_BYTES (64u << 20)

typedef struct {
  ObjectWriter base;
  S3Store *store;
  GByteArray *bytes;
} S3Writer;

static gboolean
append (Ctx *ctx, ObjectWriter *base, gconstpointer data, gsize size, GError **error)
{
  S3Writer *self = (S3Writer *) base;
  if (size > MAX_OBJECT_BYTES - self->bytes->len)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "an object in a bucket can have at most %u bytes",
                    MAX_OBJECT_BYTES);
  g_byte_array_append (self->bytes, data, (guint) size);
  return TRUE;
}

static gboolean
patch (Ctx *ctx, ObjectWriter *base, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  S3Writer *self = (S3Writer *) base;
  if (size > self->bytes->len || offset_bytes > self->bytes->len - size)
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL, "only bytes that were written can be overwritten");
  memcpy (self->bytes->data + offset_bytes, data, size);
  return TRUE;
}

static gboolean
put (Ctx *ctx, S3Writer *self, const char *key, const S3Pair *headers, gsize n_headers, GError **error)
{
  S3Call call = { .method = "PUT",
                  .key = key,
                  .headers = headers,
                  .n_headers = n_headers,
                  .body = self->bytes->data,
                  .body_size = self->bytes->len,
                  .sends_checksum = self->store->profile.takes_checksum };
  return s3_client_call (ctx, self->store->client, &call, NULL, error);
}

gboolean
s3_store_is_from (Ctx *ctx, S3Store *self, const char *key, const char *writer)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) problem = NULL;
  S3Call call = { .method = "HEAD", .key = key };
  if (s3_client_call (ctx, self->client, &call, &reply, &problem))
    return g_strcmp0 (http_reply_header (&reply, S3_WRITER_HEADER), writer) == 0;
  am_ignore (&problem, "an object that cannot be looked at counts as another's");
  return FALSE;
}

GMutex *
s3_store_gate (S3Store *self, const char *key)
{
  return &self->gates[g_str_hash (key) % S3_N_GATES];
}

static gboolean
fail_exists (GError **error, const char *key)
{
  return am_fail (error, AM_ERROR_ALREADY_EXISTS, NULL, "object %s is there already", key);
}

static gboolean
put_if_absent (Ctx *ctx, S3Writer *self, const char *key, GError **error)
{
  char writer[37];
  g_autoptr (GError) problem = NULL;
  text_uuid (writer);
  const S3Pair headers[] = { { "if-none-match", "*" }, { S3_WRITER_HEADER, writer } };
  if (put (ctx, self, key, headers, G_N_ELEMENTS (headers), &problem))
    return TRUE;
  /* It may be our own: an earlier attempt's answer may have got lost, also where libcurl by itself sent the request again
   * over a new connection. */
  if (am_error_is (problem, AM_ERROR_ALREADY_EXISTS))
    return s3_store_is_from (ctx, self->store, key, writer) || fail_exists (error, key);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

/* For stores that do not keep conditional writes apart: right as long as no other process writes the same key. */
static gboolean
look_and_put (Ctx *ctx, S3Writer *self, const char *key, GError **error)
{
  gboolean exists;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (s3_store_gate (self->store, key));
  if (!object_store_exists (ctx, &self->store->base, key, &exists, error))
    return FALSE;
  return exists ? fail_exists (error, key) : put (ctx, self, key, NULL, 0, error);
}

static gboolean
commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  S3Writer *self = (S3Writer *) base;
  if ((flags & OBJECT_COMMIT_IF_ABSENT) == 0)
    return put (ctx, self, key, NULL, 0, error);
  return self->store->profile.if_none_match ? put_if_absent (ctx, self, key, error)
                                            : look_and_put (ctx, self, key, error);
}

static void
writer_free (ObjectWriter *base)
{
  S3Writer *self = (S3Writer *) base;
  g_byte_array_unref (self->bytes);
  g_free (self);
}

ObjectWriter *
s3_store_create (Ctx *ctx, ObjectStore *base, GError **error)
{
  static const ObjectWriterClass klass = { append, patch, commit, writer_free };
  S3Writer *self = g_new0 (S3Writer, 1);
  self->base.klass = &klass;
  self->store = (S3Store *) base;
  self->bytes = g_byte_array_new ();
  return &self->base;
}
