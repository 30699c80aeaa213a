/* Blobs kept whole and in chunks: reading any range by any buffer, and what is refused. */
#include "storage/blob_store.h"

#include <string.h>

#include "storage/chunk_reader.h"
#include "storage/storage_fixture.h"

#define MiB ((gsize) 1 << 20)
#define STRIPE ((gsize) CHUNK_STRIPE_BYTES)

static void
test_whole (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 0, 1, 1000, 4 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint algorithm = 0; algorithm < 2; algorithm++)
      {
        g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, (guint) i, sizes[i]);
        g_autoptr (GError) error = NULL;
        Digest digest = fixture_digest (bytes, (DigestAlgorithm) algorithm);
        g_autofree char *key = blob_data_key (&digest);
        BlobInfo info;
        g_assert_false (blob_store_stat (NULL, self->blobs, &digest, &info, &error));
        fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
        fixture_assert_ok (blob_store_put_whole (NULL, self->blobs, &digest, bytes, &error), error);
        fixture_assert_ok (blob_store_put_whole (NULL, self->blobs, &digest, bytes, &error), error);
        fixture_assert_ok (blob_store_stat (NULL, self->blobs, &digest, &info, &error), error);
        g_assert_cmpuint (info.size_bytes, ==, sizes[i]);
        g_assert_cmpuint (info.stored_bytes, ==, sizes[i]);
        g_assert_cmpuint (info.n_chunks, ==, 0);
        g_assert_null (blob_store_recipe (NULL, self->blobs, &digest, &error));
        g_assert_no_error (error);
        fixture_assert_blob (self, &digest, bytes);
        fixture_assert_ok (blob_store_verify (NULL, self->blobs, &digest, NULL, NULL, &error), error);
        g_assert_true (g_str_has_prefix (key, algorithm == 0 ? "docker/registry/v2/blobs/sha256/"
                                                             : "docker/registry/v2/blobs/sha512/"));
        g_assert_true (object_store_stat (NULL, self->fs, key, NULL, NULL));
      }
}

static void
test_wrong_digest (StorageFixture *self, gconstpointer data)
{
  for (guint algorithm = 0; algorithm < 2; algorithm++)
    {
      g_autoptr (GBytes) bytes = fixture_bytes (BYTES_TEXT, 1, 1000);
      g_autoptr (GError) error = NULL;
      Digest digest = fixture_digest (bytes, (DigestAlgorithm) algorithm);
      digest.bytes[0] ^= 0x80;
      g_assert_false (blob_store_put_whole (NULL, self->blobs, &digest, bytes, &error));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID");
      g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
    }
}

static void
test_unknown (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Digest digest;
  ChunkDigest chunk_digest = fixture_chunk_digest ("nothing", 7);
  ChunkHeader header;
  digest_of (DIGEST_SHA256, "nothing", 7, &digest);
  gboolean has = TRUE;
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  g_assert_null (blob_store_open (NULL, self->blobs, &digest, 0, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
  g_assert_null (blob_store_open_reader (NULL, self->blobs, &digest, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
  g_assert_null (blob_store_get (NULL, self->blobs, &digest, 100, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
  g_assert_null (blob_store_recipe (NULL, self->blobs, &digest, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
  g_assert_false (blob_store_verify (NULL, self->blobs, &digest, NULL, NULL, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
  g_assert_null (chunk_object_open (NULL, self->objects, chunk_digest.bytes, &header, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "CHUNK_UNKNOWN");
  g_assert_cmpint (blob_store_read_chunk (NULL, self->blobs, chunk_digest.bytes, chunk, &error), ==, -1);
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "CHUNK_UNKNOWN");
  fixture_assert_ok (blob_store_has_chunk (NULL, self->blobs, chunk_digest.bytes, &has, &error), error);
  g_assert_false (has);
}

static void
test_limit (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 1000, 2 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GBytes) bytes = fixture_bytes (BYTES_ZERO, 0, sizes[i]);
      g_autoptr (GError) error = NULL;
      Digest digest = fixture_upload (self, bytes);
      g_autoptr (GBytes) fits = blob_store_get (NULL, self->blobs, &digest, sizes[i], &error);
      g_assert_no_error (error);
      g_assert_null (blob_store_get (NULL, self->blobs, &digest, sizes[i] - 1, &error));
      fixture_assert_error (&error, AM_ERROR_RESOURCE_EXHAUSTED, NULL);
    }
}

/* Reads to the end by buffers of `buffer_size`, each of its own memory. */
static void
check_reading (BlobReader *reader, GBytes *bytes, gsize offset, gsize buffer_size)
{
  gsize size;
  const guint8 *wanted = g_bytes_get_data (bytes, &size);
  while (offset < size)
    {
      g_autofree guint8 *buffer = g_malloc (buffer_size);
      g_autoptr (GError) error = NULL;
      gssize n = blob_reader_read (NULL, reader, buffer, buffer_size, &error);
      g_assert_no_error (error);
      g_assert_cmpint (n, >, 0);
      g_assert_cmpuint ((gsize) n, <=, MIN (buffer_size, size - offset));
      g_assert_cmpint (memcmp (buffer, wanted + offset, (gsize) n), ==, 0);
      offset += (gsize) n;
    }
  guint8 more;
  g_assert_cmpint (blob_reader_read (NULL, reader, &more, 1, NULL), ==, 0);
}

static void
check_offset (StorageFixture *self, const Digest *digest, GBytes *bytes, gsize offset)
{
  static const gsize buffers[] = { 4096, STRIPE - 1, STRIPE, MiB + 1 };
  for (gsize i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (BlobReader) reader = blob_store_open (NULL, self->blobs, digest, offset, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (blob_reader_size (reader), ==, g_bytes_get_size (bytes));
      check_reading (reader, bytes, offset, buffers[i]);
    }
}

/* A model whose chunks begin and end at odd places. */
static GBytes *
model_bytes (void)
{
  static const gsize sizes[] = { 2 * MiB + 6, 8 * MiB + STRIPE + 2, 1000, 34 };
  return fixture_safetensors (3, "BF16", 2, sizes, G_N_ELEMENTS (sizes), 0);
}

static void
test_offsets (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = model_bytes ();
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_upload (self, bytes);
  g_autoptr (Recipe) recipe = blob_store_recipe (NULL, self->blobs, &digest, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (recipe->entries->len, ==, 5);
  for (guint i = 0; i <= recipe->entries->len; i++)
    {
      gsize start = recipe->starts[i];
      if (start > 0)
        check_offset (self, &digest, bytes, start - 1);
      check_offset (self, &digest, bytes, start);
      if (start < recipe->blob_size)
        check_offset (self, &digest, bytes, start + 1);
    }
  for (guint i = 0; i < 3; i++)
    check_offset (self, &digest, bytes, recipe->starts[2] + 3 * STRIPE + i - 1);
  g_assert_null (blob_store_open (NULL, self->blobs, &digest, recipe->blob_size + 1, &error));
  fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
  g_assert_null (blob_store_open (NULL, self->blobs, &digest, G_MAXUINT64, &error));
  fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
}

static void
test_whole_offsets (StorageFixture *self, gconstpointer data)
{
  static const gsize offsets[] = { 0, 1, STRIPE - 1, STRIPE, MiB - 1, MiB };
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 2, MiB);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_upload (self, bytes);
  g_assert_null (blob_store_recipe (NULL, self->blobs, &digest, &error));
  for (gsize i = 0; i < G_N_ELEMENTS (offsets); i++)
    check_offset (self, &digest, bytes, offsets[i]);
  g_assert_null (blob_store_open (NULL, self->blobs, &digest, MiB + 1, &error));
  fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
}

/* One reader that jumps about, after the end and after a refused jump too. */
static void
test_jumps (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = model_bytes ();
  gsize size = g_bytes_get_size (bytes);
  const guint8 *wanted = g_bytes_get_data (bytes, NULL);
  Digest digest = fixture_upload (self, bytes);
  g_autoptr (GError) error = NULL;
  g_autoptr (BlobReader) reader = blob_store_open (NULL, self->blobs, &digest, size, &error);
  g_autoptr (Reader) random = blob_store_open_reader (NULL, self->blobs, &digest, &error);
  g_autofree guint8 *buffer = g_malloc (MiB);
  g_assert_no_error (error);
  g_assert_cmpuint (random->size_bytes, ==, size);
  for (guint i = 0; i < 300; i++)
    {
      gsize offset = (gsize) g_test_rand_int_range (0, (gint32) size + 1);
      gsize n = (gsize) g_test_rand_int_range (1, i % 2 == 0 ? 1000 : MiB);
      n = MIN (n, size - offset);
      fixture_assert_ok (blob_reader_seek (NULL, reader, offset, &error), error);
      gssize got = blob_reader_read (NULL, reader, buffer, n, &error);
      g_assert_no_error (error);
      g_assert_true (n == 0 ? got == 0 : got > 0);
      g_assert_cmpint (memcmp (buffer, wanted + offset, (gsize) got), ==, 0);
      g_assert_false (blob_reader_seek (NULL, reader, size + 1 + i, &error));
      fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
      if (i % 3 == 0)
        check_reading (reader, bytes, offset + (gsize) got, MiB);
      fixture_assert_ok (reader_read_at (NULL, random, offset, buffer, n, &error), error);
      g_assert_cmpint (memcmp (buffer, wanted + offset, n), ==, 0);
    }
  g_assert_false (reader_read_at (NULL, random, size, buffer, 1, &error));
  fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
}

static void
add_bytes (guint64 n_bytes, gpointer data)
{
  *(guint64 *) data += n_bytes;
}

static void
test_verify (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) model = model_bytes ();
  g_autoptr (GBytes) small = fixture_bytes (BYTES_TEXT, 1, 3000);
  GBytes *const all[] = { model, small };
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    for (guint algorithm = 0; algorithm < 2; algorithm++)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (UploadSession) session = upload_session_new (self->blobs, "a/b");
        Digest digest = fixture_digest (all[i], (DigestAlgorithm) algorithm);
        guint64 n_bytes = 0;
        gsize size;
        gconstpointer bytes = g_bytes_get_data (all[i], &size);
        fixture_assert_ok (upload_session_write (NULL, session, bytes, size, &error), error);
        fixture_assert_ok (upload_session_finish (NULL, session, &digest, &error), error);
        fixture_assert_ok (blob_store_verify (NULL, self->blobs, &digest, add_bytes, &n_bytes, &error), error);
        g_assert_cmpuint (n_bytes, ==, size);
        fixture_assert_blob (self, &digest, all[i]);
      }
}

/* Every chunk as it is stored, and decoded: what the wire and the local copy use. */
static void
test_chunks (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = model_bytes ();
  const guint8 *wanted = g_bytes_get_data (bytes, NULL);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_upload (self, bytes);
  g_autoptr (Recipe) recipe = blob_store_recipe (NULL, self->blobs, &digest, &error);
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  BlobInfo info;
  guint64 stored = 0;
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (recipe->entries, RecipeEntry, i);
      ChunkDigest named = fixture_chunk_digest (wanted + recipe->starts[i], entry->decoded_size);
      gboolean has = FALSE;
      g_assert_cmpmem (named.bytes, 32, entry->digest, 32);
      g_assert_cmpint (blob_store_read_chunk (NULL, self->blobs, entry->digest, chunk, &error), ==,
                       entry->decoded_size);
      g_assert_cmpint (memcmp (chunk, wanted + recipe->starts[i], entry->decoded_size), ==, 0);
      ChunkHeader header;
      g_autoptr (Reader) frame = chunk_object_open (NULL, self->objects, entry->digest, &header, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (frame->size_bytes, ==, entry->encoded_size + CHUNK_HEADER_SIZE);
      fixture_assert_ok (blob_store_has_chunk (NULL, self->blobs, entry->digest, &has, &error), error);
      g_assert_true (has);
      stored += frame->size_bytes;
    }
  fixture_assert_ok (blob_store_stat (NULL, self->blobs, &digest, &info, &error), error);
  g_assert_cmpuint (info.size_bytes, ==, g_bytes_get_size (bytes));
  g_assert_cmpuint (info.stored_bytes, ==, stored);
  g_assert_cmpuint (info.n_chunks, ==, recipe->entries->len);
  g_assert_cmpuint (stored, <, info.size_bytes * 8 / 10);
}

/* A recipe is only written over chunks that are there and as long as it says. */
static void
test_recipe_needs_chunks (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = model_bytes ();
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_upload (self, bytes);
  g_autoptr (Recipe) recipe = blob_store_recipe (NULL, self->blobs, &digest, &error);
  g_autofree char *key = blob_recipe_key (&digest);
  for (guint i = 0; i < recipe->entries->len; i++)
    for (guint way = 0; way < 2; way++)
      {
        g_autoptr (GArray) entries = g_array_copy (recipe->entries);
        RecipeEntry *entry = &g_array_index (entries, RecipeEntry, i);
        if (way == 0)
          entry->digest[5] ^= 1;
        else
          entry->decoded_size--;
        g_autoptr (Recipe) lie = recipe_new (&digest, recipe->blob_size, entries);
        fixture_assert_ok (object_store_remove (NULL, self->fs, key, &error), error);
        g_assert_false (blob_store_put_recipe (NULL, self->blobs, lie, &error));
        fixture_assert_error (&error, way == 0 ? AM_ERROR_NOT_FOUND : AM_ERROR_DATA_LOSS,
                              way == 0 ? "CHUNK_UNKNOWN" : "ChunkCorrupt");
        g_assert_false (object_store_stat (NULL, self->fs, key, NULL, NULL));
      }
  fixture_assert_ok (blob_store_put_recipe (NULL, self->blobs, recipe, &error), error);
  fixture_assert_blob (self, &digest, bytes);
}

/* An error of a context that ended is that, and the reader can be used again by another. */
static void
test_cancelled (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 4, 2 * MiB);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_upload (self, bytes);
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self->blobs, &digest, 0, &error);
  guint8 buffer[100];
  g_assert_no_error (error);
  ctx_cancel (ctx);
  g_assert_cmpint (blob_reader_read (ctx, reader, buffer, sizeof buffer, &error), ==, -1);
  fixture_assert_error (&error, AM_ERROR_CANCELLED, NULL);
  g_assert_false (blob_store_verify (ctx, self->blobs, &digest, NULL, NULL, &error));
  fixture_assert_error (&error, AM_ERROR_CANCELLED, NULL);
  fixture_assert_ok (blob_reader_seek (NULL, reader, 0, &error), error);
  check_reading (reader, bytes, 0, MiB);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST_BOTH ("/blob-store/whole", test_whole);
  STORAGE_TEST_BOTH ("/blob-store/wrong-digest", test_wrong_digest);
  STORAGE_TEST_BOTH ("/blob-store/unknown", test_unknown);
  STORAGE_TEST_BOTH ("/blob-store/limit", test_limit);
  STORAGE_TEST_BOTH ("/blob-store/offsets", test_offsets);
  STORAGE_TEST_BOTH ("/blob-store/whole-offsets", test_whole_offsets);
  STORAGE_TEST_BOTH ("/blob-store/jumps", test_jumps);
  STORAGE_TEST_BOTH ("/blob-store/verify", test_verify);
  STORAGE_TEST_BOTH ("/blob-store/chunks", test_chunks);
  STORAGE_TEST ("/blob-store/recipe-needs-chunks", test_recipe_needs_chunks);
  STORAGE_TEST_BOTH ("/blob-store/cancelled", test_cancelled);
  return g_test_run ();
}
