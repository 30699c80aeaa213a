#include "controllers/worker_sight.h"

#include <string.h>

#include "controllers/pod_sight.h"

#define WORKER "the worker"

static void
set_interrupted (WorkerSight *self, char *message)
{
  self->state = MODEL_WORKER_INTERRUPTED;
  self->message = message;
}

/* The Pod is over: what its worker said, if it said something. */
static void
read_end (WorkerSight *self, const KubeObject *pod)
{
  g_auto (WorkerResult) result = { 0 };
  const char *text = json_get_string (pod_container_state (pod, "terminated"), "message");
  if (text == NULL || !worker_result_parse (text, strlen (text), &result, NULL))
    {
      set_interrupted (self, pod_silent_end (pod, WORKER));
      return;
    }
  if (result.end == WORKER_WAS_INTERRUPTED)
    {
      set_interrupted (self, pod_told (WORKER " was interrupted", result.message));
      return;
    }
  self->state = result.end == WORKER_HAS_RESULT ? MODEL_WORKER_SUCCEEDED : MODEL_WORKER_FAILED;
  self->result = result;
  result = (WorkerResult){ 0 };
}

void
worker_sight_read (const KubeObject *pod, WorkerSight *out_sight)
{
  WorkerSight sight = { .state = pod != NULL ? MODEL_WORKER_ACTIVE : MODEL_WORKER_ABSENT };
  if (pod != NULL)
    {
      sight.is_leaving = kube_object_is_deleting (pod);
      sight.is_running = pod_container_state (pod, "running") != NULL;
      if (pod_is_over (pod))
        read_end (&sight, pod);
      else
        sight.message = pod_waits_for (pod, WORKER);
    }
  *out_sight = sight;
}

void
worker_sight_clear (WorkerSight *self)
{
  g_clear_pointer (&self->message, g_free);
  worker_result_clear (&self->result);
}
