/* The status of a Model or ClusterModel as a document to write: conditions-reasons-events.md and crds.md. Pure. */
#pragma once

#include "cluster/worker_result.h"
#include "domain/model_status.h"
#include "kube/kube_object.h"

/* What the status is to say. Texts are borrowed. */
typedef struct {
  ModelSituation situation;
  const char *reason;      /* of model_status_of; or NULL */
  const char *message;     /* for people: what, and what to do; NULL: the situation's own. Cut at 1024 characters */
  const char *progress;    /* where the situation has none of its own; or NULL */
  const char *source_type; /* status.source.resolvedType; NULL: as it is */
  const char *revision;    /* status.source.resolvedRevision; NULL: as it is */
  const char *upload_secret, *upload_expires; /* of MODEL_AT_WAITING_UPLOAD */
  const WorkerResult *result;                 /* of MODEL_AT_READY when it is not in the status; or NULL */
} StatusWish;

/* The whole object with the status that `wish` means, for an update of its status; NULL when it says so already. Members
 * and conditions that nobody here knows stay; times of conditions change with their status alone. `now` is RFC 3339. The
 * caller frees it. */
yyjson_mut_doc *status_document (const KubeObject *model, const StatusWish *wish, const char *now);

/* Whether a Ready status shows this artifact, and all that comes with it. */
gboolean status_shows_artifact (const KubeObject *model, const char *digest);
/* The condition of a type, or NULL. */
yyjson_val *status_condition (const KubeObject *model, const char *type);
