#include "controllers/worker_restarts.h"

#include <string.h>

#include "base/text.h"
#include "cluster/module_objects.h"

#define COUNT MODEL_ANNOTATION "worker-interruptions"
#define BYTES MODEL_ANNOTATION "worker-interrupted-at-bytes"
#define AT MODEL_ANNOTATION "worker-interrupted-at-ms"
#define POD MODEL_ANNOTATION "worker-interrupted-pod"
#define MESSAGE MODEL_ANNOTATION "worker-interruption"
#define FIRST_PAUSE_MS 5000
#define MAX_PAUSE_MS (5 * 60 * 1000)

static guint64
read_number (const KubeObject *secret, const char *name)
{
  guint64 value = 0;
  const char *text = kube_object_annotation (secret, name);
  return text != NULL && text_parse_u64 (text, &value) ? value : 0;
}

void
worker_restarts_read (const KubeObject *secret, WorkerRestarts *out_restarts)
{
  *out_restarts = (WorkerRestarts){
    .n_in_a_row = (guint) MIN (read_number (secret, COUNT), G_MAXINT),
    .bytes = read_number (secret, BYTES),
    .at_ms = (gint64) MIN (read_number (secret, AT), G_MAXINT64),
    .pod_uid = kube_object_annotation (secret, POD),
    .message = kube_object_annotation (secret, MESSAGE),
  };
}

WorkerRestarts
worker_restarts_next (const WorkerRestarts *self, const char *pod_uid, guint64 bytes, const char *message,
                      gint64 now_ms)
{
  if (g_strcmp0 (self->pod_uid, pod_uid) == 0)
    return *self;
  gboolean got_on = bytes > self->bytes;
  return (WorkerRestarts){
    .n_in_a_row = got_on ? 1 : self->n_in_a_row + 1,
    .bytes = bytes,
    .at_ms = now_ms,
    .pod_uid = pod_uid,
    .message = message,
  };
}

static void
add_number (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, guint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, value);
  yyjson_mut_obj_add_strcpy (doc, object, name, text);
}

yyjson_mut_doc *
worker_restarts_patch (const WorkerRestarts *self)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *annotations = metadata_map (doc, yyjson_mut_obj_add_obj (doc, root, "metadata"), "annotations");
  add_number (doc, annotations, COUNT, self->n_in_a_row);
  add_number (doc, annotations, BYTES, self->bytes);
  add_number (doc, annotations, AT, (guint64) self->at_ms);
  yyjson_mut_obj_add_strcpy (doc, annotations, POD, self->pod_uid != NULL ? self->pod_uid : "");
  yyjson_mut_obj_add_strcpy (doc, annotations, MESSAGE, self->message != NULL ? self->message : "");
  return doc;
}

gint64
worker_restarts_pause_ms (const WorkerRestarts *self, gint64 now_ms)
{
  if (self->n_in_a_row == 0)
    return 0;
  gint64 pause_ms = MIN ((gint64) FIRST_PAUSE_MS << MIN (self->n_in_a_row - 1, 10u), MAX_PAUSE_MS);
  /* A clock that jumps makes nobody wait for longer. */
  return CLAMP (self->at_ms + pause_ms - now_ms, 0, pause_ms);
}
