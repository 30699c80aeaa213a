/* What is done to the volume that holds a model: a claim's steps (domain/delivery_claim.h), each of which may be done twice, so that a
 * controller that is killed between two writes goes on by looking. Used by the reconciler of workloads; the collector shares
 * the removals. Everything blocks; errors are those of the API server, ABORTED for what has changed since it was seen. */
#pragma once

#include "controllers/claim_sight.h"

/* For which workload, and from what was seen. */
typedef struct {
  DeliveryCaches *caches;
  MaterializeTurns *turns;
  const ClaimSubject *subject;
  const ClaimSight *seen;
  const KubeObject *workload;
  const WorkloadKind *kind;
  const char *storage_class; /* of a claim that is made */
} ClaimWork;

gboolean claim_act (Ctx *ctx, const ClaimWork *work, ClaimStep step, GError **error);

/* Takes the workload out of the claim's holders; one that was never bound and that nobody else holds is deleted. */
gboolean claim_release (Ctx *ctx, DeliveryCaches *caches, const KubeObject *claim, const char *workload_uid,
                        GError **error);
/* Of KubeObject; the caller unrefs it. */
GPtrArray *claims_held_by (const DeliveryCaches *caches, const char *namespace, const char *workload_uid);

/* Fine when it is gone. */
gboolean claim_patch (Ctx *ctx, KubeClient *client, const KubeObject *claim, yyjson_mut_doc *patch, GError **error);
/* Just this version of it. Fine when it is gone. */
gboolean claim_delete (Ctx *ctx, KubeClient *client, const KubeObject *claim, GError **error);
/* With its Pods, and when those have ended. */
gboolean materialize_job_delete (Ctx *ctx, KubeClient *client, const KubeObject *job, GError **error);
/* The grant, and the Secret for the image. */
gboolean materialize_secrets_delete (Ctx *ctx, KubeClient *client, const char *namespace, const char *claim,
                                     GError **error);
/* A grant from now on, for a Job that is about to be made or that runs. */
gboolean materialize_grant_write (Ctx *ctx, const DeliveryCaches *caches, const ClaimSubject *subject,
                                  const KubeObject *claim, const char *grant_id, GError **error);
