/* Several works of one leader: they end together, and the first failure is told. */
#include "kube/leader.h"

#define PATIENCE_MS 20000

/* Until its term ends. */
static gboolean
go_on (Ctx *term, gpointer data, GError **error)
{
  g_atomic_int_inc ((gint *) data);
  ctx_sleep_ms (term, PATIENCE_MS, NULL);
  return ctx_check (term, error);
}

static gboolean
be_content (Ctx *term, gpointer data, GError **error)
{
  g_atomic_int_inc ((gint *) data);
  return TRUE;
}

/* Once the others are at work. */
static gboolean
give_up (Ctx *term, gpointer data, GError **error)
{
  while (g_atomic_int_get ((gint *) data) < 2 && ctx_sleep_ms (term, 1, NULL))
    continue;
  return am_fail (error, AM_ERROR_UNAVAILABLE, "Tired", "no more");
}

static void
test_failure (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) term = ctx_new_child (NULL, PATIENCE_MS);
  gint n = 0;
  const LeaderWork works[] = { { go_on, &n }, { give_up, &n }, { go_on, &n } };
  LeaderWorks all = { works, G_N_ELEMENTS (works) };
  gint64 begin_us = g_get_monotonic_time ();
  g_assert_false (leader_work_together (term, &all, &error));
  g_assert_true (am_error_has_reason (error, "Tired"));
  g_assert_cmpint (n, ==, 2);
  g_assert_cmpint (g_get_monotonic_time () - begin_us, <, (PATIENCE_MS / 2) * 1000);
  g_assert_true (ctx_check (term, NULL));
}

static void
test_end (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) term = ctx_new_child (NULL, PATIENCE_MS);
  gint n = 0;
  const LeaderWork works[] = { { be_content, &n }, { be_content, &n } };
  LeaderWorks all = { works, G_N_ELEMENTS (works) };
  g_assert_true (leader_work_together (term, &all, &error));
  g_assert_no_error (error);
  g_assert_cmpint (n, ==, 2);
  const LeaderWork others[] = { { go_on, &n }, { go_on, &n } };
  LeaderWorks rest = { others, 1 };
  ctx_cancel (term);
  g_assert_false (leader_work_together (term, &rest, &error));
  g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/leader/failure", test_failure);
  g_test_add_func ("/leader/end", test_end);
  return g_test_run ();
}
