#include "cli/progress.h"

#include <string.h>

static const ProgressView views[] = {
  { "pushing", "model.safetensors", 45000000, 90000000, 11, 3, 12e6 },
  { "pulling", NULL, 0, 90000000, 1, 0, 0 },
  { "copying", "a/very/long/path/that/does/not/fit/in/the/space/that/there/is/model-00001-of-00002.safetensors",
    G_GUINT64_CONSTANT (1500000000000), G_GUINT64_CONSTANT (2000000000000), 1000, 999, 1e9 },
  { "verifying", "\303\274\303\266\303\244.gguf", 10, 5, 2, 2, 0.5 },
  { "pulling", "odd\nname\033[2J", 1, 2, 2, 0, 1 },
};

static void
test_bar_fits_every_width (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (views); i++)
    for (guint width = 20; width < 250; width++)
      {
        g_autofree char *line = progress_format_bar (&views[i], width);
        g_assert_cmpint (g_utf8_strlen (line, -1), <=, width);
        g_assert_true (g_utf8_validate (line, -1, NULL));
        g_assert_null (strpbrk (line, "\n\r\033"));
        g_assert_nonnull (strchr (line, '%'));
      }
}

static void
test_bar_shows_rate_and_time_left (void)
{
  g_autofree char *line = progress_format_bar (&views[0], 100);
  g_assert_nonnull (strstr (line, " 50% 45.0 MB/90.0 MB 12.0 MB/s 0:04 4/11 "));
  g_assert_nonnull (strstr (line, "model.safetensors"));
  g_autofree char *narrow = progress_format_bar (&views[0], 32);
  g_assert_nonnull (strstr (narrow, "12.0 MB/s 0:04"));
}

static void
test_calm_line (void)
{
  g_autofree char *line = progress_format_line (&views[0]);
  g_assert_cmpstr (line, ==, "pushing: 50%, 45.0 MB of 90.0 MB, 12.0 MB/s, 0:04 left");
  g_autofree char *unknown = progress_format_line (&views[1]);
  g_assert_cmpstr (unknown, ==, "pulling: 0%, 0 B of 90.0 MB, 0 B/s, --:-- left");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/progress/every-width", test_bar_fits_every_width);
  g_test_add_func ("/cli/progress/bar", test_bar_shows_rate_and_time_left);
  g_test_add_func ("/cli/progress/calm-line", test_calm_line);
  return g_test_run ();
}
