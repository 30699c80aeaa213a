/* What lies in the store and was changed behind its back: no wrong byte is handed out as right, and errors name the
 * object. */
#include <string.h>
#include <unistd.h>

#include "storage/blob_store.h"
#include "storage/chunk_frame.h"
#include "storage/storage_fixture.h"

#define MiB ((gsize) 1 << 20)
#define STRIPE ((gsize) CHUNK_STRIPE_BYTES)

typedef struct {
  GBytes *bytes;
  Digest digest;
  Recipe *recipe;
  char *recipe_key;
  char *chunk_keys[4];
} Stored;

static void
stored_init (Stored *stored, const StorageFixture *self, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  *stored = (Stored){ .bytes = bytes, .digest = fixture_upload (self, bytes) };
  stored->recipe = blob_store_recipe (NULL, self->blobs, &stored->digest, &error);
  g_assert_no_error (error);
  stored->recipe_key = blob_recipe_key (&stored->digest);
  g_assert_cmpuint (stored->recipe->entries->len, <=, G_N_ELEMENTS (stored->chunk_keys));
  for (guint i = 0; i < stored->recipe->entries->len; i++)
    stored->chunk_keys[i] = chunk_key (g_array_index (stored->recipe->entries, RecipeEntry, i).digest);
}

static void
stored_clear (Stored *stored)
{
  g_clear_pointer (&stored->bytes, g_bytes_unref);
  g_clear_pointer (&stored->recipe, recipe_free);
  g_clear_pointer (&stored->recipe_key, g_free);
  for (guint i = 0; i < G_N_ELEMENTS (stored->chunk_keys); i++)
    g_clear_pointer (&stored->chunk_keys[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Stored, stored_clear)

/* A file of two tensors: header, a chunk of 1.5 MiB and one of 2. */
static void
store_model (Stored *stored, const StorageFixture *self, guint unit_bytes)
{
  static const gsize sizes[] = { 3 * MiB / 2, 2 * MiB };
  static const char *const dtypes[] = { "", "F8_E4M3", "BF16", "", "F32" };
  stored_init (stored, self, fixture_safetensors (7, dtypes[unit_bytes], unit_bytes, sizes, 2, 0));
  g_assert_cmpuint (stored->recipe->entries->len, ==, 3);
}

static void
assert_names (const GError *error, const char *key)
{
  g_assert_nonnull (error);
  if (strstr (error->message, key) == NULL)
    g_error ("\"%s\" does not name %s", error->message, key);
}

/* Reads all; FALSE with the error. What was handed out before it is right. */
static gboolean
read_all (const StorageFixture *self, const Stored *stored, guint64 offset, GError **error)
{
  g_autoptr (BlobReader) reader = blob_store_open (NULL, self->blobs, &stored->digest, offset, error);
  g_autofree guint8 *buffer = g_malloc (STRIPE);
  const guint8 *wanted = g_bytes_get_data (stored->bytes, NULL);
  if (reader == NULL)
    return FALSE;
  for (;;)
    {
      gssize n = blob_reader_read (NULL, reader, buffer, STRIPE, error);
      if (n > 0)
        g_assert_cmpint (memcmp (buffer, wanted + offset, (gsize) n), ==, 0);
      if (n < 0)
        g_assert_cmpint (blob_reader_read (NULL, reader, buffer, STRIPE, NULL), ==, -1); /* for ever */
      if (n <= 0)
        return n == 0;
      offset += (guint64) n;
    }
}

static void
expect_loss (const StorageFixture *self, const Stored *stored, const char *reason, const char *key)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (read_all (self, stored, 0, &error));
  assert_names (error, key);
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, reason);
  g_assert_null (blob_store_get (NULL, self->blobs, &stored->digest, 16 * MiB, &error));
  assert_names (error, key);
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, reason);
  g_assert_false (blob_store_verify (NULL, self->blobs, &stored->digest, NULL, NULL, &error));
  assert_names (error, key);
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, reason);
}

static char *
read_object (const StorageFixture *self, const char *key, gsize *out_size)
{
  g_autofree char *path = fixture_path (self, key);
  char *content = NULL;
  g_assert_true (g_file_get_contents (path, &content, out_size, NULL));
  return content;
}

static void
write_object (const StorageFixture *self, const char *key, gconstpointer content, gsize size)
{
  g_autofree char *path = fixture_path (self, key);
  g_assert_true (g_file_set_contents (path, content, (gssize) size, NULL));
}

/* A flip in a chunk either is refused or is one of those that change nothing. */
static void
check_chunk_flip (const StorageFixture *self, const Stored *stored, gsize at, guint8 mask)
{
  g_autoptr (GError) error = NULL;
  const char *key = stored->chunk_keys[1];
  fixture_flip (self, key, at, mask);
  if (read_all (self, stored, 0, &error))
    {
      g_assert_cmpuint (at, >, CHUNK_HEADER_SIZE);
      g_assert_true (blob_store_verify (NULL, self->blobs, &stored->digest, NULL, NULL, NULL));
    }
  else
    {
      g_clear_error (&error);
      expect_loss (self, stored, "ChunkCorrupt", key);
    }
  fixture_flip (self, key, at, mask);
}

static void
test_flipped_chunk (StorageFixture *self, gconstpointer data)
{
  static const guint units[] = { 1, 2, 4 };
  for (gsize u = 0; u < G_N_ELEMENTS (units); u++)
    {
      g_auto (Stored) stored;
      store_model (&stored, self, units[u]);
      gsize size = CHUNK_HEADER_SIZE + g_array_index (stored.recipe->entries, RecipeEntry, 1).encoded_size;
      for (gsize at = 0; at < CHUNK_HEADER_SIZE + 24; at++)
        check_chunk_flip (self, &stored, at, (guint8) (1u << at % 8));
      for (guint i = 0; i < 30; i++)
        check_chunk_flip (self, &stored, (gsize) g_test_rand_int_range (CHUNK_HEADER_SIZE, (gint32) size),
                          (guint8) (1u << i % 8));
      check_chunk_flip (self, &stored, size - 1, 0x80);
    }
}

/* Behind a range that was not asked for, damage is nobody's business. */
static void
test_flip_elsewhere (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  g_autoptr (GError) error = NULL;
  store_model (&stored, self, 2);
  fixture_flip (self, stored.chunk_keys[1], CHUNK_HEADER_SIZE, 1); /* the first stripe's sum */
  g_assert_true (read_all (self, &stored, stored.recipe->starts[1] + STRIPE, &error));
  g_assert_true (read_all (self, &stored, stored.recipe->starts[2], &error));
  g_assert_false (read_all (self, &stored, stored.recipe->starts[1] + STRIPE - 1, &error));
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
}

static void
test_cut_chunk (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  gsize size;
  store_model (&stored, self, 2);
  const char *key = stored.chunk_keys[2];
  g_autofree char *content = read_object (self, key, &size);
  const gsize cuts[] = { 0, 1, CHUNK_HEADER_SIZE - 1, CHUNK_HEADER_SIZE, CHUNK_HEADER_SIZE + 7, size / 2, size - 1 };
  for (gsize i = 0; i < G_N_ELEMENTS (cuts); i++)
    {
      write_object (self, key, content, cuts[i]);
      expect_loss (self, &stored, "ChunkCorrupt", key);
    }
  g_autofree char *longer = g_malloc0 (size + 1);
  memcpy (longer, content, size);
  write_object (self, key, longer, size + 1);
  expect_loss (self, &stored, "ChunkCorrupt", key);
}

static void
test_missing_chunk (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  store_model (&stored, self, 2);
  for (guint i = 0; i < 3; i++)
    {
      gsize size;
      g_autoptr (GError) error = NULL;
      const char *key = stored.chunk_keys[i];
      g_autofree char *path = fixture_path (self, key);
      g_autofree char *content = read_object (self, key, &size);
      g_assert_cmpint (unlink (path), ==, 0);
      expect_loss (self, &stored, "ChunkMissing", key);
      g_assert_cmpint (read_all (self, &stored, stored.recipe->starts[i + 1], &error), ==, TRUE);
      g_assert_false (read_all (self, &stored, stored.recipe->starts[i + 1] - 1, &error));
      fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkMissing");
      write_object (self, key, content, size);
      g_assert_true (read_all (self, &stored, 0, &error));
    }
}

/* A sound frame at another's place. */
static void
test_swapped_chunk (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  gsize size;
  store_model (&stored, self, 2);
  g_autofree char *content = read_object (self, stored.chunk_keys[1], &size);
  write_object (self, stored.chunk_keys[2], content, size);
  expect_loss (self, &stored, "ChunkCorrupt", stored.chunk_keys[2]);
}

static void
put_frame (const StorageFixture *self, const char *key, const ChunkDigest *digest, gsize size)
{
  g_autoptr (GBytes) other = fixture_bytes (BYTES_TEXT, 99, size);
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  chunk_encode (encoder, 0, g_bytes_get_data (other, NULL), size, digest, frame);
  write_object (self, key, frame->data, frame->len);
}

/* A frame that is in order but holds other bytes than its name says, or fewer than the recipe. */
static void
test_forged_chunk (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  store_model (&stored, self, 2);
  const char *key = stored.chunk_keys[2];
  const RecipeEntry *entry = &g_array_index (stored.recipe->entries, RecipeEntry, 2);
  ChunkDigest digest;
  memcpy (digest.bytes, entry->digest, 32);
  put_frame (self, key, &digest, entry->decoded_size);
  g_assert_cmpint (blob_store_read_chunk (NULL, self->blobs, entry->digest, chunk, &error), ==, -1);
  assert_names (error, key);
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
  g_assert_null (blob_store_get (NULL, self->blobs, &stored.digest, 16 * MiB, &error));
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "BlobCorrupt");
  g_assert_false (blob_store_verify (NULL, self->blobs, &stored.digest, NULL, NULL, &error));
  assert_names (error, key);
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
  put_frame (self, key, &digest, entry->decoded_size - 1);
  g_assert_false (read_all (self, &stored, 0, &error));
  assert_names (error, key);
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
}

/* A reference where a chunk should be. */
static void
test_ref_as_chunk (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  guint8 bytes[CHUNK_HEADER_SIZE];
  store_model (&stored, self, 2);
  const RecipeEntry *entry = &g_array_index (stored.recipe->entries, RecipeEntry, 2);
  ChunkHeader header = { CHUNK_ENCODING_REF, entry->decoded_size, 0, { { 0 } } };
  memcpy (header.digest.bytes, entry->digest, 32);
  chunk_header_write (&header, bytes);
  write_object (self, stored.chunk_keys[2], bytes, sizeof bytes);
  expect_loss (self, &stored, "ChunkCorrupt", stored.chunk_keys[2]);
}

static void
test_flipped_recipe (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored;
  gsize size;
  BlobInfo info;
  store_model (&stored, self, 2);
  g_autofree char *content = read_object (self, stored.recipe_key, &size);
  for (gsize at = 0; at < size; at++)
    {
      g_autoptr (GError) error = NULL;
      fixture_flip (self, stored.recipe_key, at, (guint8) (1u << at % 8));
      expect_loss (self, &stored, "RecipeCorrupt", stored.recipe_key);
      g_assert_false (blob_store_stat (NULL, self->blobs, &stored.digest, &info, &error));
      assert_names (error, stored.recipe_key);
      fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "RecipeCorrupt");
      fixture_flip (self, stored.recipe_key, at, (guint8) (1u << at % 8));
    }
  for (gsize cut = 0; cut < size; cut += 1 + cut / 7)
    {
      write_object (self, stored.recipe_key, content, cut);
      expect_loss (self, &stored, "RecipeCorrupt", stored.recipe_key);
    }
}

static void
test_swapped_recipe (StorageFixture *self, gconstpointer data)
{
  g_auto (Stored) stored, other;
  gsize size;
  store_model (&stored, self, 2);
  store_model (&other, self, 4);
  g_autofree char *content = read_object (self, other.recipe_key, &size);
  write_object (self, stored.recipe_key, content, size);
  expect_loss (self, &stored, "RecipeCorrupt", stored.recipe_key);
}

/* A blob kept whole has no sum but its digest. */
static void
test_flipped_whole (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 1, 1000, MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint cut = 0; cut < 2; cut++)
      {
        g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 1, sizes[i]);
        g_autoptr (GError) error = NULL;
        Digest digest = fixture_upload (self, bytes);
        g_autofree char *key = blob_data_key (&digest), *text = digest_to_string (&digest);
        g_autofree char *path = fixture_path (self, key);
        if (cut)
          g_assert_cmpint (truncate (path, (off_t) sizes[i] - 1), ==, 0);
        else
          fixture_flip (self, key, sizes[i] - 1, 1);
        g_assert_null (blob_store_get (NULL, self->blobs, &digest, MiB, &error));
        assert_names (error, text);
        fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "BlobCorrupt");
        g_assert_false (blob_store_verify (NULL, self->blobs, &digest, NULL, NULL, &error));
        assert_names (error, text);
        fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "BlobCorrupt");
        g_assert_cmpint (unlink (path), ==, 0);
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/blob-damage/flipped-chunk", test_flipped_chunk);
  STORAGE_TEST ("/blob-damage/flip-elsewhere", test_flip_elsewhere);
  STORAGE_TEST ("/blob-damage/cut-chunk", test_cut_chunk);
  STORAGE_TEST ("/blob-damage/missing-chunk", test_missing_chunk);
  STORAGE_TEST ("/blob-damage/swapped-chunk", test_swapped_chunk);
  STORAGE_TEST ("/blob-damage/forged-chunk", test_forged_chunk);
  STORAGE_TEST ("/blob-damage/ref-as-chunk", test_ref_as_chunk);
  STORAGE_TEST ("/blob-damage/flipped-recipe", test_flipped_recipe);
  STORAGE_TEST ("/blob-damage/swapped-recipe", test_swapped_recipe);
  STORAGE_TEST ("/blob-damage/flipped-whole", test_flipped_whole);
  return g_test_run ();
}
