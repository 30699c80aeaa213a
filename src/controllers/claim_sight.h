/* What there is of a model in a namespace: its claim, the Job that copies it there, and why neither gets on; as
 * domain/delivery_claim.h wants it. Used by the reconciler of workloads and the webhook. */
#pragma once

#include "controllers/claim_document.h"
#include "controllers/materialize_turns.h"
#include "domain/delivery_claim.h"

typedef struct {
  ClaimView view;                             /* has_open_users is the caller's */
  KubeObject *claim, *job;                    /* as they were seen; NULL: none */
  char *name, *model, *refusal, *job_message; /* texts of the view */
  gboolean is_copying, is_mute;               /* as in MaterializeSight */
  gint64 elapsed_s;
  char *pod_uid;            /* of the Job's newest; NULL: none */
  const char *workload_uid; /* borrowed */
} ClaimSight;

/* From the caches alone; does not block. `workload_uid` NULL: of no workload, nobody holds it then. Always fills it. */
void claim_sight_read (const DeliveryCaches *caches, const ClaimSubject *subject, const char *workload_uid,
                       ClaimSight *out_sight);
/* For who is going to act: what the caches do not tell. Whether something that is not ours has the name of a claim or a Job
 * that is missing; why a claim's provisioner refuses; what keeps a Job from making its Pod, or a Pod from beginning; how
 * far a Job is; and whether it may start (view.has_slot), in whose turn the workload of `key` is interested. Asks the API server only
 * where there is something to be told. Errors are those of its requests. */
gboolean claim_sight_ask (Ctx *ctx, const DeliveryCaches *caches, MaterializeTurns *turns,
                          const ClaimSubject *subject, const char *key, ClaimSight *sight, GError **error);
void claim_sight_clear (ClaimSight *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ClaimSight, claim_sight_clear)
