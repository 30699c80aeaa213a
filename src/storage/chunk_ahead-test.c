/* Frames that are fetched ahead are those that were asked for, in any order of asking, and failures are of the one asked
 * for. */
#include "storage/chunk_ahead.h"

#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"

#define N_CHUNKS 12u
#define CHUNK_BYTES 300000u

/* A blob of N_CHUNKS chunks. */
static Recipe *
make_blob (StorageFixture *self)
{
  gsize sizes[N_CHUNKS];
  for (guint i = 0; i < N_CHUNKS; i++)
    sizes[i] = CHUNK_BYTES;
  g_autoptr (GBytes) bytes = fixture_safetensors (1, "BF16", 2, sizes, N_CHUNKS, 0);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_upload (self, bytes);
  Recipe *recipe = blob_store_recipe (NULL, self->blobs, &digest, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (recipe->entries->len, >, N_CHUNKS);
  return recipe;
}

static void
assert_opens (ChunkAhead *ahead, const Recipe *recipe, guint entry)
{
  g_autoptr (GError) error = NULL;
  ChunkHeader header;
  g_autoptr (Reader) frame = chunk_ahead_open (NULL, ahead, entry, &header, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (header.digest.bytes, 32, g_array_index (recipe->entries, RecipeEntry, entry).digest, 32);
  g_assert_cmpuint (frame->size_bytes, ==, CHUNK_HEADER_SIZE + header.encoded_size);
}

static void
test_orders (StorageFixture *self, gconstpointer data)
{
  static const guint orders[][8] = {
    { 0, 1, 2, 3, 4, 5, 6, 7 }, { 0, 1, 2, 7, 8, 9, 3, 4 }, { 5, 5, 6, 6, 7, 0, 1, 2 }, { 7, 6, 5, 4, 3, 2, 1, 0 }
  };
  static const guint firsts[] = { 0, 5, G_MAXUINT };
  g_autoptr (Recipe) recipe = make_blob (self);
  for (gsize k = 0; k < G_N_ELEMENTS (orders); k++)
    for (gsize f = 0; f < G_N_ELEMENTS (firsts); f++)
      {
        g_autoptr (ChunkAhead) ahead = chunk_ahead_new (self->blobs, recipe, firsts[f], recipe->entries->len, 3);
        for (guint i = 0; i < 8; i++)
          assert_opens (ahead, recipe, orders[k][i]);
      }
}

/* No more is fetched than is read when the end is known; at random nothing is fetched ahead. */
static void
test_cost (StorageFixture *self, gconstpointer data)
{
  g_autoptr (Recipe) recipe = make_blob (self);
  guint64 single;
  {
    g_autoptr (ChunkAhead) one = chunk_ahead_new (self->blobs, recipe, G_MAXUINT, N_CHUNKS, 3);
    object_store_fault_set (self->objects, 0, FALSE);
    assert_opens (one, recipe, 3);
    single = object_store_fault_count (self->objects);
    assert_opens (one, recipe, 7);
    g_assert_cmpuint (object_store_fault_count (self->objects), ==, 2 * single);
  }
  g_autoptr (ChunkAhead) ahead = chunk_ahead_new (self->blobs, recipe, 2, 8, 3);
  object_store_fault_set (self->objects, 0, FALSE);
  for (guint i = 2; i < 8; i++)
    assert_opens (ahead, recipe, i);
  g_clear_pointer (&ahead, chunk_ahead_free);
  g_assert_cmpuint (object_store_fault_count (self->objects), ==, 6 * single);
}

static void
test_failures (StorageFixture *self, gconstpointer data)
{
  g_autoptr (Recipe) recipe = make_blob (self);
  for (guint gone = 0; gone < 6; gone++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *key = chunk_key (g_array_index (recipe->entries, RecipeEntry, gone).digest);
      g_autoptr (GBytes) frame = object_store_get (NULL, self->fs, key, G_MAXUINT32, &error);
      fixture_assert_ok (object_store_remove (NULL, self->fs, key, &error), error);
      g_autoptr (ChunkAhead) ahead = chunk_ahead_new (self->blobs, recipe, 0, N_CHUNKS, 3);
      for (guint i = 0; i < gone; i++)
        assert_opens (ahead, recipe, i);
      ChunkHeader header;
      g_assert_null (chunk_ahead_open (NULL, ahead, gone, &header, &error));
      fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "CHUNK_UNKNOWN");
      assert_opens (ahead, recipe, gone + 1); /* it was on its way */
      fixture_assert_ok (object_store_put (NULL, self->fs, key, g_bytes_get_data (frame, NULL),
                                           g_bytes_get_size (frame), OBJECT_COMMIT_LAZY, &error),
                         error);
      assert_opens (ahead, recipe, gone);
    }
}

static void
test_impatience (StorageFixture *self, gconstpointer data)
{
  g_autoptr (Recipe) recipe = make_blob (self);
  g_autoptr (ChunkAhead) ahead = chunk_ahead_new (self->blobs, recipe, 0, N_CHUNKS, 3);
  g_autoptr (Ctx) over = ctx_new ();
  g_autoptr (GError) error = NULL;
  ChunkHeader header;
  assert_opens (ahead, recipe, 0);
  ctx_cancel (over);
  g_autoptr (Reader) frame = chunk_ahead_open (over, ahead, 1, &header, &error);
  if (frame == NULL) /* unless it was there already */
    fixture_assert_error (&error, AM_ERROR_CANCELLED, NULL);
  assert_opens (ahead, recipe, 1);
  assert_opens (ahead, recipe, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST_BOTH ("/chunk-ahead/orders", test_orders);
  STORAGE_TEST_BOTH ("/chunk-ahead/cost", test_cost);
  STORAGE_TEST_BOTH ("/chunk-ahead/failures", test_failures);
  STORAGE_TEST_BOTH ("/chunk-ahead/impatience", test_impatience);
  return g_test_run ();
}
