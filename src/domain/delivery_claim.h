/* What should happen next to the volume that holds one model in one namespace: its claim, and the Job that copies the model
 * there; delivery-sharedpvc.md, "Claim state machine", "Materializer Job". And when a claim that nobody holds is removed.
 * Pure. Used by the reconciler of workloads, through delivery_step.h, and by the collector of claims. */
#pragma once

#include "domain/delivery_reason.h"
#include "domain/storage_verdict.h"

#define CLAIM_PROVISIONING_S (10 * 60) /* silence of the provisioner that is no trouble yet */
#define CLAIM_GRACE_S (10 * 60)        /* a claim that nobody holds is kept for this long */
#define MATERIALIZER_RETRY_S (5 * 60)  /* after its failure; as long as Kubernetes keeps a finished Job */

typedef enum { CLAIM_ABSENT, CLAIM_PENDING, CLAIM_BOUND, CLAIM_LOST } ClaimPhase;
typedef enum {
  MATERIALIZER_ABSENT,
  MATERIALIZER_RUNNING,
  MATERIALIZER_SUCCEEDED,
  MATERIALIZER_FAILED
} MaterializerState;

/* Texts are borrowed. */
typedef struct {
  const char *model, *name; /* "minilm", and the claim's name */
  ClaimPhase phase;
  gboolean is_deleting;
  gboolean is_ours;        /* it has the labels that we give */
  gboolean is_shared;      /* it may be mounted by many nodes: ReadWriteMany */
  gboolean is_held;        /* by this workload */
  gboolean is_whole;       /* the controller wrote that the model's digest is there */
  gboolean has_open_users; /* something but this workload would start Pods with the claim, without a gate */
  const char *storage_class;
  const char *refusal; /* newest Warning event of a provisioner about just this claim; NULL */
  gint64 age_s;

  MaterializerState job;
  gboolean job_is_older;   /* it was made for an earlier claim of this name */
  gint64 job_ended_ago_s;  /* when it failed */
  const char *job_message; /* why it failed, or what it waits for, or how far it is; NULL */
  gboolean has_slot;       /* the queue lets a Job start (materialize_queue.h) */
} ClaimView;

typedef enum {
  CLAIM_STEP_NONE,
  CLAIM_STEP_CREATE,     /* with this workload as its holder */
  CLAIM_STEP_HOLD,       /* add this workload to its holders */
  CLAIM_STEP_REMOVE,     /* it was never bound */
  CLAIM_STEP_START_JOB,  /* with its Secrets */
  CLAIM_STEP_REMOVE_JOB, /* with its Pods and Secrets; the next look starts another */
  CLAIM_STEP_MARK,       /* remove the Job's Secrets, then write that it is whole */
} ClaimStep;

typedef struct {
  ClaimStep step;
  DeliveryReason reason; /* DELIVERY_UNHINDERED: the model is there */
  char *message;         /* NULL then */
} ClaimDecision;

void claim_decision_clear (ClaimDecision *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ClaimDecision, claim_decision_clear)

void claim_decide (const ClaimView *seen, const StorageClassChoice *choice, ClaimDecision *out_decision);
/* How far a copy is, as a ClaimView's job_message: "1.2 GB of 4.8 GB, about 3 min left". `read_bytes` is what was read for it in the
 * `elapsed_s` since it began: less than what is there already when another Job had begun it. Caller frees. */
char *claim_copy_progress (guint64 read_bytes, guint64 size_bytes, gint64 elapsed_s);
/* Whether Pods without a gate may be left to a claim: whenever they can mount it, it is whole. */
gboolean claim_serves (const ClaimView *seen);

/* A claim as the collector sees it. */
typedef struct {
  ClaimPhase phase;
  gboolean is_deleting;
  guint n_holders;
  gboolean is_in_use; /* by Pods other than those of its Job */
  gint64 released_s;  /* since when it has been written to be without a holder; 0: it is not */
} ClaimUse;

typedef enum {
  CLAIM_KEEP,
  CLAIM_WRITE_RELEASED, /* now */
  CLAIM_CLEAR_RELEASED,
  CLAIM_DELETE,
} ClaimFate;

ClaimFate claim_fate (const ClaimUse *use, gint64 now_s);
