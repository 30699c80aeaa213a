/* Any text as a size: what is accepted is the same number when it is written plainly, and the two ways of writing sizes
 * agree where they mean the same. */
#include "base/text.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  guint64 value = 0, again = 1, bytes = 0;
  if (!text_parse_quantity (text, &value))
    return 0;
  g_assert_cmpuint (value, <=, G_MAXINT64);
  g_autofree char *plain = g_strdup_printf ("%" G_GUINT64_FORMAT, value);
  g_assert_true (text_parse_quantity (plain, &again) && again == value);
  if (!g_str_has_suffix (text, "m") && text_parse_bytes (text, &bytes)) /* thousandths there, millions here */
    g_assert_cmpuint (bytes, ==, value);
  return 0;
}
