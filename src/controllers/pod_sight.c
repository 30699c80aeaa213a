#include "controllers/pod_sight.h"

#include <string.h>

#include "cluster/worker_result.h"

#define MAX_WORDS 300 /* characters of others' in a message of ours */

/* A row for each reason; `what` has a place for who it is. */
typedef struct {
  const char *reason, *what;
  gboolean has_words; /* the kubelet's are told, too */
} Row;

/* A copy of the first characters of what somebody else said. */
static char *
words_of (const char *text)
{
  g_autofree char *clean = worker_message (text != NULL ? text : "");
  return g_utf8_strlen (clean, -1) > MAX_WORDS ? g_utf8_substring (clean, 0, MAX_WORDS) : g_steal_pointer (&clean);
}

char *
pod_told (const char *what, const char *said)
{
  g_autofree char *words = words_of (said);
  return g_strconcat (what, words[0] != '\0' ? ": " : NULL, words, NULL);
}

/* "%s" of the row's words is the only place there is. */
static char *
row_words (const Row *row, const char *who)
{
  g_auto (GStrv) parts = g_strsplit (row->what, "%s", 2);
  return g_strconcat (parts[0], who, parts[1], NULL);
}

/* The only container's. */
yyjson_val *
pod_container_state (const KubeObject *pod, const char *name)
{
  yyjson_val *container = yyjson_arr_get_first (json_get_array (kube_object_status (pod), "containerStatuses"));
  return json_get_object (json_get_object (container, "state"), name);
}

gboolean
pod_is_over (const KubeObject *pod)
{
  const char *phase = json_get_string (kube_object_status (pod), "phase");
  return g_strcmp0 (phase, "Succeeded") == 0 || g_strcmp0 (phase, "Failed") == 0;
}

char *
pod_silent_end (const KubeObject *pod, const char *who)
{
  static const Row rows[] = {
    { "Evicted", "%s was evicted from its node", TRUE },
    { "OOMKilled", "%s ran out of memory", TRUE },
    { "NodeLost", "%s's node is gone", TRUE },
    { "NodeShutdown", "%s's node was shut down", TRUE },
    { "Terminated", "%s's node was shut down", TRUE },
    { "Preempting", "%s had to make room for others", TRUE },
    { "DeadlineExceeded", "%s took too long", TRUE },
    { "StartError", "%s's container could not be started", TRUE },
    { "ContainerCannotRun", "%s's container could not be started", TRUE },
  };
  yyjson_val *status = kube_object_status (pod), *terminated = pod_container_state (pod, "terminated");
  const char *reasons[] = { json_get_string (status, "reason"), json_get_string (terminated, "reason") };
  const char *texts[] = { json_get_string (status, "message"), json_get_string (terminated, "message") };
  for (gsize k = 0; k < G_N_ELEMENTS (reasons); k++)
    for (gsize i = 0; reasons[k] != NULL && i < G_N_ELEMENTS (rows); i++)
      if (strcmp (rows[i].reason, reasons[k]) == 0)
        {
          g_autofree char *what = row_words (&rows[i], who);
          return pod_told (what, texts[k]);
        }
  if (terminated == NULL)
    {
      g_autofree char *what = g_strdup_printf ("%s's Pod failed", who);
      return pod_told (what, texts[0] != NULL ? texts[0] : reasons[0]);
    }
  g_autofree char *what = g_strdup_printf ("%s ended with status %d and without a result", who,
                                           (int) yyjson_get_sint (yyjson_obj_get (terminated, "exitCode")));
  return pod_told (what, texts[1]);
}

/* What keeps a container from running. Words about images are left out: they name registries. */
static char *
container_waits_for (const KubeObject *pod, const char *who)
{
  static const Row rows[] = {
    { "ErrImagePull", "%s's image cannot be pulled", FALSE },
    { "ImagePullBackOff", "%s's image cannot be pulled", FALSE },
    { "ErrImageNeverPull", "%s's image is not on the node", FALSE },
    { "InvalidImageName", "%s's image has no valid name", FALSE },
    { "ImageInspectError", "%s's image cannot be read", FALSE },
    { "RegistryUnavailable", "%s's image cannot be pulled", FALSE },
    { "CreateContainerConfigError", "%s's container cannot be made", TRUE },
    { "CreateContainerError", "%s's container cannot be made", TRUE },
    { "RunContainerError", "%s's container cannot be started", TRUE },
  };
  yyjson_val *waiting = pod_container_state (pod, "waiting");
  const char *reason = json_get_string (waiting, "reason");
  for (gsize i = 0; reason != NULL && i < G_N_ELEMENTS (rows); i++)
    if (strcmp (rows[i].reason, reason) == 0)
      {
        g_autofree char *words = row_words (&rows[i], who);
        g_autofree char *what = g_strdup_printf ("%s (%s)", words, reason);
        return pod_told (what, rows[i].has_words ? json_get_string (waiting, "message") : NULL);
      }
  return NULL;
}

/* No node has room, or fits. */
static char *
node_waits_for (const KubeObject *pod, const char *who)
{
  size_t index, n;
  yyjson_val *condition;
  yyjson_arr_foreach (json_get_array (kube_object_status (pod), "conditions"), index, n, condition)
  {
    g_autofree char *what = g_strdup_printf ("no node takes %s", who);
    if (g_strcmp0 (json_get_string (condition, "type"), "PodScheduled") == 0
        && g_strcmp0 (json_get_string (condition, "status"), "False") == 0)
      return pod_told (what, json_get_string (condition, "message"));
  }
  return NULL;
}

char *
pod_waits_for (const KubeObject *pod, const char *who)
{
  const char *phase = json_get_string (kube_object_status (pod), "phase");
  if (kube_object_is_deleting (pod))
    return g_strdup_printf ("%s is being stopped", who);
  if (g_strcmp0 (phase, "Unknown") == 0)
    return g_strdup_printf ("%s's node does not answer", who);
  char *waits = container_waits_for (pod, who);
  return waits != NULL ? waits : node_waits_for (pod, who);
}
