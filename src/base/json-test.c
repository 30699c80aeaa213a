#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define LIMIT 4096u

static yyjson_doc *
parse (const char *text, JsonFlavour flavour, GError **error)
{
  return json_parse (text, strlen (text), LIMIT, flavour, error);
}

static char *
nested (guint depth, char open, char close)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < depth; i++)
    g_string_append (text, open == '{' ? "{\"a\":" : "[");
  g_string_append (text, "1");
  for (guint i = 0; i < depth; i++)
    g_string_append_c (text, close);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
test_parse (void)
{
  static const struct {
    const char *text;
    gboolean strict, wild;
  } rows[] = {
    { "{}", TRUE, TRUE },
    { " [1,2] ", TRUE, TRUE },
    { "\"x\"", TRUE, TRUE },
    { "{\"a\":NaN}", FALSE, TRUE },
    { "[Infinity,-Infinity]", FALSE, TRUE },
    { "\xef\xbb\xbf{}", FALSE, TRUE },
    { "[123456789012345678901234567890]", TRUE, TRUE },
    { "[\"[[[[[[\"]", TRUE, TRUE },
    { "[\"\\\"[\"]", TRUE, TRUE },
    { "", FALSE, FALSE },
    { "\xef\xbb\xbf", FALSE, FALSE },
    { "{", FALSE, FALSE },
    { "{\"a\":1,}", FALSE, FALSE },
    { "{'a':1}", FALSE, FALSE },
    { "{} {}", FALSE, FALSE },
    { "[1]//", FALSE, FALSE },
    { "\"\xff\"", FALSE, FALSE },
    { "\"\\ud800\"", FALSE, FALSE },
    { "[01]", FALSE, FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint wild = 0; wild < 2; wild++)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (yyjson_doc) doc = parse (rows[i].text, wild ? JSON_WILD : JSON_STRICT, &error);
        gboolean wanted = wild ? rows[i].wild : rows[i].strict;
        g_autofree char *shown = g_strescape (rows[i].text, NULL);
        g_test_message ("%s", shown);
        g_assert_cmpint (doc != NULL, ==, wanted);
        if (!wanted)
          g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      }
}

static void
test_limits (void)
{
  static const char brackets[] = "[]{}";
  for (guint i = 0; i < 4; i += 2)
    for (guint depth = JSON_MAX_DEPTH - 1; depth <= JSON_MAX_DEPTH + 1; depth++)
      {
        g_autofree char *text = nested (depth, brackets[i], brackets[i + 1]);
        g_autoptr (GError) error = NULL;
        g_autoptr (yyjson_doc) doc = parse (text, JSON_STRICT, &error);
        g_assert_cmpint (doc != NULL, ==, depth <= JSON_MAX_DEPTH);
      }
  g_autofree char *large = g_strnfill (LIMIT + 1, ' ');
  large[LIMIT - 1] = '1';
  g_autoptr (GError) error = NULL;
  g_autoptr (yyjson_doc) fits = json_parse (large, LIMIT, LIMIT, JSON_STRICT, &error);
  g_assert_no_error (error);
  g_assert_nonnull (fits);
  g_assert_null (json_parse (large, LIMIT + 1, LIMIT, JSON_STRICT, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
}

static void
test_count_values (void)
{
  static const struct {
    const char *text;
    gsize n;
  } rows[] = {
    { "", 0 },
    { "0", 1 },
    { "\"a,b:[{\"", 1 },
    { "[0,0]", 3 },
    { "{\"a\":1,\"b\":[true,null]}", 7 },
    { "[\",\\\",[\",\"\\\\\",\",\"]", 4 },   /* ","[", "\", "," */
    { "[\"\\u002c\", \"\\\\\\\",{:\"]", 3 }, /* ",", "\",{:" */
    { "[]", 2 },                             /* one too many */
    { "[\"never ends,,,", 2 },
    { "\"\\", 1 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (yyjson_doc) doc = parse (rows[i].text, JSON_STRICT, NULL);
      g_test_message ("%s", rows[i].text);
      g_assert_cmpuint (json_count_values (rows[i].text, strlen (rows[i].text)), ==, rows[i].n);
      g_assert_cmpuint (doc != NULL ? yyjson_doc_get_val_count (doc) : 0, <=, rows[i].n);
    }
}

typedef struct {
  char *name;
  guint64 size;
  gint64 delta;
  gboolean is_public;
  double rate;
  GPtrArray *tags;
} Row;

static const JsonField fields[] = {
  JSON_FIELD (Row, name, "name", JSON_STRING, TRUE),   JSON_FIELD (Row, size, "size", JSON_UINT64, FALSE),
  JSON_FIELD (Row, delta, "delta", JSON_INT64, FALSE), JSON_FIELD (Row, is_public, "public", JSON_BOOL, FALSE),
  JSON_FIELD (Row, rate, "rate", JSON_DOUBLE, FALSE),  JSON_FIELD (Row, tags, "tags", JSON_STRINGS, FALSE),
};

static gboolean
bind (const char *text, Row *row, GError **error)
{
  g_autoptr (yyjson_doc) doc = parse (text, JSON_WILD, error);
  g_assert_nonnull (doc);
  return json_bind (yyjson_doc_get_root (doc), fields, G_N_ELEMENTS (fields), row, error);
}

static char *
print (const Row *row)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  json_unbind (doc, root, fields, G_N_ELEMENTS (fields), row);
  return json_write (doc, NULL);
}

static void
test_bind (void)
{
  static const char text[] = "{\"name\":\"n\",\"size\":18446744073709551615,\"delta\":-9223372036854775808,"
                             "\"public\":true,\"rate\":0.5,\"tags\":[\"a\",\"\"]}";
  Row row = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (bind (text, &row, &error));
  g_assert_cmpstr (row.name, ==, "n");
  g_assert_cmpuint (row.size, ==, G_MAXUINT64);
  g_assert_cmpint (row.delta, ==, G_MININT64);
  g_assert_true (row.is_public);
  g_assert_cmpfloat (row.rate, ==, 0.5);
  g_assert_cmpuint (row.tags->len, ==, 2);
  g_autofree char *printed = print (&row);
  g_assert_cmpstr (printed, ==, text);
  /* Binding over bound values frees them. */
  g_assert_true (bind ("{\"name\":\"m\",\"tags\":null,\"size\":null,\"unknown\":{}}", &row, &error));
  g_assert_cmpstr (row.name, ==, "m");
  g_assert_cmpuint (row.tags->len, ==, 2);
  json_clear (fields, G_N_ELEMENTS (fields), &row);
  g_assert_null (row.name);
  g_assert_null (row.tags);
}

static void
test_bind_refuses (void)
{
  static const struct {
    const char *text, *part;
  } rows[] = {
    { "[]", "object" },
    { "{}", "\"name\" is missing" },
    { "{\"name\":null}", "\"name\" is missing" },
    { "{\"name\":1}", "\"name\" must be a string" },
    { "{\"name\":\"a\\u0000b\"}", "\"name\" must be a string" },
    { "{\"name\":\"a\",\"size\":-1}", "\"size\" must be a non-negative integer" },
    { "{\"name\":\"a\",\"size\":1.0}", "\"size\"" },
    { "{\"name\":\"a\",\"size\":18446744073709551616}", "\"size\"" },
    { "{\"name\":\"a\",\"delta\":9223372036854775808}", "\"delta\" must be an integer" },
    { "{\"name\":\"a\",\"public\":1}", "\"public\" must be true or false" },
    { "{\"name\":\"a\",\"rate\":\"1\"}", "\"rate\" must be a number" },
    { "{\"name\":\"a\",\"tags\":\"x\"}", "\"tags\" must be an array of strings" },
    { "{\"name\":\"a\",\"tags\":[\"x\",1]}", "\"tags\"" },
    { "{\"name\":\"a\",\"tags\":[\"x\\u0000y\"]}", "\"tags\"" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      Row row = { 0 };
      g_autoptr (GError) error = NULL;
      g_autofree char *shown = g_strescape (rows[i].text, NULL);
      g_test_message ("%s", shown);
      g_assert_false (bind (rows[i].text, &row, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_nonnull (strstr (error->message, rows[i].part));
      json_clear (fields, G_N_ELEMENTS (fields), &row);
    }
}

static void
test_get (void)
{
  g_autoptr (yyjson_doc) doc = parse ("{\"s\":\"x\",\"o\":{},\"a\":[],\"n\":1,\"z\":\"x\\u0000y\"}", JSON_STRICT,
                                      NULL);
  yyjson_val *root = yyjson_doc_get_root (doc);
  g_assert_cmpstr (json_get_string (root, "s"), ==, "x");
  g_assert_null (json_get_string (root, "n"));
  g_assert_null (json_get_string (root, "missing"));
  g_assert_null (json_get_string (root, "z")); /* "x" would be a lie */
  g_assert_null (json_get_string (NULL, "s"));
  g_assert_nonnull (json_get_object (root, "o"));
  g_assert_null (json_get_object (root, "a"));
  g_assert_nonnull (json_get_array (root, "a"));
  g_assert_null (json_get_array (root, "o"));
}

/* What JSON cannot say does not end the process. */
static void
test_write_anything (void)
{
  Row row = { .name = (char *) "bad \xff\xfe bytes", .rate = NAN };
  g_autofree char *text = print (&row);
  g_autoptr (yyjson_doc) doc = parse (text, JSON_STRICT, NULL);
  g_assert_nonnull (doc);
  g_assert_cmpstr (json_get_string (yyjson_doc_get_root (doc), "name"), ==, "bad \xef\xbf\xbd\xef\xbf\xbd bytes");
  g_assert_true (yyjson_is_null (yyjson_obj_get (yyjson_doc_get_root (doc), "rate")));
  g_autoptr (yyjson_mut_doc) built = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (built, yyjson_mut_obj (built));
  yyjson_mut_obj_add_real (built, yyjson_mut_doc_get_root (built), "x", INFINITY);
  g_autofree char *pretty = json_write_pretty (built);
  g_assert_cmpstr (pretty, ==, "{\n  \"x\": null\n}");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json/parse", test_parse);
  g_test_add_func ("/json/limits", test_limits);
  g_test_add_func ("/json/count-values", test_count_values);
  g_test_add_func ("/json/bind", test_bind);
  g_test_add_func ("/json/bind-refuses", test_bind_refuses);
  g_test_add_func ("/json/get", test_get);
  g_test_add_func ("/json/write-anything", test_write_anything);
  return g_test_run ();
}
