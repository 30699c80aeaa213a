#include "formats/safetensors.h"

#include <string.h>

#include "formats/formats_fixture.h"

#define T(shape, offsets) "{\"t\":{\"dtype\":\"I32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define GOOD T ("[2,2]", "[0,16]")

static SafetensorsHeader *
read_bytes (GBytes *bytes, GError **error)
{
  g_autoptr (Reader) reader = fixture_reader (bytes);
  return safetensors_read (NULL, reader, error);
}

static void
expect_error (GBytes *bytes, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SafetensorsHeader) header = read_bytes (bytes, &error);
  g_assert_null (header);
  fixture_assert_error (&error, part);
}

/* Pitfalls B34 B35; formats-safetensors-diffusers.md 4: header text, bytes behind it, what the message says. */
static const struct {
  const char *header;
  guint64 data_bytes;
  const char *part;
} bad_headers[] = {
  { "", 0, "object is expected" },
  { "\xff", 0, "UTF-8" },
  { "{", 0, "bad JSON" },
  { GOOD, 15, "truncated: the header says" },
  { GOOD, 17, "1 surplus bytes" },
  { T ("[2,2]", "[4,20]"), 20, "hole before it" },
  { "{\"a\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
    "\"b\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}",
    16, "overlaps" },
  { "{\"a\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
    "\"b\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[20,36]}}",
    36, "hole" },
  { T ("[2,18446744073709551614]", "[0,16]"), 16, "overflows" },
  { T ("[4611686018427387904]", "[0,16]"), 16, "overflows" },
  { T ("[18446744073709551616]", "[0,16]"), 16, "beyond 64 bits" },
  { T ("[2,2]", "[0,8]"), 8, "need 16 bytes" },
  { T ("[2,2]", "[16,0]"), 16, "data_offsets" },
  { T ("[2,2]", "[0,16,16]"), 16, "data_offsets" },
  { T ("[2,2]", "[0]"), 16, "data_offsets" },
  { T ("[2,2]", "[\"0\",\"16\"]"), 16, "integer" },
  { T ("[2,2]", "[-1,15]"), 16, "integer" },
  { T ("[2,2]", "[0,16.0]"), 16, "integer" },
  { T ("[2,2]", "[0,16e0]"), 16, "integer" },
  { T ("[2,02]", "[0,16]"), 16, "leading zero" },
  { T ("[2,2,]", "[0,16]"), 16, "comma" },
  { T ("{}", "[0,16]"), 16, "array" },
  { "{\"t\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "whole bytes" },
  { "{\"t\":{\"dtype\":\"Q4\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "unknown dtype \"Q4\"" },
  { "{\"t\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "string is expected" },
  { "{\"t\":{\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "missing" },
  { "{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "missing" },
  { "{\"t\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2, "missing" },
  { "{\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"x\":1}}", 2, "member other than" },
  { "{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "twice" },
  { "{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
    "\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
    0, "twice" },
  { "{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
    "\"\\u0074\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
    0, "twice" },
  { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice" },
  { "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice" },
  { "{\"__metadata__\":{\"a\":1}}", 0, "strings only" },
  { "{\"__metadata__\":null}", 0, "object" },
  { "{\"t\":null}", 0, "object" },
  { "[]", 0, "object is expected" },
  { "{}", 1, "1 surplus bytes" },
  { "{} x", 0, "something follows" },
  { "{\"t\":{\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]}}", 1, "integer" },
  { "{\"\\ud800\":{}}", 0, "surrogate" },
  { "{\"\\ud800\\u0041\":{}}", 0, "surrogate" },
  { "{\"\\x\":{}}", 0, "escape" },
  { "{\"a\nb\":{}}", 0, "control character" },
  { "{\"a\" {}}", 0, "colon" },
  { "{a:1}", 0, "string is expected" },
};

static void
test_bad_headers (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad_headers); i++)
    {
      g_autofree char *shown = g_strescape (bad_headers[i].header, NULL);
      g_test_message ("%s", shown);
      expect_error (fixture_safetensors (bad_headers[i].header, bad_headers[i].data_bytes), bad_headers[i].part);
    }
}

static GBytes *
with_length (guint64 header_bytes, const char *rest)
{
  header_bytes = GUINT64_TO_LE (header_bytes);
  GByteArray *bytes = g_byte_array_new ();
  g_byte_array_append (bytes, (const guint8 *) &header_bytes, sizeof header_bytes);
  g_byte_array_append (bytes, (const guint8 *) rest, (guint) strlen (rest));
  return g_byte_array_free_to_bytes (bytes);
}

static void
test_bad_lengths (void)
{
  expect_error (fixture_text (""), "too small");
  expect_error (fixture_text ("1234567"), "too small");
  expect_error (with_length (G_GUINT64_CONSTANT (1) << 63, "{}"), "header too large");
  expect_error (with_length (G_MAXUINT64, "{}"), "header too large");
  expect_error (with_length (100 * 1000 * 1000 + 1, "{}"), "header too large");
  expect_error (with_length (100 * 1000 * 1000, "{}"), "truncated header");
  expect_error (with_length (3, "{}"), "truncated header");
  expect_error (with_length (0, ""), "object is expected");
}

static void
test_other_files (void)
{
  static const struct {
    const char *content, *part, *reason;
  } files[] = {
    { "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull", "LfsPointer" },
    { "<!DOCTYPE html><html></html>", "web page", "FormatInvalid" },
    { "\n <HTML>", "web page", "FormatInvalid" },
    { "{\"error\":\"Repository not found\"}", "JSON text", "FormatInvalid" },
    { "\x80\x02}q\x01X\x01", "pickle", "PickleRejected" },
    { "PK\3\4aaaaaaaaaaaaaa", "zip", "FormatInvalid" },
    { "GGUF\3aaaaaaaaaaaaaaaaa", "GGUF", "FormatInvalid" },
    { "\x89HDF\r\n\x1a\n0000", "HDF5", "FormatInvalid" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (SafetensorsHeader) header = read_bytes (fixture_text (files[i].content), &error);
      g_assert_null (header);
      g_assert_cmpstr (am_error_reason (error), ==, files[i].reason);
      fixture_assert_error (&error, files[i].part);
    }
}

static void
test_good (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SafetensorsHeader) header = read_bytes (
    fixture_safetensors ("{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                         "\"__metadata__\":{\"format\":\"pt\"},"
                         "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                         "\"z\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[16,18]},"
                         "\"e\":{\"shape\":[0,7],\"data_offsets\":[4,4],\"dtype\":\"F64\"}}   ",
                         18),
    &error);
  g_assert_no_error (error);
  static const char *const order[] = { "s", "e", "b", "z" };
  g_assert_cmpuint (header->tensors->len, ==, 4);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpstr (g_array_index (header->tensors, SafetensorsTensor, i).name, ==, order[i]);
  const SafetensorsTensor *b = safetensors_find (header, "b", 1);
  g_assert_nonnull (b);
  g_assert_cmpuint (b->dtype, ==, SAFETENSORS_BF16);
  g_assert_cmpuint (b->n_dims, ==, 2);
  g_assert_cmpuint (b->dims[1], ==, 3);
  g_assert_cmpuint (b->n_elements, ==, 6);
  g_assert_cmpuint (safetensors_find (header, "s", 1)->n_elements, ==, 1);
  g_assert_cmpuint (safetensors_find (header, "e", 1)->n_elements, ==, 0);
  g_assert_null (safetensors_find (header, "x", 1));
  g_assert_cmpstr (safetensors_metadata (header, "format"), ==, "pt");
  g_assert_null (safetensors_metadata (header, "other"));
  g_assert_cmpuint (header->data_bytes, ==, 18);
  g_assert_false (header->leading_space);
}

static void
test_odd_but_good (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SafetensorsHeader) empty = read_bytes (fixture_safetensors ("{}", 0), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (empty->tensors->len, ==, 0);
  g_autoptr (SafetensorsHeader) spaced = read_bytes (fixture_safetensors (" \n" GOOD "  ", 16), &error);
  g_assert_no_error (error);
  g_assert_true (spaced->leading_space);
  g_autoptr (SafetensorsHeader) zero = read_bytes (fixture_safetensors (T ("[0]", "[0,0]"), 0), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (zero->data_bytes, ==, 0);
}

/* Names are opaque. */
static void
test_names (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *longest = g_strnfill (65536, 'n');
  const char *const names[] = { "",  "../../etc/passwd", "a/b",  "a\\u0000b", "a\\u0000c",
                                "a", "\\ud83d\\ude00",   longest };
  g_autoptr (GString) text = g_string_new ("{");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_string_append_printf (text, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                            i > 0 ? "," : "", names[i], i, i + 1);
  g_string_append_c (text, '}');
  g_autoptr (SafetensorsHeader) header = read_bytes (fixture_safetensors (text->str, G_N_ELEMENTS (names)), &error);
  g_assert_no_error (error);
  g_assert_nonnull (safetensors_find (header, "", 0));
  g_assert_nonnull (safetensors_find (header, "a\0b", 3));
  g_assert_nonnull (safetensors_find (header, "\xf0\x9f\x98\x80", 4));
  g_assert_nonnull (safetensors_find (header, longest, 65536));
  g_assert_null (safetensors_find (header, "a\0", 2));
}

static char *
many_tensors (guint n)
{
  GString *text = g_string_new ("{");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s\"%u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                            i > 0 ? "," : "", i);
  g_string_append_c (text, '}');
  return g_string_free (text, FALSE);
}

static void
test_bounded (void)
{
  g_autoptr (GError) error = NULL;
  gint64 start = g_get_monotonic_time ();
  g_autofree char *most = many_tensors (SAFETENSORS_MAX_TENSORS);
  g_autoptr (SafetensorsHeader) header = read_bytes (fixture_safetensors (most, 0), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (header->tensors->len, ==, SAFETENSORS_MAX_TENSORS);
  g_autofree char *more = many_tensors (SAFETENSORS_MAX_TENSORS + 1);
  expect_error (fixture_safetensors (more, 0), "more than 1000000 tensors");
  g_autofree char *deep = g_strnfill (10000, '[');
  g_autofree char *nested = g_strconcat ("{\"t\":", deep, NULL);
  expect_error (fixture_safetensors (nested, 0), "object is expected");
  g_assert_cmpint (g_get_monotonic_time () - start, <, 60 * G_USEC_PER_SEC); /* also under sanitizers */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/safetensors/bad-headers", test_bad_headers);
  g_test_add_func ("/safetensors/bad-lengths", test_bad_lengths);
  g_test_add_func ("/safetensors/other-files", test_other_files);
  g_test_add_func ("/safetensors/good", test_good);
  g_test_add_func ("/safetensors/odd-but-good", test_odd_but_good);
  g_test_add_func ("/safetensors/names", test_names);
  g_test_add_func ("/safetensors/bounded", test_bounded);
  return g_test_run ();
}
