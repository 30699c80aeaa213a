#include "kube/kube_watch_stream.h"

#include <string.h>

#include "kube/kube_error.h"

#define MAX_LINE_BYTES (16u * 1024 * 1024)

void
kube_watch_stream_init (KubeWatchStream *self, KubeWatchFunc func, gpointer data)
{
  *self = (KubeWatchStream){ .line = g_byte_array_new (), .func = func, .data = data };
}

void
kube_watch_stream_clear (KubeWatchStream *self)
{
  g_clear_pointer (&self->line, g_byte_array_unref);
}

static const struct {
  const char *name;
  KubeEventType type;
} event_types[] = {
  { "ADDED", KUBE_ADDED },
  { "MODIFIED", KUBE_MODIFIED },
  { "DELETED", KUBE_DELETED },
  { "BOOKMARK", KUBE_BOOKMARK },
};

/* The event is a Status with the code in it. */
static gboolean
fail_event (yyjson_val *status, GError **error)
{
  size_t size = 0;
  g_autofree char *text = yyjson_val_write (status, 0, &size);
  guint code = (guint) yyjson_get_uint (yyjson_obj_get (status, "code"));
  return kube_fail ("watch", code != 0 ? code : 500, text, size, error);
}

static gboolean
take_line (KubeWatchStream *self, const char *text, gsize size, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (yyjson_doc) doc = json_parse (text, size, MAX_LINE_BYTES, JSON_STRICT, &problem);
  yyjson_val *root = yyjson_doc_get_root (doc);
  const char *type = json_get_string (root, "type");
  yyjson_val *value = json_get_object (root, "object");
  if (type != NULL && value != NULL && strcmp (type, "ERROR") == 0)
    return fail_event (value, error);
  for (gsize i = 0; i < G_N_ELEMENTS (event_types) && type != NULL && value != NULL; i++)
    if (strcmp (type, event_types[i].name) == 0)
      {
        g_autoptr (KubeObject) object = kube_object_new_from (value, error);
        return object != NULL && self->func (event_types[i].type, object, self->data, error);
      }
  return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "watch: an answer that is no event%s%s",
                  problem != NULL ? ": " : "", problem != NULL ? problem->message : "");
}

gboolean
kube_watch_stream_feed (KubeWatchStream *self, gconstpointer data, gsize size, GError **error)
{
  const char *rest = data;
  while (size > 0)
    {
      const char *end = memchr (rest, '\n', size);
      gsize piece = end != NULL ? (gsize) (end - rest) : size;
      if (piece > MAX_LINE_BYTES - self->line->len)
        return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "watch: an event of more than %u bytes",
                        MAX_LINE_BYTES);
      g_byte_array_append (self->line, (const guint8 *) rest, (guint) piece);
      if (end == NULL)
        return TRUE;
      gboolean taken = self->line->len == 0
                       || take_line (self, (const char *) self->line->data, self->line->len, error);
      g_byte_array_set_size (self->line, 0);
      if (!taken)
        return FALSE;
      rest += piece + 1;
      size -= piece + 1;
    }
  return TRUE;
}
