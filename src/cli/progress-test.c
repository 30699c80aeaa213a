#include "cli/progress.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

/* Frames drawn from now on until `wanted` is in one; the last one. */
static char *
wait_for_frame (int fd, const char *wanted)
{
  g_autoptr (GString) seen = g_string_new (NULL);
  for (gint64 end_us = g_get_monotonic_time () + 20 * G_USEC_PER_SEC; g_get_monotonic_time () < end_us;)
    {
      char buffer[1024];
      gssize n = read (fd, buffer, sizeof buffer);
      if (n > 0)
        g_string_append_len (seen, buffer, n);
      if (strstr (seen->str, wanted) != NULL)
        return g_strdup (g_strrstr (seen->str, "\r"));
      g_usleep (10000);
    }
  g_error ("no frame with \"%s\" in: %s", wanted, seen->str);
}

/* A directory that is looked through first and then fetched after all: two plans of one command. */
static void
test_new_plan_starts_over (void)
{
  int ends[2], old_stderr = dup (STDERR_FILENO);
  g_assert_true (pipe2 (ends, O_CLOEXEC) == 0 && fcntl (ends[0], F_SETFL, O_NONBLOCK) == 0);
  dup2 (ends[1], STDERR_FILENO);
  Progress *progress = progress_new (PROGRESS_BAR, "pulling");
  progress_plan (progress, 1000, 2);
  progress_file_done (progress);
  progress_add (progress, 1000);
  g_autofree char *first = wait_for_frame (ends[0], "100%");
  progress_plan (progress, 4000, 3);
  progress_add (progress, 400);
  g_autofree char *second = wait_for_frame (ends[0], " 10% 400 B/4.0 kB ");
  progress_free (progress);
  dup2 (old_stderr, STDERR_FILENO);
  close (old_stderr);
  close (ends[0]);
  close (ends[1]);
  g_assert_nonnull (strstr (first, " 2/2"));
  g_assert_nonnull (strstr (second, " 1/3"));
  g_assert_null (strstr (second, "EB/s")); /* no rate out of a count that went back */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/progress/every-width", test_bar_fits_every_width);
  g_test_add_func ("/cli/progress/bar", test_bar_shows_rate_and_time_left);
  g_test_add_func ("/cli/progress/calm-line", test_calm_line);
  g_test_add_func ("/cli/progress/new-plan", test_new_plan_starts_over);
  return g_test_run ();
}
