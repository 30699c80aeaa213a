#include "kube/kube_watch_stream.h"

#include <string.h>

#include "kube/kube_error.h"

#define POD(name) "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"5\"}}"
#define EVENT(type, name) "{\"type\":\"" type "\",\"object\":" POD (name) "}\n"

static gboolean
note (KubeEventType type, KubeObject *object, gpointer data, GError **error)
{
  static const char *const signs[] = { "+", "~", "-", "b" };
  GString *seen = data;
  g_string_append_printf (seen, "%s%s ", signs[type], kube_object_name (object));
  return strcmp (kube_object_name (object), "stop") != 0 || am_fail (error, AM_ERROR_CANCELLED, NULL, "stop");
}

static gboolean
feed (const char *text, gsize piece, GString *seen, GError **error)
{
  g_auto (KubeWatchStream) stream = { 0 };
  kube_watch_stream_init (&stream, note, seen);
  for (gsize done = 0, size = strlen (text); done < size; done += MIN (piece, size - done))
    if (!kube_watch_stream_feed (&stream, text + done, MIN (piece, size - done), error))
      return FALSE;
  return TRUE;
}

static void
test_events (void)
{
  static const char text[] = EVENT ("ADDED", "a") "\n" EVENT ("MODIFIED", "a") EVENT ("BOOKMARK", "")
    EVENT ("DELETED", "a") EVENT ("ADDED", "not whole yet");
  for (gsize piece = 1; piece <= sizeof text; piece++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GString) seen = g_string_new (NULL);
      g_autofree char *cut = g_strndup (text, strlen (text) - 1);
      g_assert_true (feed (cut, piece, seen, &error));
      g_assert_cmpstr (seen->str, ==, "+a ~a b -a ");
    }
}

static void
test_failures (void)
{
  static const struct {
    const char *text;
    AmErrorCode code;
    const char *reason, *seen;
  } rows[] = {
    { EVENT ("ADDED", "a") "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\","
                           "\"message\":\"too old resource version\"}}\n",
      AM_ERROR_OUT_OF_RANGE, KUBE_REASON_EXPIRED, "+a " },
    { "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Gone\"}}\n",
      AM_ERROR_OUT_OF_RANGE, KUBE_REASON_EXPIRED, "" },
    { "{\"type\":\"ERROR\",\"object\":{}}\n", AM_ERROR_UNAVAILABLE, NULL, "" },
    { "{\"type\":\"NEW\",\"object\":{\"metadata\":{}}}\n", AM_ERROR_DATA_LOSS, NULL, "" },
    { "{\"type\":\"ADDED\"}\n", AM_ERROR_DATA_LOSS, NULL, "" },
    { "{\"type\":\"ADDED\",\"object\":{}}\n", AM_ERROR_INVALID_ARGUMENT, NULL, "" },
    { "no json\n", AM_ERROR_DATA_LOSS, NULL, "" },
    { EVENT ("ADDED", "stop") EVENT ("ADDED", "b"), AM_ERROR_CANCELLED, NULL, "+stop " },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GString) seen = g_string_new (NULL);
      g_assert_false (feed (rows[i].text, 1000, seen, &error));
      g_assert_cmpint (error->code, ==, rows[i].code);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_cmpstr (seen->str, ==, rows[i].seen);
    }
}

static void
test_endless_line (void)
{
  g_autofree char *piece = g_strnfill (1024 * 1024, 'x');
  g_autoptr (GString) seen = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  g_auto (KubeWatchStream) stream = { 0 };
  kube_watch_stream_init (&stream, note, seen);
  for (guint i = 0; i < 16; i++)
    g_assert_true (kube_watch_stream_feed (&stream, piece, 1024 * 1024, &error));
  g_assert_false (kube_watch_stream_feed (&stream, "x", 1, &error));
  g_assert_true (am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kube-watch-stream/events", test_events);
  g_test_add_func ("/kube-watch-stream/failures", test_failures);
  g_test_add_func ("/kube-watch-stream/endless-line", test_endless_line);
  return g_test_run ();
}
