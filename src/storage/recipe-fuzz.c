/* Any bytes as a recipe: refused with a reason, or it adds up, every offset is found in its chunk, and it is written as
 * it was read. An odd first byte has the sum put right first. */
#include "storage/recipe.h"

#include <xxhash.h>

#include "storage/chunk_frame.h"
#include "storage/wire.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_recipe (const Recipe *recipe, GBytes *bytes)
{
  guint64 start = 0, encoded = 0;
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (recipe->entries, RecipeEntry, i);
      g_assert_true (entry->decoded_size > 0 && entry->decoded_size <= CHUNK_MAX_BYTES);
      g_assert_cmpuint (entry->encoded_size, <=, CHUNK_MAX_ENCODED_BYTES);
      g_assert_cmpuint (recipe->starts[i], ==, start);
      g_assert_cmpuint (recipe_find (recipe, start), ==, i);
      start += entry->decoded_size;
      encoded += entry->encoded_size + CHUNK_HEADER_SIZE;
      g_assert_cmpuint (recipe_find (recipe, start - 1), ==, i);
    }
  g_assert_cmpuint (recipe->starts[recipe->entries->len], ==, start);
  g_assert_cmpuint (recipe->blob_size, ==, start);
  g_assert_cmpuint (recipe_encoded_bytes (recipe), ==, encoded);
  g_autoptr (GBytes) written = recipe_write (recipe);
  g_assert_true (g_bytes_equal (written, bytes));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  if (size < 1)
    return 0;
  guint8 *copy = g_memdup2 (data + 1, size - 1);
  if ((data[0] & 1) != 0 && size - 1 >= 8)
    wire_put_u64 (copy + size - 9, XXH3_64bits (copy, size - 9));
  g_autoptr (GBytes) bytes = g_bytes_new_take (copy, size - 1);
  g_autoptr (GError) error = NULL;
  g_autoptr (Recipe) recipe = recipe_read (bytes, NULL, &error);
  if (recipe != NULL)
    check_recipe (recipe, bytes);
  else
    g_assert_true (am_error_has_reason (error, "RecipeCorrupt"));
  return 0;
}
