#include "controllers/materialize_sight.h"

#include <string.h>

#include "base/text.h"
#include "cluster/materialize_result.h"
#include "controllers/materialize_job.h"
#include "controllers/pod_sight.h"

#define WHO "the materializer"
#define MUTE_S 10      /* this long a Job needs to make a Pod, and a Pod to begin */
#define OVERDUE_S 3600 /* after its deadline */
#define STEADY_S 30    /* after a failure that lasts, the next Pod counts once it has run for so long */
#define AGAIN "; it is tried again"

void
materialize_sight_clear (MaterializeSight *self)
{
  g_clear_pointer (&self->pod, kube_object_unref);
  g_clear_pointer (&self->message, g_free);
}

/* NULL: it has none of that type that is true. */
static yyjson_val *
condition_of (const KubeObject *job, const char *type)
{
  size_t index, n;
  yyjson_val *condition;
  yyjson_arr_foreach (json_get_array (kube_object_status (job), "conditions"), index, n, condition)
  {
    if (g_strcmp0 (json_get_string (condition, "type"), type) == 0
        && g_strcmp0 (json_get_string (condition, "status"), "True") == 0)
      return condition;
  }
  return NULL;
}

gboolean
materialize_job_is_unfinished (const KubeObject *job)
{
  return condition_of (job, "Complete") == NULL && condition_of (job, "Failed") == NULL;
}

/* The newest of those that are over, or of all. NULL: none. */
static const KubeObject *
newest_of (GPtrArray *pods, gboolean is_over)
{
  const KubeObject *newest = NULL;
  for (guint i = 0; i < pods->len; i++)
    {
      const KubeObject *pod = g_ptr_array_index (pods, i);
      if (is_over && !pod_is_over (pod))
        continue;
      gint64 made_s = kube_object_created_s (pod), newest_s = newest != NULL ? kube_object_created_s (newest) : 0;
      if (newest == NULL || made_s > newest_s
          || (made_s == newest_s && strcmp (kube_object_name (pod), kube_object_name (newest)) > 0))
        newest = pod;
    }
  return newest;
}

/* How a Pod that is over ended, in words; `*out_lasts`: no other Pod fares better until somebody does something. */
static char *
last_words (const KubeObject *pod, gboolean *out_lasts)
{
  g_auto (MaterializeOutcome) outcome = { 0 };
  const char *text = json_get_string (pod_container_state (pod, "terminated"), "message");
  *out_lasts = FALSE;
  if (text == NULL || !materialize_result_parse (text, strlen (text), &outcome, NULL)
      || outcome.end == MATERIALIZE_DONE)
    return pod_silent_end (pod, WHO);
  *out_lasts = outcome.end == MATERIALIZE_FAILED && !outcome.may_retry;
  return g_steal_pointer (&outcome.message);
}

static gint64
ago_s (const char *time, gint64 now_s)
{
  gint64 then_s = time_text_parse (time);
  return then_s > 0 ? MAX (now_s - then_s, 0) : 0;
}

/* For good. What its last Pod said tells more than what the Job does, unless that took too long. */
static void
read_failure (MaterializeSight *self, yyjson_val *failed, const KubeObject *over, gint64 now_s)
{
  gboolean lasts = FALSE;
  gboolean is_late = g_strcmp0 (json_get_string (failed, "reason"), "DeadlineExceeded") == 0;
  self->state = MATERIALIZER_FAILED;
  self->ended_ago_s = ago_s (json_get_string (failed, "lastTransitionTime"), now_s);
  g_autofree char *words = over != NULL ? last_words (over, &lasts) : NULL;
  if (is_late)
    self->message = pod_told ("its Job took too long", words);
  else
    self->message = words != NULL ? g_steal_pointer (&words)
                                  : pod_told ("its Job failed", json_get_string (failed, "message"));
}

/* A Pod of it failed in a way that lasts, and no other has shown since that it does not: that is told at once, while the Job
 * goes on trying. */
static gboolean
read_lasting (MaterializeSight *self, const KubeObject *over, gint64 running_s, gint64 now_s)
{
  gboolean lasts = FALSE;
  g_autofree char *words = over != NULL ? last_words (over, &lasts) : NULL;
  if (!lasts || running_s >= STEADY_S)
    return FALSE;
  yyjson_val *terminated = pod_container_state (over, "terminated");
  self->state = MATERIALIZER_FAILED;
  self->ended_ago_s = ago_s (json_get_string (terminated, "finishedAt"), now_s);
  self->message = g_steal_pointer (&words);
  return TRUE;
}

static void
read_unfinished (MaterializeSight *self, const KubeObject *job, const KubeObject *over, gint64 now_s)
{
  gboolean lasts = FALSE;
  const KubeObject *pod = self->pod;
  yyjson_val *running = pod != NULL ? pod_container_state (pod, "running") : NULL;
  gint64 running_s = running != NULL ? ago_s (json_get_string (running, "startedAt"), now_s) : 0;
  gint64 age_s = MAX (now_s - kube_object_created_s (pod != NULL ? pod : job), 0);
  self->state = MATERIALIZER_RUNNING;
  if (kube_object_is_deleting (job))
    self->message = g_strdup ("its Job is being removed");
  else if (read_lasting (self, over, running_s, now_s))
    return;
  else if (pod == NULL)
    self->is_mute = age_s >= MUTE_S;
  else if (pod_is_over (pod))
    {
      g_autofree char *words = last_words (pod, &lasts);
      gboolean has_succeeded = g_strcmp0 (json_get_string (kube_object_status (pod), "phase"), "Succeeded") == 0;
      self->message = has_succeeded ? NULL : g_strconcat (words, AGAIN, NULL);
    }
  else if ((self->message = pod_waits_for (pod, WHO)) == NULL)
    {
      self->is_copying = running != NULL;
      self->is_mute = running == NULL && age_s >= MUTE_S;
    }
}

/* A Pod that is being deleted may say that it runs for as long as its node is away. */
static gint64
idle_s (const KubeObject *job, const KubeObject *pod, gint64 now_s)
{
  gint64 made_s = kube_object_created_s (pod != NULL ? pod : job);
  const char *ended = pod != NULL ? json_get_string (pod_container_state (pod, "terminated"), "finishedAt") : NULL;
  gint64 deleted_s = pod != NULL ? kube_object_deleted_s (pod) : 0;
  if (pod != NULL && deleted_s == 0 && pod_container_state (pod, "running") != NULL)
    return 0;
  return MAX (now_s - MAX (made_s, MAX (time_text_parse (ended), deleted_s)), 0);
}

void
materialize_sight_read (const KubeObject *job, GPtrArray *pods, gint64 now_s, MaterializeSight *out_sight)
{
  *out_sight = (MaterializeSight){ .state = MATERIALIZER_ABSENT };
  if (job == NULL)
    return;
  const KubeObject *newest = newest_of (pods, FALSE), *over = newest_of (pods, TRUE);
  yyjson_val *failed = condition_of (job, "Failed");
  const char *began = json_get_string (kube_object_status (job), "startTime");
  out_sight->pod = newest != NULL ? kube_object_ref ((KubeObject *) newest) : NULL;
  out_sight->elapsed_s = ago_s (began, now_s);
  out_sight->idle_s = idle_s (job, newest, now_s);
  out_sight->is_overdue = now_s - kube_object_created_s (job) > MATERIALIZE_DEADLINE_S + OVERDUE_S;
  if (condition_of (job, "Complete") != NULL)
    out_sight->state = MATERIALIZER_SUCCEEDED;
  else if (failed != NULL)
    read_failure (out_sight, failed, over, now_s);
  else
    read_unfinished (out_sight, job, over, now_s);
}
