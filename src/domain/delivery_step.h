/* What should happen next to a workload that asks for models, from what was observed of it, of the models and of the volumes:
 * delivery-sharedpvc.md "Reconciler", conditions-reasons-events.md "Delivery", decisions.md on GitOps. Pure. Used by the
 * reconciler of workloads, which carries the decision out and looks again.
 *
 * Two rules go through all of it. No Pod may start before its models are whole: a claim that could become what a Pod without
 * a gate waits for is not made before that Pod is gone. And Pods that run are left alone: a template that serves just what is
 * asked for stays, with a report of what is wrong, until it can be replaced by a better one in one change. */
#pragma once

#include "domain/delivery_claim.h"

#define DELIVERY_MESSAGE_BYTES 512 /* of a report, at most */
#define DELIVERY_RECHECK_S 15      /* while a volume is not ready */

typedef enum {
  DELIVERY_TEMPLATE_PLAIN, /* nothing of ours is in it */
  DELIVERY_TEMPLATE_HELD,  /* the gate, and no models */
  DELIVERY_TEMPLATE_SERVING, /* no gate, and the state of just these references, whose claims all serve (claim_serves) */
  DELIVERY_TEMPLATE_OTHER, /* anything else: of other references, of a claim that is gone, forged */
} DeliveryTemplate;

/* One reference. Texts are borrowed. */
typedef struct {
  gboolean is_cluster_wide;
  const char *name;
  gboolean exists, is_ready;
  const char *phase;  /* NULL: none yet */
  const char *digest; /* when it is ready */
  ClaimView claim;    /* the same */
} DeliveryModelView;

typedef struct {
  gboolean is_in_module_namespace, is_deleting, has_finalizer;
  const GError *reference_error; /* of model_references_parse; NULL: they are good */
  const DeliveryModelView *models;
  gsize n_models;
  const GError *spec_error; /* of pod_template_check; NULL: it is good */
  DeliveryTemplate template;
  gboolean is_current; /* all models are ready, and pod_template_deliver would change nothing */
  StorageClassChoice choice;
  guint n_held_claims;    /* that this workload holds, of whatever model */
  gboolean has_open_pods; /* Pods of its own without a gate that have not started, whose claims are not all whole */
  gboolean has_obsolete;  /* revisions from before the template lost its gate, gated for good, or their Pods, Jobs */
  gboolean is_observed;   /* its controller knows the template as it is now, and makes no Pods of an earlier one */
  const char *reported_reason, *reported_message; /* the annotations; NULL: none */
} DeliveryView;

typedef enum {
  DELIVERY_KEEP,
  DELIVERY_HOLD,    /* pod_template_hold */
  DELIVERY_DELIVER, /* pod_template_deliver */
  DELIVERY_CLEAR,   /* pod_template_clear */
} DeliveryForm;

/* Of which of the claims that it holds the workload is taken as a holder. */
typedef enum {
  DELIVERY_RELEASE_NONE,
  DELIVERY_RELEASE_STALE,    /* those that were never bound and are not of the set */
  DELIVERY_RELEASE_UNBOUND,  /* those that were never bound */
  DELIVERY_RELEASE_UNWANTED, /* those that are not of the set */
  DELIVERY_RELEASE_ALL,
} DeliveryRelease;

/* To be carried out in this order: the claims' steps; the workload, in one patch of template, finalizer and report; releases;
 * removals. */
typedef struct {
  ClaimStep *claim_steps; /* one for each model; NULL: none */
  DeliveryForm form;
  gboolean wants_finalizer;
  gboolean changes_report;
  DeliveryReason reason; /* DELIVERY_UNHINDERED: a report is taken away */
  char *message;         /* of the report and the event, at most DELIVERY_MESSAGE_BYTES; NULL: none */
  DeliveryEvent event;
  DeliveryRelease release;
  gboolean removes_open_pods; /* a Deployment's whole ReplicaSets */
  gboolean removes_obsolete;  /* the same */
  guint recheck_s;            /* 0: when something changes */
} DeliveryDecision;

void delivery_decision_clear (DeliveryDecision *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DeliveryDecision, delivery_decision_clear)

void delivery_decide (const DeliveryView *seen, DeliveryDecision *out_decision);
/* Whether a claim that the workload holds is let go of: `is_wanted` when it is one of the set. */
gboolean delivery_releases (DeliveryRelease release, gboolean is_wanted, gboolean was_bound);
