/* Any bytes as a list: whatever the pieces, the same items, the same list and the same error. */
#include "kube/kube_list_stream.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static gboolean
note (KubeObject *object, gpointer data, GError **error)
{
  g_string_append_printf (data, "%s/%s\n", kube_object_namespace (object), kube_object_name (object));
  return TRUE;
}

static char *
list_of (const guint8 *data, gsize size, gsize piece)
{
  GString *seen = g_string_new (NULL);
  g_auto (KubeListStream) stream = { 0 };
  g_autoptr (GError) error = NULL;
  kube_list_stream_init (&stream, note, seen);
  for (gsize done = 0; done < size && error == NULL; done += MIN (piece, size - done))
    g_assert_true (kube_list_stream_feed (&stream, data + done, MIN (piece, size - done), &error) == (error == NULL));
  g_autoptr (KubeObject) list = error == NULL ? kube_list_stream_end (&stream, &error) : NULL;
  g_assert_true ((list == NULL) == (error != NULL));
  g_string_append (seen, list != NULL ? kube_object_resource_version (list) : error->message);
  return g_string_free (seen, FALSE);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *whole = list_of (data, size, size);
  g_autofree char *pieces = list_of (data, size, 7);
  g_assert_cmpstr (whole, ==, pieces);
  return 0;
}
