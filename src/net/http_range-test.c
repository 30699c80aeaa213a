#include "net/http_range.h"

#define U64_MAX G_MAXUINT64

static void
test_range (void)
{
  static const struct {
    const char *header;
    guint64 size;
    HttpRangeVerdict verdict;
    guint64 first, length;
  } rows[] = {
    { NULL, 10, HTTP_RANGE_NONE },
    { "", 10, HTTP_RANGE_NONE },
    { "bytes", 10, HTTP_RANGE_NONE },
    { "bytes=", 10, HTTP_RANGE_NONE },
    { "bytes=-", 10, HTTP_RANGE_NONE },
    { "bytes=0", 10, HTTP_RANGE_NONE },
    { "bytes=a-b", 10, HTTP_RANGE_NONE },
    { "bytes=1-2x", 10, HTTP_RANGE_NONE },
    { "bytes=+1-2", 10, HTTP_RANGE_NONE },
    { "bytes=--1", 10, HTTP_RANGE_NONE },
    { "bytes=1--2", 10, HTTP_RANGE_NONE },
    { "bytes=1 -2", 10, HTTP_RANGE_NONE },
    { "bytes =1-2", 10, HTTP_RANGE_NONE },
    { "items=0-1", 10, HTTP_RANGE_NONE },
    { "bytes=0-1,3-4", 10, HTTP_RANGE_NONE },
    { "bytes=0-1,", 10, HTTP_RANGE_NONE },
    { "bytes=5-4", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=500-0", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=0-0", 10, HTTP_RANGE_PART, 0, 1 },
    { "bytes=0-9", 10, HTTP_RANGE_PART, 0, 10 },
    { "BYTES=3-4", 10, HTTP_RANGE_PART, 3, 2 },
    { "bytes= 3-4 ", 10, HTTP_RANGE_PART, 3, 2 },
    { "bytes=0-10", 10, HTTP_RANGE_PART, 0, 10 },
    { "bytes=9-99999999999999999999999", 10, HTTP_RANGE_PART, 9, 1 },
    { "bytes=0-", 10, HTTP_RANGE_PART, 0, 10 },
    { "bytes=9-", 10, HTTP_RANGE_PART, 9, 1 },
    { "bytes=10-", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=10-20", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=5000-10000", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=99999999999999999999999-", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=-1", 10, HTTP_RANGE_PART, 9, 1 },
    { "bytes=-10", 10, HTTP_RANGE_PART, 0, 10 },
    { "bytes=-500", 10, HTTP_RANGE_PART, 0, 10 },
    { "bytes=-99999999999999999999999", 10, HTTP_RANGE_PART, 0, 10 },
    { "bytes=-0", 10, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=0-", 0, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=0-0", 0, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=-5", 0, HTTP_RANGE_UNSATISFIABLE },
    { "bytes=0-", U64_MAX, HTTP_RANGE_PART, 0, U64_MAX },
    { "bytes=18446744073709551614-18446744073709551615", U64_MAX, HTTP_RANGE_PART, U64_MAX - 1, 1 },
    { "bytes=18446744073709551615-", U64_MAX, HTTP_RANGE_UNSATISFIABLE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 first = 0, length = 0;
      g_test_message ("%s of %" G_GUINT64_FORMAT, rows[i].header, rows[i].size);
      g_assert_cmpint (http_range_parse (rows[i].header, rows[i].size, &first, &length), ==, rows[i].verdict);
      g_assert_cmpuint (first, ==, rows[i].first);
      g_assert_cmpuint (length, ==, rows[i].length);
    }
}

/* Every range over a small body, against a plain reading of the rule. */
static void
test_range_exhaustively (void)
{
  for (guint64 size = 0; size <= 6; size++)
    for (guint64 a = 0; a <= 8; a++)
      for (guint64 b = a; b <= 8; b++)
        {
          g_autofree char *header = g_strdup_printf ("bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, a, b);
          guint64 first = 0, length = 0, n = 0;
          for (guint64 i = 0; i < size; i++)
            n += i >= a && i <= b;
          HttpRangeVerdict verdict = http_range_parse (header, size, &first, &length);
          g_assert_cmpint (verdict, ==, n > 0 ? HTTP_RANGE_PART : HTTP_RANGE_UNSATISFIABLE);
          g_assert_cmpuint (length, ==, n);
          if (n > 0)
            g_assert_cmpuint (first, ==, a);
        }
}

typedef struct {
  const char *header;
  gboolean good;
  guint64 first, last, total;
} ExtentRow;

static void
test_upload_range (void)
{
  static const ExtentRow rows[] = {
    { "0-0", TRUE, 0, 0 },
    { "5-9", TRUE, 5, 9 },
    { "bytes 5-9/10", TRUE, 5, 9 },
    { "bytes 5-9/*", TRUE, 5, 9 },
    { "Bytes 5-9/*", TRUE, 5, 9 },
    { "5-9/10", TRUE, 5, 9 },
    { "0-9223372036854775807", TRUE, 0, G_MAXINT64 },
    { "0-9223372036854775808", FALSE },
    { "0-99999999999999999999999", FALSE },
    { NULL, FALSE },
    { "", FALSE },
    { "-", FALSE },
    { "5-", FALSE },
    { "-5", FALSE },
    { "0--1", FALSE },
    { "9-5", FALSE },
    { "5-9 ", FALSE },
    { " 5-9", FALSE },
    { "5-9/", FALSE },
    { "5-9/9", FALSE },
    { "5-9/**", FALSE },
    { "5-9/10x", FALSE },
    { "bytes=5-9", FALSE },
    { "bytes  5-9", FALSE },
    { "bytes */10", FALSE },
    { "5-9,11-12", FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      guint64 first = 0, last = 0;
      g_test_message ("%s", rows[i].header);
      g_assert_cmpint (http_upload_range_parse (rows[i].header, &first, &last, &error), ==, rows[i].good);
      g_assert_cmpuint (first, ==, rows[i].first);
      g_assert_cmpuint (last, ==, rows[i].last);
      g_assert_cmpint (am_error_is (error, AM_ERROR_INVALID_ARGUMENT), ==, !rows[i].good);
    }
}

static void
test_content_range (void)
{
  static const ExtentRow rows[] = {
    { "bytes 0-0/1", TRUE, 0, 0, 1 },
    { "bytes 5-9/10", TRUE, 5, 9, 10 },
    { "bytes 5-9/*", TRUE, 5, 9, U64_MAX },
    { "BYTES 5-9/*", TRUE, 5, 9, U64_MAX },
    { NULL, FALSE },
    { "", FALSE },
    { "5-9/10", FALSE },
    { "bytes 5-9", FALSE },
    { "bytes 5-9/9", FALSE },
    { "bytes 9-5/10", FALSE },
    { "bytes */10", FALSE },
    { "bytes 5-9/10 ", FALSE },
    { "bytes=5-9/10", FALSE },
    { "bytes 5-9223372036854775808/*", FALSE },
    { "bytes 5-9/99999999999999999999999", FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      guint64 first = 0, last = 0, total = 0;
      g_test_message ("%s", rows[i].header);
      g_assert_cmpint (http_content_range_parse (rows[i].header, &first, &last, &total, &error), ==, rows[i].good);
      g_assert_cmpuint (first, ==, rows[i].first);
      g_assert_cmpuint (last, ==, rows[i].last);
      g_assert_cmpuint (total, ==, rows[i].total);
      g_assert_cmpint (am_error_is (error, AM_ERROR_DATA_LOSS), ==, !rows[i].good);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/http-range/range", test_range);
  g_test_add_func ("/http-range/exhaustive", test_range_exhaustively);
  g_test_add_func ("/http-range/upload-range", test_upload_range);
  g_test_add_func ("/http-range/content-range", test_content_range);
  return g_test_run ();
}
