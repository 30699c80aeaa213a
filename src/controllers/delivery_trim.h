/* What the caches of delivery keep of objects, and how they find them (delivery_caches.h). Pure. */
#pragma once

#include "controllers/workload_kinds.h"

/* Takes out of an object what is not read from a cache: KubeTrim. */
void workload_trim (yyjson_mut_val *root);
void replica_set_trim (yyjson_mut_val *root);
void pending_pod_trim (yyjson_mut_val *root);

/* Values under which they are found: InformerValues. */
void workload_index (const KubeObject *workload, GPtrArray *out_values);
void replica_set_index (const KubeObject *set, GPtrArray *out_values);
void pending_pod_index (const KubeObject *pod, GPtrArray *out_values);
void claim_index (const KubeObject *claim, GPtrArray *out_values);
void owners_index (const KubeObject *object, GPtrArray *out_values);

/* The name of a claim of ours that a volume of a Pod or template is of; NULL: none. */
const char *volume_model_claim (yyjson_mut_val *volume);
/* The Pod was made by a Job that copies a model. */
gboolean pod_is_of_materializer (const KubeObject *pod);
