/* Rereading a blob: every stored byte is read, decoded and hashed. */
#include <string.h>

#include "base/blake3.h"
#include "base/sha256.h"
#include "storage/blob_store.h"
#include "storage/chunk_reader.h"

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

/* Hashes a chunk's bytes for the chunk and for the blob in one go. */
static gboolean
verify_chunk (Ctx *ctx, ChunkReader *reader, const RecipeEntry *entry, Sha256 *blob_sha, Hasher *blob_hasher,
              guint8 *stripe, GError **error)
{
  Blake3 chunk_hash;
  guint8 actual[CHUNK_DIGEST_SIZE];
  blake3_init (&chunk_hash);
  if (!chunk_reader_open (ctx, reader, entry->digest, error))
    return FALSE;
  for (gsize n = chunk_reader_stripe_size (reader); n > 0; n = chunk_reader_stripe_size (reader))
    {
      if (!ctx_check (ctx, error) || !chunk_reader_next (ctx, reader, stripe, error))
        return FALSE;
      blake3_update (&chunk_hash, stripe, n);
      if (blob_hasher != NULL)
        hasher_update (blob_hasher, stripe, n);
      else
        sha256_update (blob_sha, stripe, n);
    }
  blake3_peek (&chunk_hash, actual);
  if (memcmp (actual, entry->digest, sizeof actual) == 0)
    return TRUE;
  g_autofree char *key = chunk_key (entry->digest);
  return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt",
                  "object %s: damaged chunk: its bytes have another digest", key);
}

static gboolean
verify_chunks (Ctx *ctx, BlobStore *self, const Recipe *recipe, const Listener *listener, GError **error)
{
  g_autofree guint8 *stripe = g_malloc (CHUNK_STRIPE_BYTES);
  g_autoptr (ChunkReader) reader = chunk_reader_new (blob_store_objects (self));
  gboolean is_sha256 = recipe->blob_digest.algorithm == DIGEST_SHA256;
  g_autoptr (Hasher) hasher = is_sha256 ? NULL : hasher_new (recipe->blob_digest.algorithm);
  Sha256 sha;
  Digest actual;
  sha256_init (&sha);
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (recipe->entries, RecipeEntry, i);
      if (!verify_chunk (ctx, reader, entry, &sha, hasher, stripe, error))
        return FALSE;
      if (listener->on_bytes != NULL)
        listener->on_bytes (entry->decoded_size, listener->data);
    }
  if (is_sha256)
    sha256_peek (&sha, &actual);
  else
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
  if (problem == NULL && recipe == NULL)
    return verify_stream (ctx, self, digest, &listener, error);
  if (problem == NULL && verify_chunks (ctx, self, recipe, &listener, &problem))
    return TRUE;
  /* A chunk that is gone is a loss for this blob, whatever the store calls it. */
  digest_format (digest, text);
  if (am_error_has_reason (problem, "CHUNK_UNKNOWN"))
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkMissing", "blob %s: %s", text, problem->message);
  if (am_error_has_reason (problem, "BLOB_UNKNOWN") || am_error_has_reason (problem, "BlobCorrupt"))
    g_propagate_error (error, g_steal_pointer (&problem)); /* names the blob already */
  else
    g_propagate_prefixed_error (error, g_steal_pointer (&problem), "blob %s: ", text);
  return FALSE;
}
