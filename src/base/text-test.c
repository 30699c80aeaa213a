#include "base/text.h"

#include <string.h>

static void
test_bytes (void)
{
  static const struct {
    guint64 n_bytes;
    const char *text;
  } rows[] = {
    { 0, "0 B" },
    { 999, "999 B" },
    { 1000, "1.0 kB" },
    { 999949, "999.9 kB" },
    { 999950, "1.0 MB" },
    { 90868376, "90.9 MB" },
    { 1000000000000ull, "1.0 TB" },
    { G_MAXUINT64, "18.4 EB" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *text = text_bytes (rows[i].n_bytes);
      g_assert_cmpstr (text, ==, rows[i].text);
    }
}

static void
test_count (void)
{
  static const struct {
    guint64 count;
    const char *text;
  } rows[] = {
    { 0, "0" },
    { 999, "999" },
    { 1000, "1K" },
    { 22713728, "22.7M" },
    { 999949, "999.9K" },
    { 999950, "1M" },
    { 7000000000, "7B" },
    { 1540000000000, "1.5T" },
    { 7040000000, "7B" },
    { 7050000000, "7.1B" },
    { G_MAXUINT64, "18446.7Q" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *text = text_count (rows[i].count);
      g_assert_cmpstr (text, ==, rows[i].text);
    }
}

static void
test_parse_u64 (void)
{
  static const struct {
    const char *text;
    gboolean ok;
    guint64 value;
  } rows[] = {
    { "0", TRUE, 0 },
    { "007", TRUE, 7 },
    { "18446744073709551615", TRUE, G_MAXUINT64 },
    { "18446744073709551616", FALSE, 0 },
    { "99999999999999999999999", FALSE, 0 },
    { "", FALSE, 0 },
    { NULL, FALSE, 0 },
    { "-1", FALSE, 0 },
    { "+1", FALSE, 0 },
    { " 1", FALSE, 0 },
    { "1 ", FALSE, 0 },
    { "0x10", FALSE, 0 },
    { "\xd9\xa1", FALSE, 0 }, /* an Arabic-Indic one */
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 value = 77;
      g_assert_cmpint (text_parse_u64 (rows[i].text, &value), ==, rows[i].ok);
      g_assert_cmpuint (value, ==, rows[i].ok ? rows[i].value : 77);
    }
}

static void
test_parse_bytes (void)
{
  static const struct {
    const char *text;
    gboolean ok;
    guint64 value;
  } rows[] = {
    { "1073741824", TRUE, 1073741824 },
    { "8MiB", TRUE, 8 << 20 },
    { "100MB", TRUE, 100000000 },
    { "512k", TRUE, 512000 },
    { "512K", TRUE, 512000 },
    { "2Gi", TRUE, 2ull << 30 },
    { "1b", TRUE, 1 },
    { "16777215TiB", TRUE, 16777215ull << 40 },
    { "16777216TiB", FALSE, 0 },
    { "MiB", FALSE, 0 },
    { "1.5G", FALSE, 0 },
    { "8 MiB", FALSE, 0 },
    { "8MiBx", FALSE, 0 },
    { "-8", FALSE, 0 },
    { "", FALSE, 0 },
    { NULL, FALSE, 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 value = 77;
      g_assert_cmpint (text_parse_bytes (rows[i].text, &value), ==, rows[i].ok);
      if (rows[i].ok)
        g_assert_cmpuint (value, ==, rows[i].value);
    }
}

/* apimachinery's resource.ParseQuantity, and Value, which rounds up. */
static const struct {
  const char *text;
  gboolean ok;
  guint64 value;
} quantities[] = {
  { "0", TRUE, 0 },
  { "123", TRUE, 123 },
  { "+5", TRUE, 5 },
  { "1.", TRUE, 1 },
  { ".5", TRUE, 1 },
  { "0.0", TRUE, 0 },
  { "1.0000000001", TRUE, 2 },
  { "500Gi", TRUE, 500ull << 30 },
  { "1.5T", TRUE, 1500000000000 },
  { "1.5Ti", TRUE, 3ull << 39 },
  { "0.1Gi", TRUE, 107374183 },
  { "10k", TRUE, 10000 },
  { "2M", TRUE, 2000000 },
  { "3P", TRUE, 3000000000000000 },
  { "7E", TRUE, 7000000000000000000 },
  { "7Ei", TRUE, 7ull << 60 },
  { "1Ki", TRUE, 1024 },
  { "1Mi", TRUE, 1 << 20 },
  { "1Pi", TRUE, 1ull << 50 },
  { "1e3", TRUE, 1000 },
  { "1E3", TRUE, 1000 },
  { "1.25e+2", TRUE, 125 },
  { "1500e-3", TRUE, 2 },
  { "2500m", TRUE, 3 },
  { "1m", TRUE, 1 },
  { "2000000u", TRUE, 2 },
  { "1n", TRUE, 1 },
  { "9223372036854775807", TRUE, G_MAXINT64 },
  { "9223372036854775808", FALSE, 0 },
  { "8Ei", FALSE, 0 },
  { "1e19", FALSE, 0 },
  { "1e30", FALSE, 0 },
  { "340282366920938463463374607431768211456", FALSE, 0 },
  { "1e31", FALSE, 0 },
  { "", FALSE, 0 },
  { ".", FALSE, 0 },
  { "Gi", FALSE, 0 },
  { "-1", FALSE, 0 },
  { "1.1.1", FALSE, 0 },
  { "1K", FALSE, 0 },
  { "1KI", FALSE, 0 },
  { "1ki", FALSE, 0 },
  { "1GiB", FALSE, 0 },
  { "1GB", FALSE, 0 },
  { "1g", FALSE, 0 },
  { "1 Gi", FALSE, 0 },
  { " 1", FALSE, 0 },
  { "1e", FALSE, 0 },
  { "1e+", FALSE, 0 },
  { "1e+-3", FALSE, 0 },
  { "1ee3", FALSE, 0 },
  { "1e 3", FALSE, 0 },
  { "0x10", FALSE, 0 },
  { "000000000000000000000000000000000000000000000000000000000000000001", FALSE, 0 },
  { NULL, FALSE, 0 },
};

static void
test_parse_quantity (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (quantities); i++)
    {
      guint64 value = 77;
      g_assert_cmpint (text_parse_quantity (quantities[i].text, &value), ==, quantities[i].ok);
      g_assert_cmpuint (value, ==, quantities[i].ok ? quantities[i].value : 77);
    }
}

static void
test_uuid (void)
{
  static const char *const bad[] = {
    "",
    "x",
    "00000000-0000-4000-8000-00000000000",
    "00000000-0000-4000-8000-0000000000000",
    "00000000-0000-4000-8000-00000000000G",
    "00000000-0000-4000-8000-00000000000A",
    "00000000_0000-4000-8000-000000000000",
    "../000000-0000-4000-8000-000000000000",
  };
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < 1000; i++)
    {
      char uuid[37];
      text_uuid (uuid);
      g_assert_true (text_is_uuid (uuid));
      g_assert_cmpint (uuid[14], ==, '4');
      g_assert_nonnull (strchr ("89ab", uuid[19]));
      g_assert_true (g_hash_table_add (seen, g_strdup (uuid)));
    }
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_false (text_is_uuid (bad[i]));
  g_assert_false (text_is_uuid (NULL));
}

static void
test_time (void)
{
  g_autofree char *text = time_text (1767225600), *now = time_text_now ();
  g_assert_cmpstr (text, ==, "2026-01-01T00:00:00Z");
  g_assert_cmpint (time_text_parse (text), ==, 1767225600);
  g_assert_cmpint (time_text_parse ("2026-01-01T03:00:00.25+03:00"), ==, 1767225600);
  g_assert_cmpint (ABS (time_text_parse (now) - g_get_real_time () / G_USEC_PER_SEC), <=, 2);
  const char *const none[] = { NULL, "", "yesterday", "2026-13-01T00:00:00Z" };
  for (gsize i = 0; i < G_N_ELEMENTS (none); i++)
    g_assert_cmpint (time_text_parse (none[i]), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text/bytes", test_bytes);
  g_test_add_func ("/text/count", test_count);
  g_test_add_func ("/text/parse-u64", test_parse_u64);
  g_test_add_func ("/text/parse-bytes", test_parse_bytes);
  g_test_add_func ("/text/parse-quantity", test_parse_quantity);
  g_test_add_func ("/text/uuid", test_uuid);
  g_test_add_func ("/text/time", test_time);
  return g_test_run ();
}
