/* The kinds of workloads that can ask for models, as delivery sees them, and the other kinds that it deals with:
 * delivery-sharedpvc.md. Pure. Used by the webhook, the reconciler of workloads, and who makes claims and Jobs. */
#pragma once

#include "domain/model_references.h"
#include "kube/kube_kind.h"
#include "kube/kube_object.h"

extern const KubeKind replica_set_kind, job_kind, claim_kind, storage_class_kind;

typedef struct {
  KubeKind kube;
  const char *template_path[6]; /* members from the root to the Pod template, ended by NULL */
  gboolean has_claim_templates;
} WorkloadKind;

typedef enum { WORKLOAD_DEPLOYMENT, WORKLOAD_STATEFUL_SET, WORKLOAD_DAEMON_SET, WORKLOAD_CRON_JOB } WorkloadKindIndex;
#define WORKLOAD_N_KINDS 4

extern const WorkloadKind workload_kinds[WORKLOAD_N_KINDS];

/* By "Deployment"; NULL for another. */
const WorkloadKind *workload_kind_named (const char *kind);
WorkloadKindIndex workload_kind_index (const WorkloadKind *self);
/* The Pod template in the root of such an object; NULL when there is none. */
yyjson_mut_val *workload_template (const WorkloadKind *self, yyjson_mut_val *root);
/* Names of the volumeClaimTemplates, ended by NULL and borrowed from the object; caller frees the array alone. */
const char **workload_claim_templates (const WorkloadKind *self, const KubeObject *workload);

/* What it asks for; errors of model_references_parse. */
GPtrArray *workload_references (const KubeObject *workload, GError **error);
/* "Deployment/NAMESPACE/NAME"; caller frees. */
char *workload_key (const WorkloadKind *self, const char *namespace, const char *name);
