/* The one change that delivery makes to a workload, as a JSON patch (RFC 6902). Pure. Used by the reconciler of workloads. */
#pragma once

#include "controllers/workload_kinds.h"
#include "domain/delivery_step.h"
#include "domain/pod_template_plan.h"

/* Texts are borrowed. */
typedef struct {
  DeliveryForm form;
  const PodTemplatePlan *plan; /* of DELIVERY_DELIVER */
  gboolean wants_finalizer;
  gboolean changes_report;
  const char *reason, *message; /* of the report; reason NULL: none any more */
} WorkloadChange;

/* Says nothing but what changes, and applies to just this version of the object: ABORTED (reason Conflict) is what the API server
 * answers for another. The caller frees it. */
yyjson_mut_doc *workload_patch (const WorkloadKind *kind, const KubeObject *workload, const WorkloadChange *change);
