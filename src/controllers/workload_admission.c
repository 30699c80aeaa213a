#include "controllers/workload_admission.h"

#include <string.h>

#include "base/json_patch.h"
#include "controllers/claim_sight.h"
#include "controllers/delivery_plan.h"
#include "domain/pod_template_check.h"

/* One request while it is looked at. */
typedef struct {
  const DeliveryCaches *caches;
  const AdmissionRequest *request;
  const WorkloadKind *kind;
  KubeObject *object, *stored;             /* stored: NULL for a new one */
  yyjson_mut_doc *document;                /* of the object, to be changed */
  yyjson_mut_val *template;                /* in it */
  GPtrArray *references;                   /* NULL: they are wrong */
  PodTemplatePlan *now, *submitted, *kept; /* what is resolved now, what the templates sent and stored say; or NULL */
} Look;

static void
look_clear (Look *self)
{
  g_clear_pointer (&self->object, kube_object_unref);
  g_clear_pointer (&self->stored, kube_object_unref);
  g_clear_pointer (&self->document, yyjson_mut_doc_free);
  g_clear_pointer (&self->references, g_ptr_array_unref);
  g_clear_pointer (&self->now, pod_template_plan_free);
  g_clear_pointer (&self->submitted, pod_template_plan_free);
  g_clear_pointer (&self->kept, pod_template_plan_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Look, look_clear)

void
admission_outcome_clear (AdmissionOutcome *self)
{
  g_clear_pointer (&self->message, g_free);
  g_clear_pointer (&self->patch, yyjson_mut_doc_free);
}

/* A volume that is there for long: whole, and held by somebody, so that it does not go before this workload holds it, too. */
static gboolean
claim_can_be_used (const DeliveryCaches *caches, const char *namespace, const ModelReference *reference,
                   const DeliveryModelFacts *facts)
{
  const ClaimSubject subject = { .namespace = namespace,
                                 .is_cluster_wide = reference->is_cluster_wide,
                                 .model = reference->name,
                                 .digest = facts->digest };
  g_auto (ClaimSight) sight = { 0 };
  claim_sight_read (caches, &subject, NULL, &sight);
  return sight.view.phase == CLAIM_BOUND && sight.view.is_ours && sight.view.is_shared && sight.view.is_whole
         && !sight.view.is_deleting && claim_n_holders (sight.claim) > 0;
}

static gboolean
model_can_be_used (const Look *self, const ModelReference *reference, DeliveryModelFacts *out_facts)
{
  return delivery_model_read (self->caches, self->request->namespace, reference, out_facts) && out_facts->is_ready
         && claim_can_be_used (self->caches, self->request->namespace, reference, out_facts);
}

/* The models as they are now, if every one can be used at once. */
static PodTemplatePlan *
plan_now (const Look *self)
{
  guint n = self->references->len;
  gboolean is_possible = TRUE;
  PodTemplatePlan *plan = NULL;
  g_autofree DeliveryModelFacts *facts = g_new0 (DeliveryModelFacts, n);
  for (guint i = 0; i < n && is_possible; i++)
    is_possible = model_can_be_used (self, g_ptr_array_index (self->references, i), &facts[i]);
  if (is_possible)
    plan = delivery_plan_wanted (self->caches, self->request->namespace, self->references, facts, NULL);
  for (guint i = 0; i < n; i++)
    delivery_model_facts_clear (&facts[i]);
  return plan;
}

/* The stored object, when it asks for the same models: its template in a document of its own. */
static yyjson_mut_doc *
stored_document (const Look *self, yyjson_mut_val **out_template)
{
  g_autoptr (GPtrArray) references = self->stored != NULL ? workload_references (self->stored, NULL) : NULL;
  if (references == NULL || !model_references_equal (references, self->references))
    return NULL;
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (self->stored);
  *out_template = workload_template (self->kind, yyjson_mut_doc_get_root (doc));
  return *out_template != NULL ? g_steal_pointer (&doc) : NULL;
}

/* What the template serves; NULL for one that is held. */
static PodTemplatePlan *
plan_served (const Look *self, yyjson_mut_val *template)
{
  if (pod_template_has_gate (template))
    return NULL;
  return delivery_plan_served (self->caches, self->request->namespace, self->references, template);
}

static void
compare_with_stored (Look *self, AdmissionView *seen)
{
  yyjson_mut_val *template = NULL;
  g_autoptr (yyjson_mut_doc) doc = stored_document (self, &template);
  if (doc == NULL)
    return;
  seen->is_unchanged = pod_template_is_managed (template) && yyjson_mut_equals (template, self->template);
  if (seen->is_unchanged || seen->is_blind)
    return;
  self->kept = plan_served (self, template);
  seen->stored_serves = self->kept != NULL;
}

static void
look_around (Look *self, AdmissionView *seen, GError **out_spec_error)
{
  g_autofree const char **claims = workload_claim_templates (self->kind, self->object);
  seen->n_references = self->references->len;
  if (seen->n_references == 0)
    return;
  pod_template_check (self->template, claims, self->references, out_spec_error);
  seen->spec_error = *out_spec_error;
  seen->is_blind = !delivery_caches_are_ready ((DeliveryCaches *) self->caches, NULL)
                   || !model_controller_is_ready (self->caches->models, NULL);
  compare_with_stored (self, seen);
  if (seen->is_blind || seen->is_unchanged)
    return;
  self->now = plan_now (self);
  seen->can_deliver = self->now != NULL;
  self->submitted = plan_served (self, self->template);
  seen->submitted_serves = self->submitted != NULL;
}

static gboolean
change (Look *self, Admission admission)
{
  switch (admission)
    {
    case ADMISSION_DELIVER: return pod_template_deliver (self->document, self->template, self->now);
    case ADMISSION_KEEP_SUBMITTED: return pod_template_deliver (self->document, self->template, self->submitted);
    case ADMISSION_KEEP_STORED: return pod_template_deliver (self->document, self->template, self->kept);
    case ADMISSION_HOLD: return pod_template_hold (self->document, self->template);
    case ADMISSION_ALLOW:
    case ADMISSION_DENY:
    default: return FALSE;
    }
}

static yyjson_mut_doc *
patch_of (const Look *self)
{
  g_autoptr (yyjson_mut_doc) before = kube_object_edit (self->object);
  return json_patch_between (yyjson_mut_doc_get_root (before), yyjson_mut_doc_get_root (self->document));
}

/* The object and the place of its Pod template; FALSE for what is none of ours: the API server refuses it or does not care. */
static gboolean
take_object (Look *self)
{
  const AdmissionRequest *request = self->request;
  gboolean is_stored = request->operation == ADMISSION_CREATE || request->operation == ADMISSION_UPDATE;
  self->kind = workload_kind_named (request->kind);
  if (self->kind == NULL || strcmp (self->kind->kube.group, request->group) != 0 || request->subresource[0] != '\0'
      || !is_stored)
    return FALSE;
  self->object = kube_object_new_from (request->object, NULL);
  if (self->object == NULL)
    return FALSE;
  if (request->old_object != NULL)
    self->stored = kube_object_new_from (request->old_object, NULL);
  self->document = kube_object_edit (self->object);
  self->template = workload_template (self->kind, yyjson_mut_doc_get_root (self->document));
  return yyjson_mut_is_obj (yyjson_mut_obj_get (self->template, "spec"));
}

/* Who replaces it whole may leave the time out: the API server puts it back after this. */
static gboolean
is_deleting (const Look *self)
{
  return kube_object_is_deleting (self->object) || (self->stored != NULL && kube_object_is_deleting (self->stored));
}

void
workload_admit (const DeliveryCaches *caches, const AdmissionRequest *request, AdmissionOutcome *out_outcome)
{
  const ControllerSettings *settings = caches->settings;
  g_auto (Look) look = { .caches = caches, .request = request };
  g_autoptr (GError) reference_error = NULL;
  g_autoptr (GError) spec_error = NULL;
  *out_outcome = (AdmissionOutcome){ ADMISSION_ALLOW, NULL, NULL };
  if (!take_object (&look))
    return;
  AdmissionView seen = {
    .is_ours = g_strcmp0 (request->user, settings->delivery.account) == 0,
    .is_in_module_namespace = strcmp (request->namespace, settings->namespace) == 0,
    .is_deleting = is_deleting (&look),
  };
  look.references = workload_references (look.object, &reference_error);
  seen.reference_error = reference_error;
  if (look.references != NULL)
    look_around (&look, &seen, &spec_error);
  out_outcome->admission = admission_decide (&seen);
  if (out_outcome->admission == ADMISSION_DENY)
    out_outcome->message = g_strdup (reference_error->message);
  if (change (&look, out_outcome->admission))
    out_outcome->patch = patch_of (&look);
}
