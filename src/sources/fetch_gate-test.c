/* How the number of connections follows what a link gives. */
#include "sources/fetch_gate.h"

#define INTERVAL_US (G_USEC_PER_SEC / 2)

/* A link of so many bytes a second in all and through each connection. */
typedef struct {
  double total, each;
} Link;

static guint
run (FetchTuning *tuning, const Link *link, guint n_intervals, double waited_share)
{
  static gint64 now_us = G_USEC_PER_SEC;
  for (guint i = 0; i < n_intervals; i++)
    {
      double rate = MIN (link->total, link->each * fetch_tuning_connections (tuning));
      FetchSample sample = { .duration_us = INTERVAL_US,
                             .waited_us = (gint64) (waited_share * INTERVAL_US),
                             .n_bytes = (guint64) (rate * 0.5) };
      now_us += INTERVAL_US;
      fetch_tuning_step (tuning, now_us, &sample);
    }
  return fetch_tuning_connections (tuning);
}

static void
test_a_source_that_limits_each_connection (void)
{
  FetchTuning tuning;
  fetch_tuning_init (&tuning);
  g_assert_cmpuint (run (&tuning, &(Link){ 1e9, 1e7 }, 12, 0.9), ==, FETCH_MAX_CONNECTIONS);
}

static void
test_a_full_link (void)
{
  FetchTuning tuning;
  fetch_tuning_init (&tuning);
  guint first = fetch_tuning_connections (&tuning);
  guint n_more = 0;
  for (guint i = 0; i < 200; i++)
    n_more += run (&tuning, &(Link){ 1e8, 1e8 }, 1, 0.9) > first ? 1 : 0;
  /* It is tried now and then, ever more seldom, and given up each time. */
  g_assert_cmpuint (n_more, >, 0);
  g_assert_cmpuint (n_more, <, 20);
  /* The link becomes a better one. */
  g_assert_cmpuint (run (&tuning, &(Link){ 1e9, 1e7 }, 200, 0.9), ==, FETCH_MAX_CONNECTIONS);
}

static void
test_nobody_waits (void)
{
  FetchTuning tuning;
  fetch_tuning_init (&tuning);
  guint first = fetch_tuning_connections (&tuning);
  g_assert_cmpuint (run (&tuning, &(Link){ 1e9, 1e7 }, 50, 0.01), ==, first);
}

static void
test_trouble (void)
{
  FetchTuning tuning;
  fetch_tuning_init (&tuning);
  FetchSample sample = { .duration_us = INTERVAL_US, .waited_us = INTERVAL_US, .n_bytes = 1000, .n_troubles = 1 };
  guint first = fetch_tuning_connections (&tuning);
  for (guint i = 0; i < 10; i++)
    fetch_tuning_step (&tuning, 0, &sample);
  g_assert_cmpuint (fetch_tuning_connections (&tuning), ==, 1);
  g_assert_cmpuint (run (&tuning, &(Link){ 1e9, 1e7 }, 40, 0.9), >, first);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fetch_gate/a-source-that-limits-each-connection", test_a_source_that_limits_each_connection);
  g_test_add_func ("/fetch_gate/a-full-link", test_a_full_link);
  g_test_add_func ("/fetch_gate/nobody-waits", test_nobody_waits);
  g_test_add_func ("/fetch_gate/trouble", test_trouble);
  return g_test_run ();
}
