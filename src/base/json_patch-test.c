#include "base/json_patch.h"

#include <string.h>

static yyjson_mut_doc *
document (const char *text)
{
  g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), 1 << 20, JSON_STRICT, NULL);
  g_assert_nonnull (doc);
  return yyjson_doc_mut_copy (doc, NULL);
}

/* As somebody else applies it. */
static char *
applied (yyjson_mut_doc *before, yyjson_mut_doc *patch)
{
  g_autoptr (yyjson_mut_doc) result = yyjson_mut_doc_new (NULL);
  yyjson_patch_err problem;
  yyjson_mut_val *root = yyjson_mut_patch (result, yyjson_mut_doc_get_root (before), yyjson_mut_doc_get_root (patch),
                                           &problem);
  g_assert_nonnull (root);
  yyjson_mut_doc_set_root (result, root);
  return json_write (result, NULL);
}

static void
test_patches (void)
{
  static const struct {
    const char *before, *after, *patch;
  } rows[] = {
    { "{}", "{}", "[]" },
    { "{\"a\":[1,{\"b\":null}]}", "{\"a\":[1,{\"b\":null}]}", "[]" },
    { "1", "2", "[{\"op\":\"replace\",\"path\":\"\",\"value\":2}]" },
    { "{\"a\":1}", "[1]", "[{\"op\":\"replace\",\"path\":\"\",\"value\":[1]}]" },
    { "{\"a\":1}", "{\"a\":\"1\"}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":\"1\"}]" },
    { "{\"a\":1}", "{\"a\":null}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":null}]" },
    { "{\"a\":1,\"b\":2}", "{\"b\":2}", "[{\"op\":\"remove\",\"path\":\"/a\"}]" },
    { "{\"b\":2}", "{\"b\":2,\"a\":{\"c\":1}}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":{\"c\":1}}]" },
    { "{\"a~b/c\":{\"\":1}}", "{\"a~b/c\":{\"\":2}}", "[{\"op\":\"replace\",\"path\":\"/a~0b~1c/\",\"value\":2}]" },
    { "[1,2,3]", "[1,3]", "[{\"op\":\"remove\",\"path\":\"/1\"}]" },
    { "[1,3]", "[0,1,2,3]",
      "[{\"op\":\"replace\",\"path\":\"/0\",\"value\":0},{\"op\":\"add\",\"path\":\"/1\",\"value\":1},"
      "{\"op\":\"add\",\"path\":\"/2\",\"value\":2}]" },
    { "[{\"n\":1}]", "[{\"n\":0},{\"n\":1}]", "[{\"op\":\"add\",\"path\":\"/0\",\"value\":{\"n\":0}}]" },
    { "[{\"n\":1}]", "[{\"n\":1},{\"n\":2}]", "[{\"op\":\"add\",\"path\":\"/1\",\"value\":{\"n\":2}}]" },
    { "[1,2,3,4,5]", "[1,5]",
      "[{\"op\":\"remove\",\"path\":\"/1\"},{\"op\":\"remove\",\"path\":\"/1\"},"
      "{\"op\":\"remove\",\"path\":\"/1\"}]" },
    { "[7,7]", "[7,7,7]", "[{\"op\":\"add\",\"path\":\"/2\",\"value\":7}]" },
    { "[[1,2],[3]]", "[[1,2,4],[3]]", "[{\"op\":\"add\",\"path\":\"/0/2\",\"value\":4}]" },
    { "[1,2]", "[]", "[{\"op\":\"remove\",\"path\":\"/0\"},{\"op\":\"remove\",\"path\":\"/0\"}]" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (yyjson_mut_doc) before = document (rows[i].before);
      g_autoptr (yyjson_mut_doc) after = document (rows[i].after);
      g_autoptr (yyjson_mut_doc) patch = json_patch_between (yyjson_mut_doc_get_root (before),
                                                             yyjson_mut_doc_get_root (after));
      g_autofree char *text = json_write (patch, NULL);
      g_autofree char *result = applied (before, patch);
      g_assert_cmpstr (text, ==, rows[i].patch);
      g_assert_cmpstr (result, ==, rows[i].after);
    }
}

static yyjson_mut_val *
random_value (GRand *random, yyjson_mut_doc *doc, guint depth)
{
  static const char *const keys[] = { "a", "b/c", "d~", "" };
  gint kind = g_rand_int_range (random, 0, depth > 0 ? 4 : 2);
  yyjson_mut_val *value = kind == 2 ? yyjson_mut_arr (doc) : yyjson_mut_obj (doc);
  if (kind < 2)
    return yyjson_mut_int (doc, g_rand_int_range (random, 0, 3));
  for (gint i = g_rand_int_range (random, 0, 5); kind == 2 && i > 0; i--)
    yyjson_mut_arr_append (value, random_value (random, doc, depth - 1));
  for (gsize i = 0; kind == 3 && i < G_N_ELEMENTS (keys); i++)
    if (g_rand_boolean (random))
      yyjson_mut_obj_add_val (doc, value, keys[i], random_value (random, doc, depth - 1));
  return value;
}

/* Whatever the two are, the patch leads from one to the other. */
static void
test_random (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  for (guint i = 0; i < 20000; i++)
    {
      g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
      yyjson_mut_val *before = random_value (random, doc, 3), *after = random_value (random, doc, 3);
      g_autoptr (yyjson_mut_doc) patch = json_patch_between (before, after);
      yyjson_patch_err problem;
      yyjson_mut_val *result = yyjson_mut_patch (doc, before, yyjson_mut_doc_get_root (patch), &problem);
      g_assert_true (yyjson_mut_equals (result, after));
      g_assert_cmpint (yyjson_mut_arr_size (yyjson_mut_doc_get_root (patch)) == 0, ==,
                       yyjson_mut_equals (before, after));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json-patch/patches", test_patches);
  g_test_add_func ("/json-patch/random", test_random);
  return g_test_run ();
}
