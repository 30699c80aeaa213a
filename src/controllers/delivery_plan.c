#include "controllers/delivery_plan.h"

#include "controllers/claim_sight.h"

PodTemplatePlan *
delivery_plan_wanted (const DeliveryCaches *caches, const char *namespace, const GPtrArray *references,
                      const DeliveryModelFacts *facts, GError **error)
{
  g_auto (DeliveryState) state = { 0 };
  g_auto (DeliveryAnnotations) annotations = { 0 };
  delivery_state_init (&state, DELIVERY_SHARED_PVC);
  for (guint i = 0; i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      DeliveredModel model = { reference->name, facts[i].uri, facts[i].digest, facts[i].family, facts[i].size_bytes };
      delivery_state_add (&state, &model);
    }
  delivery_state_write (&state, namespace, caches->settings->delivery.state_key, &annotations);
  return pod_template_plan_new (&state, &annotations, references, namespace, error);
}

/* All of them; `state` has the models of the references, in their order. */
static gboolean
claims_serve (const DeliveryCaches *caches, const char *namespace, const GPtrArray *references,
              const DeliveryState *state)
{
  for (guint i = 0; i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      const DeliveredModel *model = g_ptr_array_index (state->models, i);
      ClaimSubject subject = { .namespace = namespace,
                               .is_cluster_wide = reference->is_cluster_wide,
                               .model = reference->name,
                               .digest = model->digest,
                               .size_bytes = model->size_bytes };
      ClaimSight sight;
      claim_sight_read (caches, &subject, NULL, &sight);
      gboolean serves = sight.view.is_ours && claim_serves (&sight.view);
      claim_sight_clear (&sight);
      if (!serves)
        return FALSE;
    }
  return TRUE;
}

PodTemplatePlan *
delivery_plan_served (const DeliveryCaches *caches, const char *namespace, const GPtrArray *references,
                      yyjson_mut_val *template)
{
  g_auto (DeliveryState) state = { 0 };
  g_auto (DeliveryAnnotations) annotations = { 0 };
  pod_template_annotations (template, &annotations);
  if (references->len == 0 || !delivery_state_read (&annotations, &state, NULL))
    return NULL;
  g_autoptr (PodTemplatePlan) plan = pod_template_plan_new (&state, &annotations, references, namespace, NULL);
  gboolean serves = plan != NULL && claims_serve (caches, namespace, references, &state);
  return serves ? g_steal_pointer (&plan) : NULL;
}
