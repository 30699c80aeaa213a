#include "formats/shard_set.h"

#include <string.h>

#include "formats/formats_fixture.h"
#include "formats/shard_index.h"
#include "formats/shard_name.h"

static void
test_names (void)
{
  static const struct {
    const char *name;
    gsize stem_size;
    guint no, count;
    const char *rest;
  } good[] = {
    { "model-00001-of-00002.safetensors", 5, 1, 2, ".safetensors" },
    { "a/b/model_00002-of-00002.bin", 9, 2, 2, ".bin" },
    { "model.fp16-00001-of-00002.safetensors", 10, 1, 2, ".safetensors" },
    { "model-00001-of-00002.fp16.safetensors", 5, 1, 2, ".fp16.safetensors" },
    { "x-of-y-000001-of-000003.gguf", 6, 1, 3, ".gguf" },
  };
  static const char *const bad[] = {
    "model.safetensors",
    "model-1-of-2.safetensors",
    "model-00003-of-00002.safetensors",
    "-00001-of-00002.x",
    "model-00000-of-00002.safetensors",
    "model-00001-of-00002",
    "00001-of-00002.safetensors",
    "model00001-of-00002.safetensors",
    "model-00001-of-0000002.safetensors",
    "dir-00001-of-00002.d/model.bin",
  };
  ShardName shard;
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_assert_true (shard_name_parse (good[i].name, &shard));
      g_assert_cmpuint (shard.stem_size, ==, good[i].stem_size);
      g_assert_cmpuint (shard.no, ==, good[i].no);
      g_assert_cmpuint (shard.count, ==, good[i].count);
      g_assert_cmpstr (shard.rest, ==, good[i].rest);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_false (shard_name_parse (bad[i], &shard));
  g_assert_true (shard_name_same_set ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf"));
  g_assert_false (shard_name_same_set ("m-00001-of-00002.gguf", "n-00002-of-00002.gguf"));
  g_assert_false (shard_name_same_set ("m-00001-of-00003.gguf", "m-00002-of-00002.gguf"));
  g_assert_false (shard_name_same_set ("a/m-00001-of-00002.gguf", "m-00002-of-00002.gguf"));
}

static ShardIndex *
parse (const char *text, GError **error)
{
  g_autofree char *exact = g_memdup2 (text, strlen (text));
  return shard_index_parse (exact, strlen (text), error);
}

static void
test_bad_index (void)
{
  static const struct {
    const char *text, *part;
  } cases[] = {
    { "", "object" },
    { "[]", "object" },
    { "{}", "weight_map is missing" },
    { "{\"weight_map\":{\"a\":1}}", "string is expected" },
    { "{\"weight_map\":[]}", "object" },
    { "{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "outside" },
    { "{\"weight_map\":{\"a\":\"/x.safetensors\"}}", "outside" },
    { "{\"weight_map\":{\"a\":\"x\\\\y.safetensors\"}}", "outside" },
    { "{\"weight_map\":{\"a\":\"\"}}", "outside" },
    { "{\"weight_map\":{\"a\":\"x\\u0000y\"}}", "outside" },
    { "{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}", "twice" },
    { "{\"weight_map\":{},\"weight_map\":{}}", "twice" },
    { "{\"weight_map\":{\"a\":\"x\"}} x", "follows" },
    { "\xff", "UTF-8" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (parse (cases[i].text, &error));
      fixture_assert_error (&error, cases[i].part);
    }
}

#define INDEX                                                                             \
  "\xef\xbb\xbf{\"metadata\":{\"total_size\":%s},\"x\":[1,{\"y\":null}],\"weight_map\":{" \
  "\"b\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\",\"c\":\"m-1.safetensors\"}}"

static void
test_total_size (void)
{
  static const struct {
    const char *text;
    gboolean known;
  } cases[] = { { "123", TRUE }, { "123.0", FALSE }, { "\"123\"", FALSE }, { "null", FALSE }, { "1e9", FALSE } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = g_strdup_printf (INDEX, cases[i].text);
      g_autoptr (ShardIndex) index = parse (text, &error);
      g_assert_no_error (error);
      g_assert_cmpint (index->has_total_size, ==, cases[i].known);
      g_assert_cmpuint (index->files->len, ==, 2);
      g_assert_true (shard_index_names (index, "m-2.safetensors"));
      g_assert_false (shard_index_names (index, "m-3.safetensors"));
    }
}

static ShardIndex *
index_of (const char *text)
{
  g_autoptr (GError) error = NULL;
  ShardIndex *index = parse (text, &error);
  g_assert_no_error (error);
  return index;
}

static void
expect_files (const ShardIndex *index, const char *present, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = g_strsplit (present, " ", -1);
  g_autoptr (GPtrArray) list = g_ptr_array_new ();
  for (guint i = 0; names[i] != NULL; i++)
    g_ptr_array_add (list, names[i]);
  g_assert_cmpint (shard_index_check_files (index, list, &error), ==, reason == NULL);
  if (reason != NULL)
    g_assert_cmpstr (am_error_reason (error), ==, reason);
}

/* Pitfalls B36 B37 B38. */
static void
test_index_files (void)
{
  g_autoptr (ShardIndex) index = index_of (
    "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002.safetensors\"}}");
  expect_files (index, "model-00001-of-00002.safetensors model-00002-of-00002.safetensors", NULL);
  expect_files (index, "consolidated.safetensors model-00001-of-00002.safetensors model-00002-of-00002.safetensors",
                NULL);
  expect_files (index, "model-00001-of-00002.safetensors", "ShardMissing");
  expect_files (index, "", "ShardMissing");
  expect_files (index, "model-00001-of-00003.safetensors model-00002-of-00003.safetensors", "StaleIndex");
}

static SafetensorsHeader *
header_of (const char *const *names, guint n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) text = g_string_new ("{");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                            i > 0 ? "," : "", names[i], i, i + 1);
  g_string_append_c (text, '}');
  SafetensorsHeader *header = safetensors_parse (text->str, text->len, &error);
  g_assert_no_error (error);
  return header;
}

static void
expect_header (const ShardIndex *index, const char *file, const SafetensorsHeader *header, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_assert_cmpint (shard_index_check_header (index, file, header, &error), ==, part == NULL);
  if (part == NULL)
    return;
  g_assert_cmpstr (am_error_reason (error), ==, "ShardMismatch");
  fixture_assert_error (&error, part);
}

static void
test_index_headers (void)
{
  static const char *const names[] = { "a", "b", "c" };
  g_autoptr (ShardIndex) index = index_of ("{\"weight_map\":{\"a\":\"1\",\"b\":\"1\",\"c\":\"2\"}}");
  g_autoptr (SafetensorsHeader) ab = header_of (names, 2);
  g_autoptr (SafetensorsHeader) a = header_of (names, 1);
  g_autoptr (SafetensorsHeader) abc = header_of (names, 3);
  static const char *const odd[] = { "x" };
  g_autoptr (SafetensorsHeader) x = header_of (odd, 1);
  expect_header (index, "1", ab, NULL);
  expect_header (index, "1", a, "\"b\" is in the index, but not in the file");
  expect_header (index, "1", abc, "\"c\" belongs to another shard");
  expect_header (index, "1", x, "\"x\" is not in the shard index");
  expect_header (index, "3", x, "not named");
  ShardPart parts[] = { { "1", NULL, ab }, { "2", NULL, x } };
  g_autoptr (GError) error = NULL;
  g_assert_true (shard_set_check_safetensors (parts, 2, &error));
  parts[1].safetensors = a;
  g_assert_false (shard_set_check_safetensors (parts, 2, &error));
  fixture_assert_error (&error, "tensor \"a\" is both in 1 and in 2");
}

static GgufHeader *
part_of (guint no, guint count, guint n_in_all, const char *tensor)
{
  g_autoptr (GError) error = NULL;
  GgufBuilder *b = gguf_builder_new (3, 1, 3 + (no == 0));
  if (no == 0)
    gguf_builder_pair_string (b, "general.architecture", "llama");
  gguf_builder_pair_u16 (b, "split.no", (guint16) no);
  gguf_builder_pair_u16 (b, "split.count", (guint16) count);
  gguf_builder_pair_i32 (b, "split.tensors.count", (gint32) n_in_all);
  gguf_builder_tensor (b, tensor, 8, 0, 0, 0);
  g_autoptr (Reader) reader = fixture_reader (gguf_builder_finish (b, 32, 32));
  GgufHeader *header = gguf_read (NULL, reader, &error);
  g_assert_no_error (error);
  return header;
}

static void
expect_gguf (ShardPart *parts, guint n, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_assert_cmpint (shard_set_check_gguf (parts, n, &error), ==, reason == NULL);
  if (reason != NULL)
    g_assert_cmpstr (am_error_reason (error), ==, reason);
}

static void
test_gguf_parts (void)
{
  g_autoptr (GgufHeader) one = part_of (0, 2, 2, "a");
  g_autoptr (GgufHeader) two = part_of (1, 2, 2, "b");
  g_autoptr (GgufHeader) two_of_three = part_of (1, 3, 2, "b");
  g_autoptr (GgufHeader) twin = part_of (1, 2, 2, "a");
  g_autoptr (GgufHeader) few = part_of (1, 2, 3, "b");
  g_autoptr (GgufHeader) alone = part_of (0, 1, 1, "a");
  ShardPart parts[] = { { "m-00001-of-00002.gguf", one, NULL }, { "m-00002-of-00002.gguf", two, NULL } };
  expect_gguf (parts, 2, NULL);
  expect_gguf (&parts[1], 1, "ShardMissing");
  parts[1].gguf = two_of_three;
  expect_gguf (parts, 2, "ShardMismatch");
  parts[1].gguf = twin;
  expect_gguf (parts, 2, "ShardMismatch");
  parts[1].gguf = few;
  expect_gguf (parts, 2, "ShardMismatch");
  parts[1].gguf = one;
  expect_gguf (parts, 2, "ShardMismatch");
  parts[1].gguf = alone;
  expect_gguf (parts, 2, "ShardMismatch");
  expect_gguf (&parts[1], 1, NULL);
}

static void
test_complete_names (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) paths = g_ptr_array_new ();
  g_ptr_array_add (paths, (gpointer) "m-00001-of-00003.gguf");
  g_ptr_array_add (paths, (gpointer) "m-00003-of-00003.gguf");
  g_assert_false (shard_set_check_names (paths, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "ShardMissing");
  fixture_assert_error (&error, "m-*-of-00003.gguf: 1 of 3 parts are missing: 2");
  g_ptr_array_add (paths, (gpointer) "m-00002-of-00003.gguf");
  g_assert_true (shard_set_check_names (paths, &error));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/shard-set/names", test_names);
  g_test_add_func ("/shard-set/bad-index", test_bad_index);
  g_test_add_func ("/shard-set/total-size", test_total_size);
  g_test_add_func ("/shard-set/index-files", test_index_files);
  g_test_add_func ("/shard-set/index-headers", test_index_headers);
  g_test_add_func ("/shard-set/gguf-parts", test_gguf_parts);
  g_test_add_func ("/shard-set/complete-names", test_complete_names);
  return g_test_run ();
}
