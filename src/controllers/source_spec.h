/* spec.source of a Model or ClusterModel, read: crds.md and publication-pipeline.md, "Source resolution". Pure. */
#pragma once

#include "cluster/module_objects.h"
#include "domain/model_step.h"

typedef struct {
  ModelSourceKind kind;
  const char *type;        /* status.source.resolvedType, as far as it is known; or NULL */
  const char *url;         /* borrowed from the object, as are the next two; or NULL */
  const char *auth_secret; /* in the object's namespace; or NULL */
  const char *catalog;     /* name of the entry; or NULL */
  /* Why nothing of this can be published, for people, and the reason of the condition; NULL: it can. Owned and static. */
  char *problem;
  const char *problem_reason;
} SourceSpec;

void source_spec_read (const KubeObject *model, const ModelOwner *owner, SourceSpec *out_spec);
void source_spec_clear (SourceSpec *self);

/* The token in a Secret: the first of the keys token, HF_TOKEN and HUGGING_FACE_HUB_TOKEN that is not empty. NOT_FOUND, for
 * people, when there is none. Caller frees. */
char *source_token_read (const KubeObject *secret, GError **error);
