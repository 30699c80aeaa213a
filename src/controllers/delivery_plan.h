/* What a Pod template is to get of the models that are asked for, and whether it has it already: domain/pod_template_plan.h over
 * what the caches know. Used by the webhook and the reconciler of workloads. */
#pragma once

#include "controllers/delivery_caches.h"
#include "domain/pod_template_plan.h"

/* Of models that are all ready; `facts` are theirs, in the order of the references. Signed for this namespace. */
PodTemplatePlan *delivery_plan_wanted (const DeliveryCaches *caches, const char *namespace,
                                       const GPtrArray *references, const DeliveryModelFacts *facts, GError **error);
/* Of what the template says that it was given, under its own annotations: when that is just these references, and all claims
 * serve (claim_serves). NULL otherwise. Nothing else that the template says is believed; whether it has what the plan says is
 * told by pod_template_deliver. */
PodTemplatePlan *delivery_plan_served (const DeliveryCaches *caches, const char *namespace,
                                       const GPtrArray *references, yyjson_mut_val *template);
