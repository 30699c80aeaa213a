#include "controllers/worker_sight.h"

#include <string.h>

#define MAX_WORDS 300 /* characters of others' in a message of ours */

/* A copy of the first characters of what somebody else said. */
static char *
words_of (const char *text)
{
  g_autofree char *clean = worker_message (text != NULL ? text : "");
  return g_utf8_strlen (clean, -1) > MAX_WORDS ? g_utf8_substring (clean, 0, MAX_WORDS) : g_steal_pointer (&clean);
}

/* The only container's. */
static yyjson_val *
container_state (yyjson_val *status, const char *name)
{
  yyjson_val *container = yyjson_arr_get_first (json_get_array (status, "containerStatuses"));
  return json_get_object (json_get_object (container, "state"), name);
}

static void set_message (WorkerSight *self, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
set_message (WorkerSight *self, const char *format, ...)
{
  va_list values;
  va_start (values, format);
  g_free (self->message);
  self->message = g_strdup_vprintf (format, values);
  va_end (values);
}

static void
set_interrupted (WorkerSight *self, const char *what, const char *said)
{
  g_autofree char *words = words_of (said);
  self->state = MODEL_WORKER_INTERRUPTED;
  set_message (self, "%s%s%s", what, words[0] != '\0' ? ": " : "", words);
}

/* How the container ended when it said nothing that can be read. */
static void
read_silent_end (WorkerSight *self, yyjson_val *status, yyjson_val *terminated)
{
  static const struct {
    const char *reason, *what;
  } rows[] = {
    { "Evicted", "the worker was evicted from its node" },
    { "OOMKilled", "the worker ran out of memory" },
    { "NodeLost", "the worker's node is gone" },
    { "NodeShutdown", "the worker's node was shut down" },
    { "Terminated", "the worker's node was shut down" },
    { "Preempting", "the worker had to make room for others" },
    { "DeadlineExceeded", "the worker took too long" },
    { "StartError", "the worker's container could not be started" },
    { "ContainerCannotRun", "the worker's container could not be started" },
  };
  const char *reasons[] = { json_get_string (status, "reason"), json_get_string (terminated, "reason") };
  const char *texts[] = { json_get_string (status, "message"), json_get_string (terminated, "message") };
  for (gsize k = 0; k < G_N_ELEMENTS (reasons); k++)
    for (gsize i = 0; reasons[k] != NULL && i < G_N_ELEMENTS (rows); i++)
      if (strcmp (rows[i].reason, reasons[k]) == 0)
        {
          set_interrupted (self, rows[i].what, texts[k]);
          return;
        }
  if (terminated == NULL)
    {
      set_interrupted (self, "the worker's Pod failed", texts[0] != NULL ? texts[0] : reasons[0]);
      return;
    }
  g_autofree char *what = g_strdup_printf ("the worker ended with status %d and without a result",
                                           (int) yyjson_get_sint (yyjson_obj_get (terminated, "exitCode")));
  set_interrupted (self, what, texts[1]);
}

/* The Pod is over: what its worker said, if it said something. */
static void
read_end (WorkerSight *self, yyjson_val *status)
{
  g_auto (WorkerResult) result = { 0 };
  yyjson_val *terminated = container_state (status, "terminated");
  const char *text = json_get_string (terminated, "message");
  if (text == NULL || !worker_result_parse (text, strlen (text), &result, NULL))
    {
      read_silent_end (self, status, terminated);
      return;
    }
  if (result.end == WORKER_WAS_INTERRUPTED)
    {
      set_interrupted (self, "the worker was interrupted", result.message);
      return;
    }
  self->state = result.end == WORKER_HAS_RESULT ? MODEL_WORKER_SUCCEEDED : MODEL_WORKER_FAILED;
  self->result = result;
  result = (WorkerResult){ 0 };
}

/* What keeps a container from running. Words about images are left out: they name registries. */
static void
read_waiting (WorkerSight *self, yyjson_val *status)
{
  static const struct {
    const char *reason, *what;
    gboolean has_words;
  } rows[] = {
    { "ErrImagePull", "the worker's image cannot be pulled", FALSE },
    { "ImagePullBackOff", "the worker's image cannot be pulled", FALSE },
    { "ErrImageNeverPull", "the worker's image is not on the node", FALSE },
    { "InvalidImageName", "the worker's image has no valid name", FALSE },
    { "ImageInspectError", "the worker's image cannot be read", FALSE },
    { "RegistryUnavailable", "the worker's image cannot be pulled", FALSE },
    { "CreateContainerConfigError", "the worker's container cannot be made", TRUE },
    { "CreateContainerError", "the worker's container cannot be made", TRUE },
    { "RunContainerError", "the worker's container cannot be started", TRUE },
  };
  yyjson_val *waiting = container_state (status, "waiting");
  const char *reason = json_get_string (waiting, "reason");
  for (gsize i = 0; reason != NULL && i < G_N_ELEMENTS (rows); i++)
    if (strcmp (rows[i].reason, reason) == 0)
      {
        g_autofree char *words = words_of (rows[i].has_words ? json_get_string (waiting, "message") : NULL);
        set_message (self, "%s (%s)%s%s", rows[i].what, reason, words[0] != '\0' ? ": " : "", words);
        return;
      }
}

/* No node has room, or fits. */
static void
read_scheduling (WorkerSight *self, yyjson_val *status)
{
  size_t index, n;
  yyjson_val *condition;
  yyjson_arr_foreach (json_get_array (status, "conditions"), index, n, condition)
  {
    gboolean is_refused = g_strcmp0 (json_get_string (condition, "type"), "PodScheduled") == 0
                          && g_strcmp0 (json_get_string (condition, "status"), "False") == 0;
    if (!is_refused)
      continue;
    g_autofree char *words = words_of (json_get_string (condition, "message"));
    set_message (self, "no node takes the worker%s%s", words[0] != '\0' ? ": " : "", words);
  }
}

void
worker_sight_read (const KubeObject *pod, WorkerSight *out_sight)
{
  WorkerSight sight = { .state = MODEL_WORKER_ABSENT };
  yyjson_val *status = pod != NULL ? kube_object_status (pod) : NULL;
  const char *phase = json_get_string (status, "phase");
  if (pod != NULL)
    {
      sight.state = MODEL_WORKER_ACTIVE;
      sight.is_leaving = kube_object_is_deleting (pod);
      sight.is_running = container_state (status, "running") != NULL;
      if (g_strcmp0 (phase, "Succeeded") == 0 || g_strcmp0 (phase, "Failed") == 0)
        read_end (&sight, status);
      else if (sight.is_leaving)
        set_message (&sight, "the worker is being stopped");
      else if (g_strcmp0 (phase, "Unknown") == 0)
        set_message (&sight, "the worker's node does not answer");
      else
        {
          read_scheduling (&sight, status);
          read_waiting (&sight, status);
        }
    }
  *out_sight = sight;
}

void
worker_sight_clear (WorkerSight *self)
{
  g_clear_pointer (&self->message, g_free);
  worker_result_clear (&self->result);
}
