#include "kube/event_recorder.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define TIMEOUT_MS 5000
#define MAX_MESSAGE_BYTES 1024
#define MAX_KNOWN 4096                       /* more are forgotten: they are said anew */
#define FORGET_US (10 * 60 * G_USEC_PER_SEC) /* a later one is a new event */

const KubeKind event_kind = { "", "v1", "events", "Event", TRUE };

typedef struct {
  char *name;
  gint64 count, last_us;
} Known;

struct EventRecorder {
  KubeClient *client;
  char *component, *instance;
  GMutex lock;
  GHashTable *known; /* object, reason and message -> Known */
};

static void
known_free (gpointer data)
{
  Known *known = data;
  g_free (known->name);
  g_free (known);
}

EventRecorder *
event_recorder_new (KubeClient *client, const char *component, const char *instance)
{
  EventRecorder *self = g_new0 (EventRecorder, 1);
  self->client = client;
  self->component = g_strdup (component);
  self->instance = g_strdup (instance);
  g_mutex_init (&self->lock);
  self->known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, known_free);
  return self;
}

void
event_recorder_free (EventRecorder *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->known);
  g_mutex_clear (&self->lock);
  g_free (self->component);
  g_free (self->instance);
  g_free (self);
}

/* At most so many bytes, whole characters, valid UTF-8. */
static char *
cut_message (const char *message)
{
  char *valid = g_utf8_make_valid (message, -1);
  if (strlen (valid) > MAX_MESSAGE_BYTES)
    *g_utf8_find_prev_char (valid, valid + MAX_MESSAGE_BYTES + 1) = '\0';
  return valid;
}

/* How often it was said, with this time; `out_name` is that of the event, fresh the first time. */
static gint64
count_up (EventRecorder *self, const char *key, const char *object_name, char **out_name)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Known *known = g_hash_table_lookup (self->known, key);
  gint64 now_us = g_get_monotonic_time ();
  if (known == NULL || now_us - known->last_us > FORGET_US)
    {
      char uuid[37];
      text_uuid (uuid);
      known = g_new0 (Known, 1);
      known->name = g_strdup_printf ("%.200s.%.16s", object_name, uuid);
      if (g_hash_table_size (self->known) >= MAX_KNOWN)
        g_hash_table_remove_all (self->known);
      g_hash_table_replace (self->known, g_strdup (key), known);
    }
  known->last_us = now_us;
  *out_name = g_strdup (known->name);
  return ++known->count;
}

static yyjson_mut_doc *
repeat_patch (gint64 count, const char *now)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_int (doc, root, "count", count);
  yyjson_mut_obj_add_strcpy (doc, root, "lastTimestamp", now);
  return doc;
}

static void
add_involved (yyjson_mut_doc *doc, yyjson_mut_val *root, const KubeKind *kind, const KubeObject *object)
{
  g_autofree char *api_version = kube_kind_api_version (kind);
  yyjson_mut_val *involved = yyjson_mut_obj_add_obj (doc, root, "involvedObject");
  yyjson_mut_obj_add_strcpy (doc, involved, "apiVersion", api_version);
  yyjson_mut_obj_add_strcpy (doc, involved, "kind", kind->kind);
  yyjson_mut_obj_add_strcpy (doc, involved, "name", kube_object_name (object));
  if (kind->is_namespaced)
    yyjson_mut_obj_add_strcpy (doc, involved, "namespace", kube_object_namespace (object));
  yyjson_mut_obj_add_strcpy (doc, involved, "uid", kube_object_uid (object));
  yyjson_mut_obj_add_strcpy (doc, involved, "resourceVersion", kube_object_resource_version (object));
}

static yyjson_mut_doc *
new_event (EventRecorder *self, const char *name, const char *now)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_strcpy (doc, yyjson_mut_obj_add_obj (doc, root, "metadata"), "name", name);
  yyjson_mut_val *source = yyjson_mut_obj_add_obj (doc, root, "source");
  yyjson_mut_obj_add_strcpy (doc, source, "component", self->component);
  yyjson_mut_obj_add_strcpy (doc, root, "reportingComponent", self->component);
  yyjson_mut_obj_add_strcpy (doc, root, "reportingInstance", self->instance);
  yyjson_mut_obj_add_strcpy (doc, root, "firstTimestamp", now);
  yyjson_mut_obj_add_strcpy (doc, root, "lastTimestamp", now);
  yyjson_mut_obj_add_int (doc, root, "count", 1);
  return doc;
}

void
event_recorder_say (Ctx *ctx, EventRecorder *self, const KubeKind *kind, const KubeObject *object,
                    EventSeverity severity, const char *reason, const char *message)
{
  g_autoptr (Ctx) limited = ctx_new_child (ctx, TIMEOUT_MS);
  g_autoptr (GError) error = NULL;
  g_autoptr (KubeObject) stored = NULL;
  g_autofree char *text = cut_message (message), *now = time_text_now (), *name = NULL;
  g_autofree char *key = g_strdup_printf ("%s\n%s\n%s", kube_object_uid (object), reason, text);
  gint64 count = count_up (self, key, kube_object_name (object), &name);
  KubeTarget target = { .kind = &event_kind,
                        .namespace = kind->is_namespaced ? kube_object_namespace (object) : "default",
                        .name = name };
  if (count > 1)
    {
      g_autoptr (yyjson_mut_doc) patch = repeat_patch (count, now);
      stored = kube_client_patch (limited, self->client, &target, KUBE_PATCH_MERGE, NULL, patch, &error);
    }
  if (count == 1 || am_error_is (error, AM_ERROR_NOT_FOUND)) /* it lived its hour */
    {
      g_clear_error (&error);
      g_autoptr (yyjson_mut_doc) doc = new_event (self, name, now);
      yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
      add_involved (doc, root, kind, object);
      yyjson_mut_obj_add_strcpy (doc, root, "type", severity == EVENT_WARNING ? "Warning" : "Normal");
      yyjson_mut_obj_add_strcpy (doc, root, "reason", reason);
      yyjson_mut_obj_add_strcpy (doc, root, "message", text);
      stored = kube_client_create (limited, self->client, &target, doc, &error);
    }
  if (stored == NULL)
    am_log_warning (ctx, "an event was not recorded", "reason", reason, "err", error->message, NULL);
}
