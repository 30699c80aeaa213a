/* What the delivery of models by shared volumes adds to a Pod template, and takes out of it again: volumes, mounts, variables,
 * annotations and the scheduling gate; names-and-delivery-contract.md. All else in the template stays as it is and where it
 * is, and what is there already is not touched: doing it twice changes nothing, so that no rollout begins without need. Pure.
 * Used by the webhook and the reconciler on documents of their own; values belong to one thread.
 *
 * A `template` is the object with metadata and spec (of a CronJob: spec.jobTemplate.spec.template) in the document `doc`. */
#pragma once

#include "base/json.h"
#include "domain/delivery_state.h"

typedef struct PodTemplatePlan PodTemplatePlan;

/* The models of `state`, of mode SharedPVC, under the annotations `annotations` that say the same; `references` tells which
 * of them are ClusterModels. Everything is copied. INVALID_ARGUMENT when state and references do not name the same models in
 * the same order, or the state is of another mode. */
PodTemplatePlan *pod_template_plan_new (const DeliveryState *state, const DeliveryAnnotations *annotations,
                                        const GPtrArray *references, const char *namespace, GError **error);
void pod_template_plan_free (PodTemplatePlan *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PodTemplatePlan, pod_template_plan_free)

/* These bring the template to one of three forms and return whether they changed it. The models and no gate; the template has
 * passed pod_template_check. The signature of a template that says the same already stays: nothing is rolled out for a new
 * key. */
gboolean pod_template_deliver (yyjson_mut_doc *doc, yyjson_mut_val *template, const PodTemplatePlan *plan);
/* No models and the gate. */
gboolean pod_template_hold (yyjson_mut_doc *doc, yyjson_mut_val *template);
/* Neither. */
gboolean pod_template_clear (yyjson_mut_doc *doc, yyjson_mut_val *template);

gboolean pod_template_has_gate (yyjson_mut_val *template);
/* It has the gate, or anything of ours that pod_template_clear would remove. */
gboolean pod_template_is_managed (yyjson_mut_val *template);
/* Of a volume of a template: made by a delivery, this or an earlier one, which name and source tell. */
gboolean pod_template_owns_volume (yyjson_mut_val *volume);
/* As they stand there. */
void pod_template_annotations (yyjson_mut_val *template, DeliveryAnnotations *out_annotations);
