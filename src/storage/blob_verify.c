/* Rereading a blob: every stored byte is read, decoded and hashed. And the random-access view of one. */
#include <string.h>

#include "base/sha256.h"
#include "storage/blob_store.h"
#include "storage/chunk_frame.h"

#define WHOLE_BLOCK_BYTES (1u << 20)

typedef struct {
  void (*on_bytes) (guint64 n_bytes, gpointer data);
  gpointer data;
} Listener;

static gboolean
check_digest (const Digest *expected, const Digest *actual, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  if (digest_equal (expected, actual))
    return TRUE;
  return am_fail (error, AM_ERROR_DATA_LOSS, "BlobCorrupt", "blob %s is damaged: its bytes have another digest",
                  digest_format (expected, text));
}

/* The blob's own digest over everything it reads as. */
static gboolean
verify_stream (Ctx *ctx, BlobStore *self, const Digest *digest, const Listener *listener, GError **error)
{
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self, digest, 0, error);
  g_autoptr (Hasher) hasher = hasher_new (digest->algorithm);
  g_autofree guint8 *block = g_malloc (WHOLE_BLOCK_BYTES);
  if (reader == NULL)
    return FALSE;
  for (;;)
    {
      gssize n = blob_reader_read (ctx, reader, block, WHOLE_BLOCK_BYTES, error);
      if (n < 0)
        return FALSE;
      if (n == 0)
        break;
      hasher_update (hasher, block, (gsize) n);
      if (listener->on_bytes != NULL)
        listener->on_bytes ((guint64) n, listener->data);
    }
  Digest actual;
  hasher_finish (hasher, &actual);
  return check_digest (digest, &actual, error);
}

static gboolean
verify_chunks (Ctx *ctx, BlobStore *self, const Recipe *recipe, const Listener *listener, GError **error)
{
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  g_autoptr (Hasher) hasher = hasher_new (recipe->blob_digest.algorithm);
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (recipe->entries, RecipeEntry, i);
      gssize n = blob_store_read_chunk (ctx, self, entry->digest, chunk, error);
      if (n < 0)
        {
          g_autofree char *key = chunk_key (entry->digest);
          g_prefix_error (error, "object %s: ", key);
          return FALSE;
        }
      hasher_update (hasher, chunk, (gsize) n);
      if (listener->on_bytes != NULL)
        listener->on_bytes ((guint64) n, listener->data);
    }
  Digest actual;
  hasher_finish (hasher, &actual);
  return check_digest (&recipe->blob_digest, &actual, error);
}

gboolean
blob_store_verify (Ctx *ctx, BlobStore *self, const Digest *digest, void (*on_bytes) (guint64 n_bytes, gpointer data),
                   gpointer data, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  g_autoptr (GError) problem = NULL;
  Listener listener = { on_bytes, data };
  g_autoptr (Recipe) recipe = blob_store_recipe (ctx, self, digest, &problem);
  gboolean ok = problem == NULL
                && (recipe != NULL ? verify_chunks (ctx, self, recipe, &listener, &problem)
                                   : verify_stream (ctx, self, digest, &listener, &problem));
  if (ok)
    return TRUE;
  /* A chunk that is gone is a loss for this blob, whatever the store calls it. */
  if (am_error_has_reason (problem, "CHUNK_UNKNOWN"))
    return am_fail (error, AM_ERROR_DATA_LOSS, "CHUNK_UNKNOWN", "blob %s: %s", digest_format (digest, text),
                    problem->message);
  g_propagate_prefixed_error (error, g_steal_pointer (&problem), "blob %s: ", digest_format (digest, text));
  return FALSE;
}

/* Random access: the reader is kept while reads go forward and opened anew when they jump. */
typedef struct {
  Reader base;
  BlobStore *store;
  Digest digest;
  BlobReader *reader;
  guint64 position;
} BlobRandom;

static gboolean
random_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  BlobRandom *self = (BlobRandom *) base;
  if (self->reader == NULL || self->position != offset_bytes)
    {
      g_clear_pointer (&self->reader, blob_reader_free);
      self->reader = blob_store_open (ctx, self->store, &self->digest, offset_bytes, error);
      if (self->reader == NULL)
        return FALSE;
      self->position = offset_bytes;
    }
  for (gsize done = 0; done < size;)
    {
      gssize n = blob_reader_read (ctx, self->reader, (guint8 *) buffer + done, size - done, error);
      if (n <= 0)
        {
          g_clear_pointer (&self->reader, blob_reader_free);
          return n < 0 ? FALSE : am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the blob is cut short");
        }
      done += (gsize) n;
      self->position += (guint64) n;
    }
  return TRUE;
}

static void
random_free (Reader *base)
{
  BlobRandom *self = (BlobRandom *) base;
  blob_reader_free (self->reader);
  g_free (self);
}

Reader *
blob_store_open_reader (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error)
{
  static const ReaderClass klass = { random_read_at, random_free };
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self, digest, 0, error);
  if (reader == NULL)
    return NULL;
  BlobRandom *random = g_new0 (BlobRandom, 1);
  random->base = (Reader) { &klass, blob_reader_size (reader) };
  random->store = self;
  random->digest = *digest;
  random->reader = g_steal_pointer (&reader);
  return &random->base;
}
