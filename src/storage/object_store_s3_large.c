/* Writing an object of a bucket whose key is known at once: what does not fit into one part goes there as a multipart
 * upload, part by part, and becomes visible by its completion. */
#include "storage/object_store_s3_private.h"

#include <string.h>

#include "base/text.h"
#include "storage/s3_multipart.h"

/* Dropping what was sent must not take for ever. */
#define ABORT_TIMEOUT_MS 20000

typedef struct {
  ObjectWriter base;
  S3Store *store;
  char *key;
  char writer[37];
  char *id; /* of the upload; NULL: none was begun */
  guint n_parts;
  GString *parts; /* what completing says of them */
  guint64 n_sent;
  GByteArray *bytes; /* not sent yet, at most a part */
} LargeWriter;

static gboolean
send_part (Ctx *ctx, LargeWriter *self, GError **error)
{
  S3Store *store = self->store;
  gboolean sends_checksum = store->profile.takes_checksum;
  const S3Pair meta = { S3_WRITER_HEADER, self->writer };
  if (self->n_parts == S3_MAX_PARTS)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                    "an object in a bucket can have at most %u parts, %" G_GUINT64_FORMAT " bytes", S3_MAX_PARTS,
                    self->n_sent);
  if (self->id == NULL)
    self->id = s3_multipart_begin (ctx, store->client, self->key, sends_checksum, &meta, error);
  if (self->id == NULL
      || !s3_multipart_send (ctx, store->client, self->key, self->id, self->n_parts + 1, self->bytes->data,
                             self->bytes->len, sends_checksum, self->parts, error))
    return FALSE;
  self->n_parts++;
  self->n_sent += self->bytes->len;
  g_byte_array_set_size (self->bytes, 0);
  return TRUE;
}

static gboolean
append (Ctx *ctx, ObjectWriter *base, gconstpointer data, gsize size, GError **error)
{
  LargeWriter *self = (LargeWriter *) base;
  for (const guint8 *at = data; size > 0;)
    {
      gsize n = MIN (size, s3_part_bytes (self->n_parts) - self->bytes->len);
      if (n == 0)
        {
          if (!send_part (ctx, self, error))
            return FALSE;
          continue;
        }
      g_byte_array_append (self->bytes, at, (guint) n);
      at += n;
      size -= n;
    }
  return TRUE;
}

static gboolean
patch (Ctx *ctx, ObjectWriter *base, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  LargeWriter *self = (LargeWriter *) base;
  if (size > self->bytes->len || offset_bytes < self->n_sent || offset_bytes - self->n_sent > self->bytes->len - size)
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL,
                    "only bytes that were written and not sent can be overwritten");
  memcpy (self->bytes->data + (offset_bytes - self->n_sent), data, size);
  return TRUE;
}

/* All in one request after all. */
static gboolean
commit_small (Ctx *ctx, LargeWriter *self, ObjectCommitFlags flags, GError **error)
{
  g_autoptr (ObjectWriter) writer = s3_store_create (ctx, &self->store->base, error);
  return object_writer_append (ctx, writer, self->bytes->data, self->bytes->len, error)
         && object_writer_commit (ctx, writer, self->key, flags, error);
}

/* An upload that is not there any more may have been completed by an attempt whose answer got lost. */
static gboolean
complete (Ctx *ctx, LargeWriter *self, gboolean if_absent, GError **error)
{
  S3Store *store = self->store;
  g_autoptr (GError) problem = NULL;
  gboolean done = s3_multipart_complete (ctx, store->client, self->key, self->id, self->parts->str,
                                         if_absent && store->profile.if_none_match, &problem);
  if (!done && (am_error_is (problem, AM_ERROR_NOT_FOUND) || am_error_is (problem, AM_ERROR_ALREADY_EXISTS)))
    done = s3_store_is_from (ctx, store, self->key, self->writer);
  if (!done)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_clear_pointer (&self->id, g_free);
  return TRUE;
}

/* Not every store that keeps conditional writes apart does so for uploads in parts: it is looked at as well. */
static gboolean
complete_if_absent (Ctx *ctx, LargeWriter *self, GError **error)
{
  gboolean exists = FALSE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (s3_store_gate (self->store, self->key));
  if (!object_store_exists (ctx, &self->store->base, self->key, &exists, error))
    return FALSE;
  if (exists && !s3_store_is_from (ctx, self->store, self->key, self->writer))
    return am_fail (error, AM_ERROR_ALREADY_EXISTS, NULL, "object %s is there already", self->key);
  return complete (ctx, self, TRUE, error);
}

static gboolean
commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  LargeWriter *self = (LargeWriter *) base;
  g_assert (strcmp (key, self->key) == 0);
  if (self->n_parts == 0)
    return commit_small (ctx, self, flags, error);
  if (!send_part (ctx, self, error))
    return FALSE;
  return (flags & OBJECT_COMMIT_IF_ABSENT) != 0 ? complete_if_absent (ctx, self, error)
                                                : complete (ctx, self, FALSE, error);
}

static void
writer_free (ObjectWriter *base)
{
  LargeWriter *self = (LargeWriter *) base;
  g_autoptr (GError) problem = NULL;
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, ABORT_TIMEOUT_MS);
  if (self->id != NULL && !s3_multipart_abort (ctx, self->store->client, self->key, self->id, &problem))
    am_ignore (&problem, "the next start sweeps it");
  g_free (self->id);
  g_free (self->key);
  g_string_free (self->parts, TRUE);
  g_byte_array_unref (self->bytes);
  g_free (self);
}

ObjectWriter *
s3_store_create_at (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  static const ObjectWriterClass klass = { append, patch, commit, writer_free };
  LargeWriter *self = g_new0 (LargeWriter, 1);
  self->base.klass = &klass;
  self->store = (S3Store *) base;
  self->key = g_strdup (key);
  self->parts = g_string_new (NULL);
  self->bytes = g_byte_array_new ();
  text_uuid (self->writer);
  return &self->base;
}
