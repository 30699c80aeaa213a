/* Recipes: written and read back, every damage refused, whatever does not add up refused. */
#include "storage/recipe.h"

#include <string.h>
#include <xxhash.h>

#include "storage/chunk_frame.h"
#include "storage/storage_fixture.h"
#include "storage/wire.h"

#define HEAD 85

static GArray *
entries_new (const guint32 *sizes, guint n)
{
  GArray *entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  for (guint i = 0; i < n; i++)
    {
      RecipeEntry entry = { .decoded_size = sizes[i], .encoded_size = sizes[i] / 2 + 9 };
      memset (entry.digest, (int) i + 1, sizeof entry.digest);
      g_array_append_val (entries, entry);
    }
  return entries;
}

static Recipe *
recipe_of (const guint32 *sizes, guint n, DigestAlgorithm algorithm)
{
  g_autoptr (GArray) entries = entries_new (sizes, n);
  g_autoptr (GBytes) name = fixture_bytes (BYTES_TEXT, n, 100);
  Digest digest = fixture_digest (name, algorithm);
  guint64 total = 0;
  for (guint i = 0; i < n; i++)
    total += sizes[i];
  return recipe_new (&digest, total, entries);
}

static void
assert_equal (const Recipe *a, const Recipe *b)
{
  g_assert_true (digest_equal (&a->blob_digest, &b->blob_digest));
  g_assert_cmpuint (a->blob_size, ==, b->blob_size);
  g_assert_cmpuint (a->entries->len, ==, b->entries->len);
  for (guint i = 0; i < a->entries->len; i++)
    {
      const RecipeEntry *x = &g_array_index (a->entries, RecipeEntry, i),
                        *y = &g_array_index (b->entries, RecipeEntry, i);
      g_assert_cmpmem (x->digest, 32, y->digest, 32);
      g_assert_cmpuint (x->decoded_size, ==, y->decoded_size);
      g_assert_cmpuint (x->encoded_size, ==, y->encoded_size);
      g_assert_cmpuint (a->starts[i], ==, b->starts[i]);
    }
  g_assert_cmpuint (a->starts[a->entries->len], ==, a->blob_size);
}

static const guint32 sizes[] = { 8u << 20, 1, 8u << 20, 100, (8u << 20) - 1, 4097 };

static void
test_roundtrip (void)
{
  for (guint algorithm = 0; algorithm < 2; algorithm++)
    for (guint n = 0; n <= G_N_ELEMENTS (sizes); n++)
      {
        g_autoptr (Recipe) recipe = recipe_of (sizes, n, (DigestAlgorithm) algorithm);
        g_autoptr (GBytes) bytes = recipe_write (recipe);
        g_autoptr (GError) error = NULL;
        g_autoptr (Recipe) read = recipe_read (bytes, &recipe->blob_digest, &error);
        g_assert_no_error (error);
        assert_equal (recipe, read);
        g_autoptr (Recipe) unexpecting = recipe_read (bytes, NULL, &error);
        g_assert_no_error (error);
        g_autoptr (GBytes) again = recipe_write (unexpecting);
        g_assert_true (g_bytes_equal (bytes, again));
        g_assert_cmpuint (g_bytes_get_size (bytes), ==, HEAD + n * RECIPE_ENTRY_SIZE + 8);
      }
}

static void
test_find (void)
{
  g_autoptr (Recipe) recipe = recipe_of (sizes, G_N_ELEMENTS (sizes), DIGEST_SHA256);
  guint64 start = 0, encoded = 0;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); start += sizes[i], i++)
    {
      g_assert_cmpuint (recipe_find (recipe, start), ==, i);
      g_assert_cmpuint (recipe_find (recipe, start + sizes[i] / 2), ==, i);
      g_assert_cmpuint (recipe_find (recipe, start + sizes[i] - 1), ==, i);
      encoded += sizes[i] / 2 + 9 + CHUNK_HEADER_SIZE;
    }
  g_assert_cmpuint (recipe_encoded_bytes (recipe), ==, encoded);
}

static void
expect_refused (const guint8 *data, gsize size, const Digest *expected, const char *part)
{
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  g_autoptr (GError) error = NULL;
  g_assert_null (recipe_read (bytes, expected, &error));
  g_assert_nonnull (strstr (error->message, part));
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "RecipeCorrupt");
}

static void
test_every_flip (void)
{
  g_autoptr (Recipe) recipe = recipe_of (sizes, 3, DIGEST_SHA256);
  g_autoptr (GBytes) bytes = recipe_write (recipe);
  gsize size;
  g_autofree guint8 *data = g_bytes_unref_to_data (g_bytes_ref (bytes), &size);
  for (gsize bit = 0; bit < 8 * size; bit++)
    {
      data[bit / 8] = (guint8) (data[bit / 8] ^ 1u << bit % 8);
      expect_refused (data, size, NULL, "damaged recipe");
      data[bit / 8] = (guint8) (data[bit / 8] ^ 1u << bit % 8);
    }
  for (gsize cut = 0; cut < size; cut++)
    expect_refused (data, cut, NULL, "damaged recipe");
}

static void
resum (GByteArray *bytes)
{
  wire_put_u64 (bytes->data + bytes->len - 8, XXH3_64bits (bytes->data, bytes->len - 8));
}

typedef struct {
  const char *name;
  guint at;
  gsize size; /* 1, 4 or 8 bytes */
  guint64 value;
  const char *part;
} Lie;

/* Lies whose sum is right. */
static void
test_lies (void)
{
  const guint entry = HEAD, second = HEAD + RECIPE_ENTRY_SIZE;
  const Lie lies[] = {
    { "another version", 4, 1, 2, "version" },
    { "an older version", 4, 1, 0, "version" },
    { "reserved", 5, 1, 1, "version" },
    { "reserved", 7, 1, 0x80, "version" },
    { "another algorithm", 8, 1, 2, "version" },
    { "bytes behind the digest", 9 + 32, 1, 1, "version" },
    { "bytes behind the digest", 9 + 63, 1, 1, "version" },
    { "a smaller blob", 73, 8, (16u << 20), "add up" },
    { "a larger blob", 73, 8, (16u << 20) + 2, "add up" },
    { "a huge blob", 73, 8, G_MAXUINT64, "add up" },
    { "a blob larger by 2^32", 73, 8, (16u << 20) + 1 + (1ull << 32), "add up" },
    { "fewer chunks", 81, 4, 2, "length" },
    { "more chunks", 81, 4, 4, "length" },
    { "no chunks", 81, 4, 0, "length" },
    { "most chunks", 81, 4, RECIPE_MAX_CHUNKS, "length" },
    { "too many chunks", 81, 4, RECIPE_MAX_CHUNKS + 1, "length" },
    { "2^32 - 1 chunks", 81, 4, G_MAXUINT32, "length" },
    { "an empty chunk", second + 32, 4, 0, "bounds" },
    { "a large chunk", entry + 32, 4, CHUNK_MAX_BYTES + 1, "bounds" },
    { "a huge chunk", entry + 32, 4, G_MAXUINT32, "bounds" },
    { "a smaller chunk", entry + 32, 4, CHUNK_MAX_BYTES - 1, "add up" },
    { "no stored bytes", entry + 36, 4, 0, "bounds" },
    { "too many stored bytes", entry + 36, 4, CHUNK_MAX_ENCODED_BYTES + 1, "bounds" },
  };
  g_autoptr (Recipe) recipe = recipe_of (sizes, 3, DIGEST_SHA256);
  g_autoptr (GBytes) bytes = recipe_write (recipe);
  for (gsize i = 0; i < G_N_ELEMENTS (lies); i++)
    {
      g_autoptr (GByteArray) lie = g_byte_array_new ();
      guint64 value = GUINT64_TO_LE (lies[i].value);
      g_byte_array_append (lie, g_bytes_get_data (bytes, NULL), (guint) g_bytes_get_size (bytes));
      memcpy (lie->data + lies[i].at, &value, lies[i].size);
      resum (lie);
      g_test_message ("%s", lies[i].name);
      expect_refused (lie->data, lie->len, NULL, lies[i].part);
    }
}

static void
test_another_blob (void)
{
  for (guint algorithm = 0; algorithm < 2; algorithm++)
    {
      g_autoptr (Recipe) recipe = recipe_of (sizes, 3, (DigestAlgorithm) algorithm);
      g_autoptr (GBytes) bytes = recipe_write (recipe);
      Digest other = recipe->blob_digest;
      other.bytes[digest_algorithm_size (other.algorithm) - 1] ^= 1;
      expect_refused (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), &other, "another blob");
      other = recipe->blob_digest;
      other.algorithm = algorithm == 0 ? DIGEST_SHA512 : DIGEST_SHA256;
      expect_refused (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), &other, "another blob");
    }
}

/* A blob of the most chunks there may be: its recipe fits into the limit that readers set. */
static void
test_most_chunks (void)
{
  const guint n = RECIPE_MAX_CHUNKS;
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  g_autoptr (GError) error = NULL;
  Digest digest = { .algorithm = DIGEST_SHA256 };
  g_array_set_size (entries, n);
  for (guint i = 0; i < n; i++)
    g_array_index (entries, RecipeEntry, i) = (RecipeEntry){ .decoded_size = CHUNK_MAX_BYTES, .encoded_size = 300 };
  g_autoptr (Recipe) recipe = recipe_new (&digest, (guint64) n * CHUNK_MAX_BYTES, entries);
  g_autoptr (GBytes) bytes = recipe_write (recipe);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, RECIPE_MAX_BYTES);
  g_autoptr (Recipe) read = recipe_read (bytes, &digest, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (read->blob_size, ==, recipe->blob_size);
  g_assert_cmpuint (recipe_find (read, read->blob_size - 1), ==, n - 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recipe/roundtrip", test_roundtrip);
  g_test_add_func ("/recipe/find", test_find);
  g_test_add_func ("/recipe/every-flip", test_every_flip);
  g_test_add_func ("/recipe/lies", test_lies);
  g_test_add_func ("/recipe/another-blob", test_another_blob);
  g_test_add_func ("/recipe/most-chunks", test_most_chunks);
  return g_test_run ();
}
