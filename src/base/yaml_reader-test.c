#include "base/yaml_reader.h"

#include <string.h>

#include "base/error.h"

#define LIMIT 4096

static void
test_values (void)
{
  static const struct {
    const char *yaml, *json;
  } rows[] = {
    { "", "null" },
    { "---\n...\n", "null" },
    { "a: 1\nb: two\n", "{\"a\":1,\"b\":\"two\"}" },
    { "- 1\n- -2\n- 0x10\n- 0o17\n- 1.5\n- 1e3\n", "[1,-2,16,15,1.5,1000.0]" },
    { "[true, False, ~, null, yes, no, on]", "[true,false,null,null,\"yes\",\"no\",\"on\"]" },
    { "a: '1'\nb: \"true\"\nc: !!str 1\n", "{\"a\":\"1\",\"b\":\"true\",\"c\":\"1\"}" },
    { "a:\n  b:\n  - c: |\n      x\n      y\n", "{\"a\":{\"b\":[{\"c\":\"x\\ny\\n\"}]}}" },
    { "a: &x 1\n", "{\"a\":1}" },
    { "1: a\n", "{\"1\":\"a\"}" },
    { "a: 99999999999999999999\n", "{\"a\":100000000000000000000.0}" },
    { "a: 1e999\n", "{\"a\":\"1e999\"}" },
    { "a: 1.34.4\nc: 0x\nd: +\n", "{\"a\":\"1.34.4\",\"c\":\"0x\",\"d\":\"+\"}" },
    { "{\"apiVersion\": \"v1\", \"n\": [1, {}]}", "{\"apiVersion\":\"v1\",\"n\":[1,{}]}" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (yyjson_doc) doc = yaml_parse (rows[i].yaml, strlen (rows[i].yaml), LIMIT, &error);
      g_assert_no_error (error);
      g_autofree char *text = yyjson_write (doc, 0, NULL);
      g_assert_cmpstr (text, ==, rows[i].json);
    }
}

static void
test_refusals (void)
{
  g_autofree char *deep = g_strnfill (JSON_MAX_DEPTH + 1, '[');
  const struct {
    const char *yaml, *message;
  } rows[] = {
    { "a: &x 1\nb: *x\n", "line 2 column 4: aliases" },
    { "a: 1\na: 2\n", "line 2 column 1: the same key twice" },
    { "? [a]\n: 1\n", "a key that is no text" },
    { "a: 1\n---\nb: 2\n", "a second document" },
    { "a: [1\n", "line 2" },
    { "a: \"\\0\"\n", "a NUL" },
    { "\t- a", "line 1" },
    { "a: \xff\n", "YAML" },
    { deep, "nested too deeply" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (yaml_parse (rows[i].yaml, strlen (rows[i].yaml), LIMIT, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
  g_autoptr (GError) error = NULL;
  g_assert_null (yaml_parse ("abc", 3, 2, &error));
  g_assert_true (am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/yaml/values", test_values);
  g_test_add_func ("/yaml/refusals", test_refusals);
  return g_test_run ();
}
