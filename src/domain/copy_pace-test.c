/* A copy is slow by what was seen of it, and by nothing else. */
#include "domain/copy_pace.h"

#define S (gint64) G_USEC_PER_SEC

static void
test_still (void)
{
  g_autoptr (CopyPace) pace = copy_pace_new ();
  g_assert_cmpint (copy_pace_still_s (pace, "a"), ==, 0);
  copy_pace_note (pace, "a", 0, 100 * S);
  g_assert_cmpint (copy_pace_still_s (pace, "a"), ==, 0);
  copy_pace_note (pace, "a", 0, 700 * S);
  g_assert_cmpint (copy_pace_still_s (pace, "a"), ==, 600);
  g_assert_cmpint (copy_pace_still_s (pace, "b"), ==, 0);
  copy_pace_note (pace, "a", 1, 701 * S);
  g_assert_cmpint (copy_pace_still_s (pace, "a"), ==, 0);
  copy_pace_note (pace, "a", 1, 731 * S);
  g_assert_cmpint (copy_pace_still_s (pace, "a"), ==, 30);
  copy_pace_note (pace, "a", 0, 740 * S); /* by a registry that was started anew */
  g_assert_cmpint (copy_pace_still_s (pace, "a"), ==, 0);
}

static void
test_forget (void)
{
  g_autoptr (CopyPace) pace = copy_pace_new ();
  copy_pace_note (pace, "old", 5, 1 * S);
  copy_pace_note (pace, "old", 5, 10 * S);
  copy_pace_note (pace, "new", 5, 20 * S);
  copy_pace_note (pace, "new", 5, 30 * S);
  copy_pace_forget (pace, 30 * S);
  g_assert_cmpint (copy_pace_still_s (pace, "old"), ==, 0);
  g_assert_cmpint (copy_pace_still_s (pace, "new"), ==, 10);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/copy-pace/still", test_still);
  g_test_add_func ("/copy-pace/forget", test_forget);
  return g_test_run ();
}
