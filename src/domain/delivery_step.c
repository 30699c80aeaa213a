#include "domain/delivery_step.h"

#include <string.h>

#include "base/error.h"

void
delivery_decision_clear (DeliveryDecision *self)
{
  g_clear_pointer (&self->claim_steps, g_free);
  g_clear_pointer (&self->message, g_free);
}

/* At most DELIVERY_MESSAGE_BYTES, whole characters; takes the text. */
static char *
cut (char *text)
{
  g_autofree char *owned = text;
  g_autofree char *valid = g_utf8_make_valid (owned, -1);
  if (strlen (valid) <= DELIVERY_MESSAGE_BYTES)
    return g_steal_pointer (&valid);
  const char *end = g_utf8_find_prev_char (valid, valid + DELIVERY_MESSAGE_BYTES + 1);
  return g_strndup (valid, (gsize) (end - valid));
}

static void
report (const DeliveryView *seen, DeliveryReason reason, char *message, DeliveryDecision *out)
{
  out->reason = reason;
  out->message = cut (message);
  gboolean is_other_reason = g_strcmp0 (delivery_reason_name (reason), seen->reported_reason) != 0;
  gboolean is_other_message = g_strcmp0 (out->message, seen->reported_message) != 0;
  out->changes_report = is_other_reason || is_other_message;
  if (is_other_reason || (is_other_message && delivery_reason_names_cause (reason)))
    out->event = delivery_reason_event (reason);
}

static void
take_report_away (const DeliveryView *seen, DeliveryDecision *out)
{
  out->changes_report = seen->reported_reason != NULL || seen->reported_message != NULL;
}

/* Nothing new is delivered. A template that serves stays; any other has the gate. */
static void
stop (const DeliveryView *seen, DeliveryReason reason, char *message, DeliveryDecision *out)
{
  gboolean is_safe = seen->template == DELIVERY_TEMPLATE_SERVING || seen->template == DELIVERY_TEMPLATE_HELD;
  out->form = is_safe ? DELIVERY_KEEP : DELIVERY_HOLD;
  out->release = DELIVERY_RELEASE_UNBOUND;
  out->removes_open_pods = is_safe && seen->has_open_pods;
  out->removes_obsolete = seen->template == DELIVERY_TEMPLATE_SERVING && seen->has_obsolete;
  report (seen, reason, message, out);
}

/* Claims and finalizer stay until the last claim is released. */
static void
decide_deletion (const DeliveryView *seen, DeliveryDecision *out)
{
  out->release = DELIVERY_RELEASE_ALL;
  out->wants_finalizer = seen->has_finalizer && seen->n_held_claims > 0;
}

/* The finalizer stays, too, until nothing is left, or may come, that was held. */
static void
decide_removal (const DeliveryView *seen, DeliveryDecision *out)
{
  gboolean is_plain = seen->template == DELIVERY_TEMPLATE_PLAIN;
  decide_deletion (seen, out);
  take_report_away (seen, out);
  out->wants_finalizer |= seen->has_finalizer && (!is_plain || !seen->is_observed || seen->has_obsolete);
  out->removes_open_pods = is_plain && seen->has_open_pods;
  out->removes_obsolete = is_plain && seen->has_obsolete;
  if (is_plain)
    return;
  out->form = DELIVERY_CLEAR;
  out->event = DELIVERY_EVENT_REMOVED;
  out->message = g_strdup ("no model is asked for any more: volumes, mounts and variables are taken out");
}

/* What is missing, each by its name; NULL: nothing. */
static char *
missing_models (const DeliveryView *seen)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (gsize i = 0; i < seen->n_models; i++)
    {
      const DeliveryModelView *model = &seen->models[i];
      if (model->exists && model->is_ready)
        continue;
      g_string_append_printf (text, "%s%s %s ", text->len > 0 ? "; " : "",
                              model->is_cluster_wide ? "ClusterModel" : "Model", model->name);
      if (!model->exists)
        g_string_append (text, "does not exist");
      else
        g_string_append_printf (text, "is not Ready (%s)", model->phase != NULL ? model->phase : "no phase yet");
    }
  return text->len > 0 ? g_strdup (text->str) : NULL;
}

static DeliveryReason
spec_reason (const GError *error)
{
  gboolean is_of_node_cache = am_error_has_reason (error, delivery_reason_name (DELIVERY_NODE_CACHE_DISABLED));
  return is_of_node_cache ? DELIVERY_NODE_CACHE_DISABLED : DELIVERY_INVALID_SPEC;
}

/* What somebody must mend is told before what failed, and that before what only takes time. */
static guint
weight (DeliveryReason reason)
{
  if (reason == DELIVERY_UNHINDERED)
    return 0;
  if (delivery_reason_event (reason) == DELIVERY_EVENT_BLOCKED)
    return 3;
  return reason == DELIVERY_MATERIALIZER_FAILED ? 2 : 1;
}

/* The steps of all claims, and the gravest of what they wait for, the first such one. */
static void
decide_claims (const DeliveryView *seen, ClaimStep *steps, ClaimDecision *out_gravest)
{
  for (gsize i = 0; i < seen->n_models; i++)
    {
      g_auto (ClaimDecision) decision = { 0 };
      claim_decide (&seen->models[i].claim, &seen->choice, &decision);
      steps[i] = decision.step;
      if (weight (decision.reason) <= weight (out_gravest->reason))
        continue;
      claim_decision_clear (out_gravest);
      *out_gravest = decision;
      decision.message = NULL;
    }
}

static char *
applied_message (const DeliveryView *seen)
{
  return g_strdup_printf ("%" G_GSIZE_FORMAT " model%s delivered, the first one %s (SharedPVC, RWXSharedVolume)",
                          seen->n_models, seen->n_models == 1 ? "" : "s", seen->models[0].digest);
}

/* All is there. A workload that was given its models at admission is only taken note of. */
static void
deliver (const DeliveryView *seen, DeliveryDecision *out)
{
  out->form = seen->is_current ? DELIVERY_KEEP : DELIVERY_DELIVER;
  out->release = DELIVERY_RELEASE_UNWANTED;
  out->removes_obsolete = seen->is_current && seen->has_obsolete;
  out->removes_open_pods = seen->is_current && seen->has_open_pods;
  take_report_away (seen, out);
  if (seen->is_current && seen->has_finalizer)
    return;
  out->event = DELIVERY_EVENT_APPLIED;
  out->message = applied_message (seen);
}

static void
decide_delivery (const DeliveryView *seen, DeliveryDecision *out)
{
  g_auto (ClaimDecision) gravest = { 0 };
  g_autofree ClaimStep *steps = g_new0 (ClaimStep, seen->n_models);
  decide_claims (seen, steps, &gravest);
  if (gravest.reason == DELIVERY_UNHINDERED)
    deliver (seen, out);
  else
    {
      stop (seen, gravest.reason, g_steal_pointer (&gravest.message), out);
      out->release = DELIVERY_RELEASE_STALE;
      out->recheck_s = DELIVERY_RECHECK_S;
    }
  if (seen->has_finalizer && out->form != DELIVERY_HOLD && !out->removes_open_pods)
    out->claim_steps = g_steal_pointer (&steps);
  else if (out->form == DELIVERY_DELIVER) /* first the finalizer, then the claims, then what uses them */
    {
      delivery_decision_clear (out);
      *out = (DeliveryDecision){ .wants_finalizer = TRUE };
    }
}

static void
decide_references (const DeliveryView *seen, DeliveryDecision *out)
{
  char *missing = missing_models (seen);
  out->wants_finalizer = TRUE;
  if (missing != NULL)
    stop (seen, DELIVERY_MODEL_PENDING, missing, out);
  else if (seen->spec_error != NULL)
    stop (seen, spec_reason (seen->spec_error), g_strdup (seen->spec_error->message), out);
  else
    decide_delivery (seen, out);
}

void
delivery_decide (const DeliveryView *seen, DeliveryDecision *out_decision)
{
  *out_decision = (DeliveryDecision){ .wants_finalizer = seen->has_finalizer };
  if (seen->is_in_module_namespace)
    return;
  if (seen->is_deleting)
    decide_deletion (seen, out_decision);
  else if (seen->reference_error != NULL)
    stop (seen, DELIVERY_INVALID_REFERENCE, g_strdup (seen->reference_error->message), out_decision);
  else if (seen->n_models == 0)
    decide_removal (seen, out_decision);
  else
    decide_references (seen, out_decision);
}

gboolean
delivery_releases (DeliveryRelease release, gboolean is_wanted, gboolean was_bound)
{
  switch (release)
    {
    case DELIVERY_RELEASE_STALE: return !was_bound && !is_wanted;
    case DELIVERY_RELEASE_UNBOUND: return !was_bound;
    case DELIVERY_RELEASE_UNWANTED: return !is_wanted;
    case DELIVERY_RELEASE_ALL: return TRUE;
    case DELIVERY_RELEASE_NONE:
    default: return FALSE;
    }
}
