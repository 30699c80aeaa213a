/* An address as a person pastes it: what is accepted names a model by three parts that are safe in another address and in a
 * file's name, and the canonical form means the same. */
#include "sources/ollama_url.h"

#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_part (const char *part)
{
  g_assert_true (path_is_safe (part));
  g_assert_cmpuint (strlen (part), <=, 80);
  g_assert_cmpuint (strspn (part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."), ==,
                    strlen (part));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_autoptr (GError) error = NULL;
  g_auto (OllamaUrl) url = { 0 }, again = { 0 };
  if (!ollama_url_parse (text, "http://mirror/ollama", &url, &error))
    {
      g_assert_nonnull (error);
      g_assert_null (url.model);
      return 0;
    }
  g_assert_true (ollama_url_is (text, "http://mirror/ollama"));
  check_part (url.space);
  check_part (url.model);
  check_part (url.tag);
  g_autofree char *canonical = ollama_url_to_string (&url, "http://mirror/ollama");
  /* The site's own pages have names that a user could have behind ollama://. */
  if (!ollama_url_parse (canonical, "http://mirror/ollama", &again, &error))
    {
      g_assert_cmpstr (am_error_reason (error), ==, "UnsupportedSource");
      return 0;
    }
  g_assert_cmpstr (again.space, ==, url.space);
  g_assert_cmpstr (again.model, ==, url.model);
  g_assert_cmpstr (again.tag, ==, url.tag);
  return 0;
}
