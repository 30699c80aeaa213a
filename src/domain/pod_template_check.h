/* Whether models can be delivered into a Pod template as its author wrote it: names-and-delivery-contract.md, "Rejected pod
 * templates". Pure. Used by the webhook and the reconciler. */
#pragma once

#include "base/json.h"

/* `template` as in pod_template_plan.h; `claim_templates` are the names of a StatefulSet's volumeClaimTemplates, ended by
 * NULL, or NULL; `references` are of ModelReference. FAILED_PRECONDITION, reason InvalidSpec (or NodeCacheDeliveryDisabled: a
 * volume of the node cache, which mode SharedPVC does not serve), says what is in the way and what to do. */
gboolean pod_template_check (yyjson_mut_val *template, const char *const *claim_templates,
                             const GPtrArray *references, GError **error);
