/* Which models a workload asks for: names-and-delivery-contract.md, "Reference annotations". Pure. Used by the webhook, which
 * refuses what is wrong, and by the reconciler. */
#pragma once

#include "base/error.h"

#define MODEL_REFERENCES_MAX 64u

typedef struct {
  gboolean is_cluster_wide;
  char *name; /* a DNS-1123 subdomain: also a directory's name */
} ModelReference;

/* From the values of both annotations, either of which may be NULL or blank: first all Models, then all ClusterModels, in
 * their order. An array of ModelReference that its last holder frees, without one when nothing is asked for. INVALID_ARGUMENT
 * (reason InvalidModelReference) names the first bad item: empty, no name, named twice in one list or in both; or says that
 * there are more than MODEL_REFERENCES_MAX. */
GPtrArray *model_references_parse (const char *models, const char *cluster_models, GError **error);
/* The same models in the same order. */
gboolean model_references_equal (const GPtrArray *a, const GPtrArray *b);
