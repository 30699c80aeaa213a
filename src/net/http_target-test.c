#include "net/http_target.h"

#include <string.h>

/* "path|segment,segment|name=value&name=value" */
static char *
describe (const HttpTarget *target)
{
  GString *text = g_string_new (target->path);
  for (guint i = 0; i < target->segments->len; i++)
    g_string_append_printf (text, "%s%s", i == 0 ? "|" : ",", (char *) g_ptr_array_index (target->segments, i));
  g_string_append_c (text, '|');
  for (guint i = 0; i < target->query->len; i++)
    {
      const HttpArgument *argument = g_ptr_array_index (target->query, i);
      g_string_append_printf (text, "%s%s=%s", i == 0 ? "" : "&", argument->name, argument->value);
    }
  return g_string_free (text, FALSE);
}

static void
test_parse (void)
{
  static const struct {
    const char *raw, *description; /* NULL: refused */
  } rows[] = {
    { "/", "/||" },
    { "/a", "/a|a|" },
    { "/a/", "/a/|a,|" },
    { "//a", "//a|,a|" },
    { "/a%20b/%C3%A9", "/a b/é|a b,é|" },
    { "/a+b", "/a+b|a+b|" },
    { "/a%2fb/c", "/a%2Fb/c|a/b,c|" },
    { "/a%252fb", "/a%2fb|a%2fb|" },
    { "/a?x=1&y=2", "/a|a|x=1&y=2" },
    { "/a?x=1&x=2&y", "/a|a|x=1&x=2&y=" },
    { "/a?x=a+b%26c%3Dd&=e", "/a|a|x=a b&c=d&=e" },
    { "/a?", "/a|a|" },
    { "/a?&&x=&", "/a|a|x=" },
    { "/a?x=/../?", "/a|a|x=/../?" },
    { "/a?x=b=c", "/a|a|x=b=c" },
    { "http://host:80/a?b=c", "/a|a|b=c" },
    { "HTTPS://host/a", "/a|a|" },
    { "/...", "/...|...|" },
    { "", NULL },
    { "a", NULL },
    { "*", NULL },
    { "http://host", NULL },
    { "ftp://host/a", NULL },
    { "/a#b", NULL },
    { "/.", NULL },
    { "/..", NULL },
    { "/a/../b", NULL },
    { "/%2e%2E/b", NULL },
    { "/a%00", NULL },
    { "/a%0a", NULL },
    { "/a\x01", NULL },
    { "/a%7f", NULL },
    { "/%ff", NULL },
    { "/\xff", NULL },
    { "/%c0%af", NULL },
    { "/%", NULL },
    { "/%4", NULL },
    { "/%zz", NULL },
    { "/%4/x", NULL },
    { "/a?x=%", NULL },
    { "/a?%00=x", NULL },
    { "/a?x=%ff", NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (HttpTarget) target = { 0 };
      g_autoptr (GError) error = NULL;
      g_autofree char *shown = g_strescape (rows[i].raw, NULL);
      g_test_message ("%s", shown);
      gboolean parsed = http_target_parse (rows[i].raw, &target, &error);
      g_autofree char *description = parsed ? describe (&target) : NULL;
      g_assert_cmpstr (description, ==, rows[i].description);
      g_assert_cmpint (am_error_is (error, AM_ERROR_INVALID_ARGUMENT), ==, !parsed);
    }
}

static void
test_many_arguments (void)
{
  g_autoptr (GString) raw = g_string_new ("/?");
  for (guint i = 0; i < 256; i++)
    g_string_append (raw, "a=b&");
  g_auto (HttpTarget) target = { 0 }, too_many = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (http_target_parse (raw->str, &target, &error));
  g_string_append (raw, "a=b");
  g_assert_false (http_target_parse (raw->str, &too_many, &error));
}

static void
test_match (void)
{
  static const struct {
    const char *pattern, *raw, *arguments; /* NULL: no match */
  } rows[] = {
    { "/", "/", "" },
    { "/", "/a", NULL },
    { "/v2/", "/v2/", "" },
    { "/v2/", "/v2", NULL },
    { "/v2/", "/v2/a", NULL },
    { "/a/{x}", "/a/b", "x=b" },
    { "/a/{x}", "/a/", NULL },
    { "/a/{x}", "/a/b/c", NULL },
    { "/a/{x}", "/a/b%2Fc", "x=b/c" },
    { "/a/{x}/{y}", "/a/b/c", "x=b y=c" },
    { "/v2/{name+}/blobs/{digest}", "/v2/a/blobs/d", "name=a digest=d" },
    { "/v2/{name+}/blobs/{digest}", "/v2/a/b/c/blobs/d", "name=a/b/c digest=d" },
    { "/v2/{name+}/blobs/{digest}", "/v2/a/blobs/blobs/d", "name=a/blobs digest=d" },
    { "/v2/{name+}/blobs/{digest}", "/v2/blobs/blobs/d", "name=blobs digest=d" },
    { "/v2/{name+}/blobs/{digest}", "/v2/blobs/d", NULL },
    { "/v2/{name+}/blobs/{digest}", "/v2//blobs/d", NULL },
    { "/v2/{name+}/blobs/{digest}", "/v2/a//b/blobs/d", NULL },
    { "/v2/{name+}/blobs/{digest}", "/v2/a%2Fb/blobs/d", NULL },
    { "/v2/{name+}/blobs/uploads/", "/v2/a/blobs/uploads/", "name=a" },
    { "/v2/{name+}/blobs/uploads/", "/v2/a/blobs/uploads", NULL },
    { "/{rest+}", "/a/b", "rest=a/b" },
    { "/{rest+}", "/", NULL },
    { "/blobs", "/blob%73", "" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (HttpTarget) target = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (HttpPattern) pattern = http_pattern_new (rows[i].pattern);
      g_autoptr (GString) text = g_string_new (NULL);
      g_test_message ("%s %s", rows[i].pattern, rows[i].raw);
      g_assert_true (http_target_parse (rows[i].raw, &target, &error));
      g_autoptr (GPtrArray) arguments = http_pattern_match (pattern, &target);
      g_assert_cmpint (arguments != NULL, ==, rows[i].arguments != NULL);
      for (guint j = 0; arguments != NULL && j < arguments->len; j++)
        {
          const HttpArgument *argument = g_ptr_array_index (arguments, j);
          g_string_append_printf (text, "%s%s=%s", j == 0 ? "" : " ", argument->name, argument->value);
          g_assert_cmpstr (http_arguments_find (arguments, argument->name), ==, argument->value);
        }
      if (arguments != NULL)
        g_assert_cmpstr (text->str, ==, rows[i].arguments);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/http-target/parse", test_parse);
  g_test_add_func ("/http-target/many-arguments", test_many_arguments);
  g_test_add_func ("/http-target/match", test_match);
  return g_test_run ();
}
