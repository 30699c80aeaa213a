#include "kube/work_queue.h"

#include <string.h>

static char *
next (WorkQueue *queue, gint64 timeout_ms)
{
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, timeout_ms);
  return work_queue_get (queue, ctx);
}

static void
assert_next (WorkQueue *queue, const char *expected)
{
  g_autofree char *key = next (queue, expected != NULL ? 20 * 1000 : 20);
  g_assert_cmpstr (key, ==, expected);
}

static void
test_once (void)
{
  g_autoptr (WorkQueue) queue = work_queue_new (NULL);
  work_queue_add (queue, "a");
  work_queue_add (queue, "b");
  work_queue_add (queue, "a");
  g_assert_cmpuint (work_queue_length (queue), ==, 2);
  assert_next (queue, "a");
  assert_next (queue, "b");
  assert_next (queue, NULL);
  work_queue_done (queue, "a");
  work_queue_done (queue, "b");
  assert_next (queue, NULL);
}

/* A key under work is nobody else's; what was added meanwhile comes when it is done, once. */
static void
test_again (void)
{
  g_autoptr (WorkQueue) queue = work_queue_new (NULL);
  work_queue_add (queue, "a");
  assert_next (queue, "a");
  work_queue_add (queue, "a");
  work_queue_add (queue, "a");
  work_queue_add_after (queue, "a", 1);
  assert_next (queue, NULL);
  work_queue_done (queue, "a");
  assert_next (queue, "a");
  work_queue_done (queue, "a");
  assert_next (queue, NULL);
}

static void
test_first (void)
{
  g_autoptr (WorkQueue) queue = work_queue_new (NULL);
  work_queue_add (queue, "a");
  work_queue_add (queue, "b");
  work_queue_add_first (queue, "c");
  work_queue_add_first (queue, "b"); /* of several wishes the earliest counts */
  work_queue_add (queue, "c");
  g_assert_cmpuint (work_queue_length (queue), ==, 3);
  const char *const expected[] = { "c", "b", "a", NULL };
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    assert_next (queue, expected[i]);
  work_queue_add_first (queue, "a"); /* once it is done */
  work_queue_add (queue, "d");
  work_queue_done (queue, "a");
  assert_next (queue, "a");
  assert_next (queue, "d");
}

/* However many come first, the others get on. */
static void
test_first_in_a_row (void)
{
  g_autoptr (WorkQueue) queue = work_queue_new (NULL);
  guint n_before = 0;
  work_queue_add (queue, "patient");
  for (guint i = 0; i < 100; i++)
    {
      g_autofree char *key = g_strdup_printf ("%u", i);
      work_queue_add_first (queue, key);
    }
  for (gboolean is_there = FALSE; !is_there; n_before++)
    {
      g_autofree char *key = next (queue, 20 * 1000);
      is_there = g_strcmp0 (key, "patient") == 0;
    }
  g_assert_cmpuint (n_before, <, 50);
}

static void
test_later (void)
{
  g_autoptr (WorkQueue) queue = work_queue_new (NULL);
  gint64 start_us = g_get_monotonic_time ();
  work_queue_add_after (queue, "late", 60 * 1000);
  work_queue_add_after (queue, "a", 60 * 1000);
  work_queue_add_after (queue, "b", 150);
  work_queue_add_after (queue, "a", 50);        /* the earlier wish counts */
  work_queue_add_after (queue, "b", 60 * 1000); /* and not the later */
  g_assert_cmpuint (work_queue_length (queue), ==, 0);
  assert_next (queue, "a");
  g_assert_cmpint (g_get_monotonic_time () - start_us, >=, 50 * 1000);
  assert_next (queue, "b");
  g_assert_cmpint (g_get_monotonic_time () - start_us, >=, 150 * 1000);
  work_queue_add_after (queue, "a", 10); /* while it is worked on */
  work_queue_done (queue, "a");
  assert_next (queue, "a");
  work_queue_add (queue, "late"); /* earlier than any */
  assert_next (queue, "late");
}

static gint64
failed_us (WorkQueue *queue)
{
  gint64 start_us = g_get_monotonic_time ();
  work_queue_add_failed (queue, "a");
  work_queue_done (queue, "a");
  assert_next (queue, "a");
  return g_get_monotonic_time () - start_us;
}

static void
test_failures (void)
{
  static const WorkQueueConfig config = { .base_delay_ms = 20, .max_delay_ms = 160 };
  static const gint64 least_ms[] = { 20, 40, 80, 160, 160 };
  g_autoptr (WorkQueue) queue = work_queue_new (&config);
  work_queue_add (queue, "a");
  assert_next (queue, "a");
  for (gsize i = 0; i < G_N_ELEMENTS (least_ms); i++)
    g_assert_cmpint (failed_us (queue), >=, least_ms[i] * 1000);
  work_queue_forget (queue, "a");
  gint64 us = failed_us (queue);
  g_assert_cmpint (us, >=, 20 * 1000);
  g_assert_cmpint (us, <, 160 * 1000 + 2 * G_USEC_PER_SEC);
}

static gpointer
wait_for_key (gpointer data)
{
  return work_queue_get (data, NULL);
}

static void
test_shut_down (void)
{
  g_autoptr (WorkQueue) queue = work_queue_new (NULL);
  GThread *waiting = g_thread_new ("waits", wait_for_key, queue);
  work_queue_shut_down (queue);
  g_assert_null (g_thread_join (waiting));
  work_queue_add (queue, "a");
  g_assert_null (work_queue_get (queue, NULL));
}

typedef struct {
  WorkQueue *queue;
  gint working[16], n_done, n_clashes;
} Crowd;

static gpointer
work (gpointer data)
{
  Crowd *crowd = data;
  for (;;)
    {
      g_autofree char *key = work_queue_get (crowd->queue, NULL);
      if (key == NULL)
        return NULL;
      gint *slot = &crowd->working[g_ascii_strtoull (key, NULL, 10)];
      if (g_atomic_int_add (slot, 1) != 0)
        g_atomic_int_inc (&crowd->n_clashes);
      if (g_atomic_int_add (&crowd->n_done, 1) % 7 == 0)
        work_queue_add_failed (crowd->queue, key);
      g_atomic_int_add (slot, -1);
      work_queue_forget (crowd->queue, key);
      work_queue_done (crowd->queue, key);
    }
}

static void
test_crowd (void)
{
  static const WorkQueueConfig config = { .base_delay_ms = 1, .max_delay_ms = 1 };
  Crowd crowd = { .queue = work_queue_new (&config) };
  GThread *threads[6];
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("worker", work, &crowd);
  for (guint i = 0; i < 20000; i++)
    {
      g_autofree char *key = g_strdup_printf ("%u", i % 16);
      work_queue_add (crowd.queue, key);
    }
  while (work_queue_length (crowd.queue) > 0)
    g_usleep (1000);
  work_queue_shut_down (crowd.queue);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_cmpint (crowd.n_clashes, ==, 0);
  g_assert_cmpint (crowd.n_done, >=, 16);
  work_queue_free (crowd.queue);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/work-queue/once", test_once);
  g_test_add_func ("/work-queue/again", test_again);
  g_test_add_func ("/work-queue/first", test_first);
  g_test_add_func ("/work-queue/first-in-a-row", test_first_in_a_row);
  g_test_add_func ("/work-queue/later", test_later);
  g_test_add_func ("/work-queue/failures", test_failures);
  g_test_add_func ("/work-queue/shut-down", test_shut_down);
  g_test_add_func ("/work-queue/crowd", test_crowd);
  return g_test_run ();
}
