/* Request targets: what is accepted is valid UTF-8 without dot segments, and the path reads back. */
#include "net/http_target.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_match (const HttpTarget *target)
{
  static HttpPattern *pattern; /* once: it is the same for every input */
  if (pattern == NULL)
    pattern = http_pattern_new ("/v2/{name+}/blobs/{digest}");
  g_autoptr (GPtrArray) arguments = http_pattern_match (pattern, target);
  if (arguments == NULL)
    return;
  const char *name = http_arguments_find (arguments, "name");
  g_assert_true (*name != '\0' && *name != '/' && !g_str_has_suffix (name, "/") && strstr (name, "//") == NULL);
  g_assert_cmpuint (*http_arguments_find (arguments, "digest"), !=, '\0');
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *raw = g_strndup ((const char *) data, size);
  g_auto (HttpTarget) target = { 0 }, again = { 0 };
  if (!http_target_parse (raw, &target, NULL))
    return 0;
  g_assert_true (target.path[0] == '/' && g_utf8_validate (target.path, -1, NULL));
  for (guint i = 0; i < target.segments->len; i++)
    {
      const char *segment = g_ptr_array_index (target.segments, i);
      g_assert_true (strcmp (segment, ".") != 0 && strcmp (segment, "..") != 0);
    }
  for (guint i = 0; i < target.query->len; i++)
    {
      const HttpArgument *argument = g_ptr_array_index (target.query, i);
      g_assert_true (g_utf8_validate (argument->name, -1, NULL) && g_utf8_validate (argument->value, -1, NULL));
    }
  g_autoptr (GString) escaped = g_string_new (NULL);
  for (guint i = 0; i < target.segments->len; i++)
    {
      g_string_append_c (escaped, '/');
      g_string_append_uri_escaped (escaped, g_ptr_array_index (target.segments, i), NULL, FALSE);
    }
  g_assert_true (http_target_parse (escaped->str, &again, NULL));
  g_assert_cmpstr (target.path, ==, again.path);
  check_match (&target);
  return 0;
}
