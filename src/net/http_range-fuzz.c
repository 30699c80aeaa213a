/* The three range parsers: what they accept lies inside the body, does not overflow, and reads back. */
#include "net/http_range.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_range (const char *header, guint64 size_bytes)
{
  guint64 first, length, again_first, again_length;
  if (http_range_parse (header, size_bytes, &first, &length) != HTTP_RANGE_PART)
    return;
  g_assert_cmpuint (length, >, 0);
  g_assert_cmpuint (first, <, size_bytes);
  g_assert_cmpuint (length, <=, size_bytes - first);
  g_autofree char *text = g_strdup_printf ("bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, first,
                                           first + length - 1);
  g_assert_cmpint (http_range_parse (text, size_bytes, &again_first, &again_length), ==, HTTP_RANGE_PART);
  g_assert_cmpuint (first, ==, again_first);
  g_assert_cmpuint (length, ==, again_length);
}

static void
check_extents (const char *header)
{
  guint64 first, last, total, again_first, again_last;
  if (http_upload_range_parse (header, &first, &last, NULL))
    {
      g_assert_cmpuint (first, <=, last);
      g_assert_cmpuint (last, <=, G_MAXINT64);
      g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, first, last);
      g_assert_true (http_upload_range_parse (text, &again_first, &again_last, NULL));
      g_assert_true (first == again_first && last == again_last);
    }
  if (http_content_range_parse (header, &first, &last, &total, NULL))
    {
      g_assert_cmpuint (first, <=, last);
      g_assert_cmpuint (last, <, total);
      g_assert_true (http_upload_range_parse (header, &again_first, &again_last, NULL));
      g_assert_true (first == again_first && last == again_last);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  guint64 size_bytes = 0;
  if (size < sizeof size_bytes)
    return 0;
  memcpy (&size_bytes, data, sizeof size_bytes);
  g_autofree char *header = g_strndup ((const char *) data + sizeof size_bytes, size - sizeof size_bytes);
  check_range (header, size_bytes);
  check_extents (header);
  return 0;
}
