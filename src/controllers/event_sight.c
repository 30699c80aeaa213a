#include "controllers/event_sight.h"

#include <string.h>

#include "base/text.h"
#include "kube/event_recorder.h"

#define MAX_EVENTS 200 /* that are looked at */
/* Of whoever wrote an object at the same time as another, and tries it again at once: our holders of a claim are others. */
#define CONFLICT "the object has been modified; please apply your changes to the latest version"

/* Of several times that an Event may have, the last. */
static gint64
when_s (const KubeObject *event)
{
  yyjson_val *root = kube_object_root (event);
  const char *const times[] = { json_get_string (json_get_object (root, "series"), "lastObservedTime"),
                                json_get_string (root, "lastTimestamp"), json_get_string (root, "eventTime"),
                                json_get_string (root, "firstTimestamp") };
  gint64 last_s = kube_object_created_s (event);
  for (gsize i = 0; i < G_N_ELEMENTS (times); i++)
    last_s = MAX (last_s, time_text_parse (times[i]));
  return last_s;
}

static gboolean
has_part (const char *text, const char *const *parts)
{
  if (parts == NULL)
    return TRUE;
  for (gsize i = 0; text != NULL && parts[i] != NULL; i++)
    if (strstr (text, parts[i]) != NULL)
      return TRUE;
  return FALSE;
}

/* client-go's provisioners call themselves by their name, "_" and who they are. */
static gboolean
is_of (const char *component, const char *const *reporters)
{
  for (gsize i = 0; component != NULL && reporters[i] != NULL; i++)
    {
      gsize size = strlen (reporters[i]);
      if (strncmp (component, reporters[i], size) == 0 && (component[size] == '\0' || component[size] == '_'))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_wanted (const KubeObject *event, const EventWanted *wanted)
{
  yyjson_val *root = kube_object_root (event), *about = json_get_object (root, "involvedObject");
  return g_strcmp0 (json_get_string (root, "type"), "Warning") == 0
         && g_strcmp0 (json_get_string (about, "uid"), wanted->uid) == 0
         && g_strcmp0 (json_get_string (about, "kind"), wanted->kind) == 0
         && has_part (json_get_string (root, "reason"), wanted->reasons)
         && (is_of (json_get_string (json_get_object (root, "source"), "component"), wanted->reporters)
             || is_of (json_get_string (root, "reportingComponent"), wanted->reporters));
}

void
event_sight_take (const KubeObject *event, const EventWanted *wanted, EventSaid *said)
{
  const char *message = json_get_string (kube_object_root (event), "message");
  gint64 then_s = when_s (event);
  if (message == NULL || message[0] == '\0' || strstr (message, CONFLICT) != NULL || !is_wanted (event, wanted)
      || (said->message != NULL && then_s < said->when_s))
    return;
  g_free (said->message);
  *said = (EventSaid){ then_s, g_strdup (message) };
}

typedef struct {
  const EventWanted *wanted;
  EventSaid said;
  guint n_seen;
} Hearing;

static gboolean
hear (KubeObject *event, gpointer data, GError **error)
{
  Hearing *self = data;
  event_sight_take (event, self->wanted, &self->said);
  return ++self->n_seen < MAX_EVENTS || am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL, "so many are enough");
}

gboolean
event_sight_ask (Ctx *ctx, KubeClient *client, const char *namespace, const EventWanted *wanted, char **out_message,
                 GError **error)
{
  g_autofree char *fields = g_strdup_printf ("involvedObject.uid=%s,involvedObject.kind=%s,type=Warning", wanted->uid,
                                             wanted->kind);
  KubeTarget target = { .kind = &event_kind, .namespace = namespace };
  KubeListOptions options = { .field_selector = fields, .page_size = MAX_EVENTS };
  Hearing hearing = { .wanted = wanted };
  g_autoptr (GError) problem = NULL;
  if (!kube_client_list (ctx, client, &target, &options, hear, &hearing, NULL, &problem)
      && hearing.n_seen < MAX_EVENTS)
    {
      g_free (hearing.said.message);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  *out_message = hearing.said.message;
  return TRUE;
}
