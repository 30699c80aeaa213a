/* Any bytes as a watch: whatever the pieces, the same events and the same error. */
#include "kube/kube_watch_stream.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static gboolean
note (KubeEventType type, KubeObject *object, gpointer data, GError **error)
{
  g_string_append_printf (data, "%d %s/%s %s\n", type, kube_object_namespace (object), kube_object_name (object),
                          kube_object_resource_version (object));
  return TRUE;
}

static char *
events_of (const guint8 *data, gsize size, gsize piece)
{
  GString *seen = g_string_new (NULL);
  g_auto (KubeWatchStream) stream = { 0 };
  g_autoptr (GError) error = NULL;
  kube_watch_stream_init (&stream, note, seen);
  for (gsize done = 0; done < size && error == NULL; done += MIN (piece, size - done))
    g_assert_true (kube_watch_stream_feed (&stream, data + done, MIN (piece, size - done), &error)
                   == (error == NULL));
  g_string_append (seen, error != NULL ? error->message : "fine");
  return g_string_free (seen, FALSE);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *whole = events_of (data, size, size);
  g_autofree char *pieces = events_of (data, size, 7);
  g_assert_cmpstr (whole, ==, pieces);
  return 0;
}
