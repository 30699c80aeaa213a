#include "net/metrics.h"

#include <string.h>

#define LABELS(...) ((const char *[]){ __VA_ARGS__, NULL })

static void
test_values (void)
{
  Metric *counter = metric_declare ("test_total", METRIC_COUNTER, "Things.", LABELS ("a", "b"));
  g_assert_true (counter == metric_declare ("test_total", METRIC_COUNTER, "Things.", LABELS ("a", "b")));
  metric_add (counter, 1, "x", "y", NULL);
  metric_add (counter, 2.5, "x", "y", NULL);
  metric_add (counter, 1, "y", "x", NULL);
  g_assert_cmpfloat (metric_value (counter, "x", "y", NULL), ==, 3.5);
  g_assert_cmpfloat (metric_value (counter, "y", "x", NULL), ==, 1);
  g_assert_cmpfloat (metric_value (counter, "no", "no", NULL), ==, 0);
  metric_remove (counter, "x", "y", NULL);
  g_assert_cmpfloat (metric_value (counter, "x", "y", NULL), ==, 0);
  Metric *gauge = metric_declare ("test_gauge", METRIC_GAUGE, "A level.", NULL);
  metric_set (gauge, 7, NULL);
  metric_add (gauge, -2, NULL);
  g_assert_cmpfloat (metric_value (gauge, NULL), ==, 5);
}

static void
test_render (void)
{
  Metric *odd = metric_declare ("render_odd", METRIC_GAUGE, "Back\\slash and\nline.", LABELS ("l"));
  metric_set (odd, 0.5, "a\"b\\c\nd", NULL);
  metric_set (odd, 12345678901234, "\xff", NULL);
  Metric *histogram = metric_declare ("render_seconds", METRIC_HISTOGRAM, "Times.", LABELS ("l"));
  metric_observe (histogram, 0.004, "x", NULL);
  metric_observe (histogram, 0.005, "x", NULL);
  metric_observe (histogram, 0.3, "x", NULL);
  metric_observe (histogram, 100, "x", NULL);
  g_assert_cmpfloat (metric_value (histogram, "x", NULL), ==, 4);
  g_autofree char *text = metrics_render ();
  static const char *const expected[] = {
    "# HELP render_odd Back\\\\slash and\\nline.\n# TYPE render_odd gauge\n",
    "render_odd{l=\"a\\\"b\\\\c\\nd\"} 0.5\n",
    "render_odd{l=\"\xef\xbf\xbd\"} 12345678901234\n",
    "# TYPE render_seconds histogram\nrender_seconds_bucket{l=\"x\",le=\"0.005\"} 2\n",
    "render_seconds_bucket{l=\"x\",le=\"0.25\"} 2\nrender_seconds_bucket{l=\"x\",le=\"0.5\"} 3\n",
    "render_seconds_bucket{l=\"x\",le=\"10\"} 3\nrender_seconds_bucket{l=\"x\",le=\"+Inf\"} 4\n",
    "render_seconds_sum{l=\"x\"} 100.309\nrender_seconds_count{l=\"x\"} 4\n",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_test_message ("%s", expected[i]);
      g_assert_nonnull (strstr (text, expected[i]));
    }
  g_assert_true (strstr (text, "render_odd") < strstr (text, "render_seconds"));
}

static gpointer
add_often (gpointer data)
{
  for (guint i = 0; i < 10000; i++)
    {
      metric_add (data, 1, i % 2 == 0 ? "even" : "odd", NULL);
      if (i % 1000 == 0)
        g_free (metrics_render ());
    }
  return NULL;
}

static void
test_threads (void)
{
  Metric *counter = metric_declare ("threads_total", METRIC_COUNTER, "Adds.", LABELS ("l"));
  GThread *threads[4];
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("add", add_often, counter);
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_cmpfloat (metric_value (counter, "even", NULL), ==, 20000);
  g_assert_cmpfloat (metric_value (counter, "odd", NULL), ==, 20000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/metrics/values", test_values);
  g_test_add_func ("/metrics/render", test_render);
  g_test_add_func ("/metrics/threads", test_threads);
  return g_test_run ();
}
