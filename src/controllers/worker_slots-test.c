#include "controllers/worker_slots.h"

#define N_THREADS 4
#define N_ROUNDS 2000
#define MAX_WORKERS 3

static void
test_claims (void)
{
  g_autoptr (WorkerSlots) slots = worker_slots_new (2);
  g_assert_true (worker_slots_claim (slots, "a"));
  g_assert_true (worker_slots_claim (slots, "a")); /* it has one */
  g_assert_true (worker_slots_claim (slots, "b"));
  g_assert_false (worker_slots_claim (slots, "c"));
  worker_slots_set (slots, "d", TRUE); /* a Pod of before: more than there may be */
  g_assert_cmpuint (worker_slots_active (slots), ==, 3);
  worker_slots_set (slots, "a", FALSE);
  g_assert_false (worker_slots_claim (slots, "c"));
  worker_slots_set (slots, "d", FALSE);
  worker_slots_set (slots, "d", FALSE);
  g_assert_true (worker_slots_claim (slots, "c"));
}

static void
expect_call (WorkerSlots *slots, const char *key)
{
  g_autofree char *called = worker_slots_call (slots);
  g_assert_cmpstr (called, ==, key);
}

static void
test_line (void)
{
  g_autoptr (WorkerSlots) slots = worker_slots_new (2);
  expect_call (slots, NULL);
  g_assert_true (worker_slots_claim (slots, "a") && worker_slots_claim (slots, "b"));
  worker_slots_wait (slots, "one");
  worker_slots_wait (slots, "two");
  worker_slots_wait (slots, "one"); /* keeps its place */
  worker_slots_wait (slots, "three");
  expect_call (slots, NULL);
  worker_slots_set (slots, "a", FALSE);
  expect_call (slots, "one");
  expect_call (slots, NULL);         /* the slot is the first's until it has looked */
  worker_slots_leave (slots, "one"); /* which does not want it any more */
  worker_slots_leave (slots, "two");
  expect_call (slots, "three");
  g_assert_true (worker_slots_claim (slots, "c"));
  worker_slots_leave (slots, "three");
  expect_call (slots, NULL);
}

static WorkerSlots *shared;
static gint n_running;

/* Never more at a time than allowed, and everybody's turn comes. */
static gpointer
work (gpointer data)
{
  g_autofree char *key = g_strdup_printf ("key-%d", GPOINTER_TO_INT (data));
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      while (!worker_slots_claim (shared, key))
        {
          worker_slots_wait (shared, key);
          g_free (worker_slots_call (shared));
          g_thread_yield ();
        }
      worker_slots_leave (shared, key);
      g_assert_cmpint (g_atomic_int_add (&n_running, 1), <, MAX_WORKERS);
      g_atomic_int_add (&n_running, -1);
      worker_slots_set (shared, key, FALSE);
    }
  return NULL;
}

static void
test_threads (void)
{
  GThread *threads[N_THREADS];
  shared = worker_slots_new (MAX_WORKERS);
  for (gint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", work, GINT_TO_POINTER (i));
  for (gint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (worker_slots_active (shared), ==, 0);
  worker_slots_free (shared);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker-slots/claims", test_claims);
  g_test_add_func ("/worker-slots/line", test_line);
  g_test_add_func ("/worker-slots/threads", test_threads);
  return g_test_run ();
}
