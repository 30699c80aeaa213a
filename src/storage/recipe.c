#include "storage/recipe.h"

#include <xxhash.h>

#include "storage/chunk_frame.h"
#include "storage/wire.h"

#define MAGIC "AMRC"
#define VERSION 1
#define HEAD_SIZE (4 + 4 + 1 + 64 + 8 + 4)
#define SUM_SIZE 8

static void
make_starts (Recipe *self)
{
  self->starts = g_new (guint64, self->entries->len + 1);
  self->starts[0] = 0;
  for (guint i = 0; i < self->entries->len; i++)
    self->starts[i + 1] = self->starts[i] + g_array_index (self->entries, RecipeEntry, i).decoded_size;
}

Recipe *
recipe_new (const Digest *blob_digest, guint64 blob_size, GArray *entries)
{
  Recipe *self = g_new0 (Recipe, 1);
  self->blob_digest = *blob_digest;
  self->blob_size = blob_size;
  self->entries = g_array_ref (entries);
  make_starts (self);
  return self;
}

GBytes *
recipe_write (const Recipe *self)
{
  gsize size = HEAD_SIZE + (gsize) self->entries->len * RECIPE_ENTRY_SIZE + SUM_SIZE;
  guint8 *bytes = g_malloc0 (size);
  memcpy (bytes, MAGIC, 4);
  bytes[4] = VERSION;
  bytes[8] = (guint8) self->blob_digest.algorithm;
  memcpy (bytes + 9, self->blob_digest.bytes, digest_algorithm_size (self->blob_digest.algorithm));
  wire_put_u64 (bytes + 73, self->blob_size);
  wire_put_u32 (bytes + 81, self->entries->len);
  guint8 *next = bytes + HEAD_SIZE;
  for (guint i = 0; i < self->entries->len; i++, next += RECIPE_ENTRY_SIZE)
    {
      const RecipeEntry *entry = &g_array_index (self->entries, RecipeEntry, i);
      memcpy (next, entry->digest, 32);
      wire_put_u32 (next + 32, entry->decoded_size);
      wire_put_u32 (next + 36, entry->encoded_size);
    }
  wire_put_u64 (next, XXH3_64bits (bytes, size - SUM_SIZE));
  return g_bytes_new_take (bytes, size);
}

static gboolean
are_zero (const guint8 *bytes, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (bytes[i] != 0)
      return FALSE;
  return TRUE;
}

static const char *
envelope_problem (const guint8 *bytes, gsize size)
{
  if (size < HEAD_SIZE + SUM_SIZE || memcmp (bytes, MAGIC, 4) != 0)
    return "not a recipe";
  if (wire_get_u64 (bytes + size - SUM_SIZE) != XXH3_64bits (bytes, size - SUM_SIZE))
    return "its checksum is wrong";
  if (bytes[4] != VERSION || bytes[8] > DIGEST_SHA512 || !are_zero (bytes + 5, 3))
    return "unknown version or digest algorithm";
  gsize n_digest = digest_algorithm_size ((DigestAlgorithm) bytes[8]);
  if (!are_zero (bytes + 9 + n_digest, DIGEST_MAX_BYTES - n_digest))
    return "unknown version or digest algorithm";
  guint64 n_chunks = wire_get_u32 (bytes + 81);
  if (n_chunks > RECIPE_MAX_CHUNKS || HEAD_SIZE + n_chunks * RECIPE_ENTRY_SIZE + SUM_SIZE != size)
    return "its length disagrees with its chunk count";
  return NULL;
}

static const char *
read_entries (const guint8 *next, guint n_chunks, guint64 blob_size, GArray *entries)
{
  guint64 total = 0;
  for (guint i = 0; i < n_chunks; i++, next += RECIPE_ENTRY_SIZE)
    {
      RecipeEntry entry = { .decoded_size = wire_get_u32 (next + 32), .encoded_size = wire_get_u32 (next + 36) };
      memcpy (entry.digest, next, 32);
      if (entry.decoded_size == 0 || entry.decoded_size > CHUNK_MAX_BYTES || entry.encoded_size == 0
          || entry.encoded_size > CHUNK_MAX_ENCODED_BYTES)
        return "a chunk's size is out of bounds";
      total += entry.decoded_size;
      g_array_append_val (entries, entry);
    }
  return total == blob_size ? NULL : "its chunks do not add up to the blob";
}

Recipe *
recipe_read (GBytes *content, const Digest *expected, GError **error)
{
  gsize size;
  const guint8 *bytes = g_bytes_get_data (content, &size);
  const char *problem = envelope_problem (bytes, size);
  if (problem != NULL)
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "RecipeCorrupt", "damaged recipe: %s", problem);
  Digest digest = { .algorithm = (DigestAlgorithm) bytes[8] };
  memcpy (digest.bytes, bytes + 9, digest_algorithm_size (digest.algorithm));
  guint n_chunks = wire_get_u32 (bytes + 81);
  guint64 blob_size = wire_get_u64 (bytes + 73);
  g_autoptr (GArray) entries = g_array_sized_new (FALSE, FALSE, sizeof (RecipeEntry), n_chunks);
  problem = read_entries (bytes + HEAD_SIZE, n_chunks, blob_size, entries);
  if (problem == NULL && expected != NULL && !digest_equal (expected, &digest))
    problem = "it belongs to another blob";
  if (problem != NULL)
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "RecipeCorrupt", "damaged recipe: %s", problem);
  return recipe_new (&digest, blob_size, entries);
}

guint
recipe_find (const Recipe *self, guint64 offset_bytes)
{
  guint low = 0, high = self->entries->len;
  while (high - low > 1)
    {
      guint middle = low + (high - low) / 2;
      if (self->starts[middle] <= offset_bytes)
        low = middle;
      else
        high = middle;
    }
  return low;
}

guint64
recipe_encoded_bytes (const Recipe *self)
{
  guint64 total = 0;
  for (guint i = 0; i < self->entries->len; i++)
    total += g_array_index (self->entries, RecipeEntry, i).encoded_size + CHUNK_HEADER_SIZE;
  return total;
}

void
recipe_free (Recipe *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->entries);
  g_free (self->starts);
  g_free (self);
}
