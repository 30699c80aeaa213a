/* Any bytes as YAML: refused with a position, or a document that is valid JSON and, read as YAML again, says the same. */
#include "base/yaml_reader.h"

#include <stdlib.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

#define LIMIT_BYTES (64u << 10)

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (yyjson_doc) doc = yaml_parse (data, size, LIMIT_BYTES, &error);
  g_assert_true ((doc == NULL) == (error != NULL));
  if (doc == NULL)
    return 0;
  size_t text_size = 0, again_size = 0;
  char *text = yyjson_write (doc, 0, &text_size);
  g_assert_nonnull (text);
  g_autoptr (yyjson_doc) again = json_parse (text, text_size, G_MAXSIZE, JSON_STRICT, &error);
  g_assert_no_error (error);
  char *text_again = yyjson_write (again, 0, &again_size);
  g_assert_cmpmem (text, text_size, text_again, again_size);
  free (text);
  free (text_again);
  return 0;
}
