#include <string.h>

#include "base/log.h"
#include "controllers/workload_patch.h"
#include "controllers/workload_work.h"

#define FIELD_MANAGER "ai-models-controller"

static gboolean
has_claim_step (const WorkloadWork *work, const DeliveryDecision *decision)
{
  for (gsize i = 0; decision->claim_steps != NULL && i < work->view.n_models; i++)
    if (decision->claim_steps[i] != CLAIM_STEP_NONE)
      return TRUE;
  return FALSE;
}

static gboolean
writes_object (const WorkloadWork *work, const DeliveryDecision *decision)
{
  return decision->form != DELIVERY_KEEP || decision->wants_finalizer != work->view.has_finalizer
         || decision->changes_report;
}

static gboolean
releases_something (const WorkloadWork *work, const DeliveryDecision *decision)
{
  for (guint i = 0; i < work->held->len; i++)
    if (workload_releases (work, decision, g_ptr_array_index (work->held, i)))
      return TRUE;
  return FALSE;
}

gboolean
workload_is_idle (const WorkloadWork *work, const DeliveryDecision *decision)
{
  return !has_claim_step (work, decision) && !writes_object (work, decision) && !releases_something (work, decision)
         && !decision->removes_open_pods && !decision->removes_obsolete;
}

static gboolean
act_on_claims (WorkloadWork *work, const DeliveryDecision *decision, GError **error)
{
  DeliveryController *self = work->controller;
  for (gsize i = 0; decision->claim_steps != NULL && i < work->view.n_models; i++)
    {
      ClaimWork claim = {
        .caches = self->caches,
        .turns = self->turns,
        .subject = &work->models[i].subject,
        .seen = &work->models[i].sight,
        .workload = work->object,
        .kind = work->kind,
        .storage_class = work->view.choice.name,
      };
      if (decision->claim_steps[i] != CLAIM_STEP_NONE
          && !claim_act (work->ctx, &claim, decision->claim_steps[i], error))
        return FALSE;
    }
  return TRUE;
}

static void
log_written (const WorkloadWork *work, const DeliveryDecision *decision)
{
  static const char *const forms[] = {
    [DELIVERY_KEEP] = "kept", [DELIVERY_HOLD] = "held", [DELIVERY_DELIVER] = "delivered", [DELIVERY_CLEAR] = "cleared"
  };
  const char *reason = delivery_reason_name (decision->reason);
  am_log_info (work->ctx, "workload", "template", forms[decision->form], "reason", reason != NULL ? reason : "",
               NULL);
}

static gboolean
write_object (WorkloadWork *work, const DeliveryDecision *decision, KubeObject **out_written, GError **error)
{
  KubeTarget target = { .kind = &work->kind->kube,
                        .namespace = kube_object_namespace (work->object),
                        .name = kube_object_name (work->object) };
  g_autoptr (GError) problem = NULL;
  if (!writes_object (work, decision))
    return TRUE;
  WorkloadChange change = { decision->form,
                            work->plan,
                            decision->wants_finalizer,
                            decision->changes_report,
                            delivery_reason_name (decision->reason),
                            decision->message };
  g_autoptr (yyjson_mut_doc) patch = workload_patch (work->kind, work->object, &change);
  *out_written = kube_client_patch (work->ctx, work->controller->caches->client, &target, KUBE_PATCH_JSON,
                                    FIELD_MANAGER, patch, &problem);
  if (*out_written == NULL && !(work->view.is_deleting && am_error_is (problem, AM_ERROR_NOT_FOUND)))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  log_written (work, decision);
  return TRUE;
}

static gboolean
release_claims (WorkloadWork *work, const DeliveryDecision *decision, GError **error)
{
  for (guint i = 0; i < work->held->len; i++)
    {
      const KubeObject *claim = g_ptr_array_index (work->held, i);
      if (workload_releases (work, decision, claim)
          && !claim_release (work->ctx, work->controller->caches, claim, kube_object_uid (work->object), error))
        return FALSE;
    }
  return TRUE;
}

/* With its Pods; another of that name, made since, is left alone. */
static gboolean
remove_part (WorkloadWork *work, const WorkloadRemoval *removal, GError **error)
{
  KubeTarget target = { .kind = removal->kind,
                        .namespace = kube_object_namespace (work->object),
                        .name = removal->name };
  KubeDeleteOptions options = { .uid = removal->uid, .propagation = "Background", .grace_period_s = -1 };
  g_autoptr (GError) problem = NULL;
  if (kube_client_delete (work->ctx, work->controller->caches->client, &target, &options, &problem)
      || am_error_is (problem, AM_ERROR_ABORTED))
    {
      am_log_info (work->ctx, "removed", "what", removal->kind->kind, "part", removal->name, "why",
                   removal->is_open ? "would start without models" : "waits for good", NULL);
      return TRUE;
    }
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
remove_parts (WorkloadWork *work, const DeliveryDecision *decision, GError **error)
{
  for (guint i = 0; i < work->removals->len; i++)
    {
      const WorkloadRemoval *removal = &g_array_index (work->removals, WorkloadRemoval, i);
      gboolean goes = removal->is_open ? decision->removes_open_pods : decision->removes_obsolete;
      if (goes && !remove_part (work, removal, error))
        return FALSE;
    }
  return TRUE;
}

static void
say (const WorkloadWork *work, const DeliveryDecision *decision)
{
  const char *name = delivery_event_name (decision->event);
  EventSeverity severity = delivery_event_is_warning (decision->event) ? EVENT_WARNING : EVENT_NORMAL;
  if (name != NULL)
    event_recorder_say (work->ctx, work->controller->events, &work->kind->kube, work->object, severity, name,
                        decision->message != NULL ? decision->message : name);
}

gboolean
workload_act (WorkloadWork *work, const DeliveryDecision *decision, gboolean *out_again, GError **error)
{
  g_autoptr (KubeObject) written = NULL;
  if (!act_on_claims (work, decision, error) || !write_object (work, decision, &written, error))
    return FALSE;
  if (writes_object (work, decision))
    say (work, decision);
  if (!release_claims (work, decision, error) || !remove_parts (work, decision, error))
    return FALSE;
  *out_again = written != NULL;
  if (written != NULL)
    workload_work_replace (work, g_steal_pointer (&written));
  return TRUE;
}

/* A conflict, the end of a term, a namespace that goes: nobody has to know. */
static gboolean
passes_by_itself (const GError *problem)
{
  static const AmErrorCode codes[] = {
    AM_ERROR_ABORTED,           AM_ERROR_CANCELLED,   AM_ERROR_NOT_FOUND,
    AM_ERROR_DEADLINE_EXCEEDED, AM_ERROR_UNAVAILABLE, AM_ERROR_RESOURCE_EXHAUSTED
  };
  for (gsize i = 0; i < G_N_ELEMENTS (codes); i++)
    if (am_error_is (problem, codes[i]))
      return TRUE;
  return strstr (problem->message, "is being terminated") != NULL;
}

void
workload_say_failed (const WorkloadWork *work, const GError *problem)
{
  g_autofree char *message = g_strdup_printf ("the delivery failed and is tried again: %s", problem->message);
  if (!passes_by_itself (problem))
    event_recorder_say (work->ctx, work->controller->events, &work->kind->kube, work->object, EVENT_WARNING,
                        "ModelDeliveryFailed", message);
}
