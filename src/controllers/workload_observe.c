#include "controllers/workload_work.h"

#include "domain/delivery_names.h"
#include "domain/pod_template_check.h"

static void
clear_removal (gpointer data)
{
  WorkloadRemoval *removal = data;
  g_free (removal->name);
  g_free (removal->uid);
}

static void
clear_observed (WorkloadWork *work)
{
  for (gsize i = 0; work->models != NULL && i < work->view.n_models; i++)
    {
      claim_sight_clear (&work->models[i].sight);
      delivery_model_facts_clear (&work->models[i].facts);
    }
  g_clear_pointer (&work->models, g_free);
  g_clear_pointer (&work->views, g_free);
  g_clear_pointer (&work->references, g_ptr_array_unref);
  g_clear_error (&work->reference_error);
  g_clear_error (&work->spec_error);
  g_clear_pointer (&work->plan, pod_template_plan_free);
  storage_class_sight_clear (&work->class);
  g_clear_pointer (&work->held, g_ptr_array_unref);
  g_clear_pointer (&work->removals, g_array_unref);
  work->view = (DeliveryView){ 0 };
}

void
workload_work_clear (WorkloadWork *work)
{
  clear_observed (work);
  g_clear_pointer (&work->object, kube_object_unref);
}

void
workload_work_replace (WorkloadWork *work, KubeObject *object)
{
  clear_observed (work); /* borrows from it */
  kube_object_unref (work->object);
  work->object = object;
  work->is_live = TRUE;
}

static gboolean
all_are_ready (const WorkloadWork *work)
{
  for (gsize i = 0; i < work->view.n_models; i++)
    if (!work->models[i].facts.is_ready)
      return FALSE;
  return work->view.n_models > 0;
}

/* The claim of a model that is ready, as this workload sees it; the API server is asked when the claims' steps may be taken. */
static gboolean
view_claim (WorkloadWork *work, WorkloadModel *model, const ModelReference *reference, gboolean may_ask,
            GError **error)
{
  DeliveryController *self = work->controller;
  const char *namespace = kube_object_namespace (work->object), *uid = kube_object_uid (work->object);
  model->subject = (ClaimSubject){
    .namespace = namespace,
    .is_cluster_wide = reference->is_cluster_wide,
    .model = reference->name,
    .digest = model->facts.digest,
    .repository = model->facts.repository,
    .size_bytes = model->facts.size_bytes,
  };
  claim_sight_read (self->caches, &model->subject, uid, &model->sight);
  ClaimView *claim = &model->sight.view;
  if (may_ask
      && !claim_sight_ask (work->ctx, self->caches, self->turns, &model->subject, work->key, &model->sight, error))
    return FALSE;
  if (claim->phase == CLAIM_ABSENT)
    claim->has_open_users = claim_has_open_users (self->caches, namespace, claim->name, uid);
  return TRUE;
}

static void
view_model (WorkloadWork *work, gsize i, const ModelReference *reference)
{
  const WorkloadModel *model = &work->models[i];
  work->views[i] = (DeliveryModelView){
    .is_cluster_wide = reference->is_cluster_wide,
    .name = reference->name,
    .exists = model->facts.exists,
    .is_ready = model->facts.is_ready,
    .phase = model->facts.phase,
    .digest = model->facts.digest,
    .claim = model->sight.view,
  };
}

static gboolean
view_models (WorkloadWork *work, GError **error)
{
  const char *namespace = kube_object_namespace (work->object);
  gsize n = work->references != NULL ? work->references->len : 0;
  work->models = g_new0 (WorkloadModel, n);
  work->views = g_new0 (DeliveryModelView, n);
  work->view.models = work->views;
  work->view.n_models = n;
  for (gsize i = 0; i < n; i++)
    delivery_model_read (work->controller->caches, namespace, g_ptr_array_index (work->references, i),
                         &work->models[i].facts);
  gboolean may_ask = all_are_ready (work) && work->view.has_finalizer && work->view.spec_error == NULL;
  for (gsize i = 0; i < n; i++)
    {
      const ModelReference *reference = g_ptr_array_index (work->references, i);
      if (work->models[i].facts.is_ready && !view_claim (work, &work->models[i], reference, may_ask, error))
        return FALSE;
      view_model (work, i, reference);
    }
  return TRUE;
}

static gboolean
make_plan (WorkloadWork *work, GError **error)
{
  g_autofree DeliveryModelFacts *facts = g_new0 (DeliveryModelFacts, work->view.n_models);
  for (gsize i = 0; i < work->view.n_models; i++)
    facts[i] = work->models[i].facts;
  work->plan = delivery_plan_wanted (work->controller->caches, kube_object_namespace (work->object), work->references,
                                     facts, error);
  return work->plan != NULL;
}

/* The template has just what the plan says. */
static gboolean
has_plan (yyjson_mut_doc *doc, yyjson_mut_val *template, const PodTemplatePlan *plan)
{
  yyjson_mut_val *copy = yyjson_mut_val_mut_copy (doc, template);
  return plan != NULL && !pod_template_has_gate (template) && !pod_template_deliver (doc, copy, plan);
}

static DeliveryTemplate
view_template (const WorkloadWork *work, yyjson_mut_doc *doc, yyjson_mut_val *template)
{
  if (!pod_template_is_managed (template))
    return DELIVERY_TEMPLATE_PLAIN;
  if (!pod_template_hold (doc, yyjson_mut_val_mut_copy (doc, template)))
    return DELIVERY_TEMPLATE_HELD;
  if (work->references == NULL)
    return DELIVERY_TEMPLATE_OTHER;
  g_autoptr (PodTemplatePlan) served = delivery_plan_served (
    work->controller->caches, kube_object_namespace (work->object), work->references, template);
  return has_plan (doc, template, served) ? DELIVERY_TEMPLATE_SERVING : DELIVERY_TEMPLATE_OTHER;
}

/* Before its models: who cannot be given them takes nobody's turn. */
static void
check_spec (WorkloadWork *work, yyjson_mut_val *template)
{
  g_autofree const char **claim_templates = workload_claim_templates (work->kind, work->object);
  if (work->references != NULL && work->references->len > 0
      && !pod_template_check (template, claim_templates, work->references, &work->spec_error))
    work->view.spec_error = work->spec_error;
}

static gboolean
is_wanted (const WorkloadWork *work, const KubeObject *claim)
{
  for (gsize i = 0; i < work->view.n_models; i++)
    if (work->views[i].is_ready && g_strcmp0 (work->views[i].claim.name, kube_object_name (claim)) == 0)
      return TRUE;
  return FALSE;
}

gboolean
workload_releases (const WorkloadWork *work, const DeliveryDecision *decision, const KubeObject *claim)
{
  return delivery_releases (decision->release, is_wanted (work, claim), claim_phase (claim) != CLAIM_PENDING);
}

static void
begin_view (WorkloadWork *work)
{
  const DeliveryCaches *caches = work->controller->caches;
  clear_observed (work);
  work->again_ms = 0;
  work->removals = g_array_new (FALSE, FALSE, sizeof (WorkloadRemoval));
  g_array_set_clear_func (work->removals, clear_removal);
  work->references = workload_references (work->object, &work->reference_error);
  work->held = claims_held_by (caches, kube_object_namespace (work->object), kube_object_uid (work->object));
  work->view = (DeliveryView){
    .is_deleting = kube_object_is_deleting (work->object),
    .has_finalizer = kube_object_has_finalizer (work->object, DELIVERY_FINALIZER),
    .reference_error = work->reference_error,
    .n_held_claims = work->held->len,
    .reported_reason = kube_object_annotation (work->object, DELIVERY_BLOCKED_REASON_ANNOTATION),
    .reported_message = kube_object_annotation (work->object, DELIVERY_BLOCKED_MESSAGE_ANNOTATION),
  };
}

gboolean
workload_observe (WorkloadWork *work, GError **error)
{
  begin_view (work);
  if (work->view.is_deleting)
    return TRUE;
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (work->object);
  yyjson_mut_val *template = workload_template (work->kind, yyjson_mut_doc_get_root (doc));
  if (template == NULL)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the workload has no Pod template");
  check_spec (work, template);
  if (!view_models (work, error))
    return FALSE;
  if (all_are_ready (work) && !make_plan (work, error))
    return FALSE;
  work->view.template = view_template (work, doc, template);
  work->view.is_current = has_plan (doc, template, work->plan);
  storage_class_sight_read (work->controller->caches, &work->class);
  work->view.choice = work->class.choice;
  return workload_view_pods (work, error);
}

gboolean
workload_must_renew (const WorkloadWork *work, const DeliveryDecision *decision)
{
  gboolean holds_back = decision->form == DELIVERY_HOLD && work->view.template == DELIVERY_TEMPLATE_OTHER;
  return !work->has_renewed && (holds_back || decision->removes_open_pods);
}

gboolean
workload_renew_claims (WorkloadWork *work, GError **error)
{
  const DeliveryCaches *caches = work->controller->caches;
  work->has_renewed = TRUE;
  for (gsize i = 0; i < work->view.n_models; i++)
    {
      g_autoptr (KubeObject) claim = NULL;
      KubeTarget target = { .kind = &claim_kind,
                            .namespace = kube_object_namespace (work->object),
                            .name = work->views[i].claim.name };
      if (target.name != NULL && !kube_client_find (work->ctx, caches->client, &target, &claim, error))
        return FALSE;
      if (claim != NULL && kube_object_label (claim, SHARED_CLAIM_LABEL) != NULL)
        informer_take (caches->claims, claim);
    }
  return TRUE;
}
