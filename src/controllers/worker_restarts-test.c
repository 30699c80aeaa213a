#include "controllers/worker_restarts.h"

#include "controllers/controllers_fixture.h"

static void
test_round_trip (void)
{
  WorkerRestarts none = { 0 }, read;
  WorkerRestarts one = worker_restarts_next (&none, "pod-1", 70, "why", 5000);
  g_autoptr (yyjson_mut_doc) patch = worker_restarts_patch (&one);
  g_autoptr (KubeObject) secret = object_of_doc (patch);
  worker_restarts_read (secret, &read);
  g_assert_cmpuint (read.n_in_a_row, ==, 1);
  g_assert_cmpuint (read.bytes, ==, 70);
  g_assert_cmpint (read.at_ms, ==, 5000);
  g_assert_cmpstr (read.pod_uid, ==, "pod-1");
  g_assert_cmpstr (read.message, ==, "why");
}

/* A Pod counts once; progress begins the count anew. */
static void
test_count (void)
{
  WorkerRestarts now = { 0 };
  now = worker_restarts_next (&now, "a", 0, "x", 1);
  now = worker_restarts_next (&now, "b", 0, "x", 2);
  now = worker_restarts_next (&now, "b", 0, "x", 3);
  g_assert_true (now.n_in_a_row == 2 && now.at_ms == 2);
  now = worker_restarts_next (&now, "c", 10, "x", 4);
  g_assert_cmpuint (now.n_in_a_row, ==, 1);
  now = worker_restarts_next (&now, "d", 10, "x", 5);
  g_assert_cmpuint (now.n_in_a_row, ==, 2);
}

static void
test_pauses (void)
{
  static const struct {
    guint n;
    gint64 since_ms, pause_ms;
  } cases[] = {
    { 0, 0, 0 },     { 1, 0, 5000 },  { 1, 4000, 1000 }, { 1, 6000, 0 },
    { 2, 0, 10000 }, { 4, 0, 40000 }, { 30, 0, 300000 }, { 1, -100000, 5000 }, /* the clock went back */
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      WorkerRestarts restarts = { .n_in_a_row = cases[i].n, .at_ms = 1000000 };
      g_assert_cmpint (worker_restarts_pause_ms (&restarts, 1000000 + cases[i].since_ms), ==, cases[i].pause_ms);
    }
}

static void
test_spoilt (void)
{
  WorkerRestarts read;
  g_autoptr (KubeObject) secret = object_of (
    "{'metadata':{'annotations':{'ai.deckhouse.io/worker-interruptions':'many','ai.deckhouse.io/worker-interrupted-at-ms':"
    "'-1'}}}");
  worker_restarts_read (secret, &read);
  g_assert_true (read.n_in_a_row == 0 && read.at_ms == 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker-restarts/round-trip", test_round_trip);
  g_test_add_func ("/worker-restarts/count", test_count);
  g_test_add_func ("/worker-restarts/pauses", test_pauses);
  g_test_add_func ("/worker-restarts/spoilt", test_spoilt);
  return g_test_run ();
}
