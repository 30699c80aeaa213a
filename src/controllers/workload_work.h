/* What the parts of the reconciler of workloads share: its own state, and one look at one workload. Private to this folder. */
#pragma once

#include "controllers/claim_sight.h"
#include "controllers/claim_work.h"
#include "controllers/delivery_caches.h"
#include "controllers/delivery_controller.h"
#include "controllers/delivery_plan.h"
#include "controllers/materialize_turns.h"
#include "controllers/storage_class_sight.h"
#include "domain/delivery_step.h"
#include "kube/event_recorder.h"
#include "kube/work_queue.h"

struct DeliveryController {
  Ctx *ctx;
  DeliveryCaches *caches;
  EventRecorder *events;
  WorkQueue *queue;
  MaterializeTurns *turns;
  gint is_leading;
};

/* What one reference leads to. */
typedef struct {
  DeliveryModelFacts facts;
  ClaimSubject subject; /* borrowed from the facts; while the model is ready */
  ClaimSight sight;     /* the same */
} WorkloadModel;

/* Something that would start Pods which must not start, or that waits for good. */
typedef struct {
  const KubeKind *kind;
  char *name, *uid;
  gboolean is_open; /* of both kinds of removal, this one; otherwise it is obsolete */
} WorkloadRemoval;

/* One look at one workload. Objects are references, texts owned unless said otherwise. */
typedef struct {
  Ctx *ctx;
  DeliveryController *controller;
  const char *key; /* in the queue */
  const WorkloadKind *kind;
  KubeObject *object;
  gboolean is_live;     /* it came from the API server, not from the cache */
  gboolean has_renewed; /* so did its claims (workload_renew_claims) */

  GPtrArray *references; /* NULL: they are bad */
  GError *reference_error, *spec_error;
  WorkloadModel *models;
  DeliveryModelView *views; /* of each reference */
  PodTemplatePlan *plan;    /* once all are ready */
  StorageClassSight class;  /* which the view borrows from */
  GPtrArray *held;          /* claims that it holds */
  GArray *removals;         /* of WorkloadRemoval */

  DeliveryView view;
  gint64 again_ms; /* look again then even though nothing changes; 0: no need */
} WorkloadWork;

/* workload_observe.c: fills what belongs to the object; may be called again after that was replaced. FALSE with an error of the
 * API server. */
gboolean workload_observe (WorkloadWork *work, GError **error);
void workload_work_clear (WorkloadWork *work);
/* Takes a newer state of the object, and the reference. */
void workload_work_replace (WorkloadWork *work, KubeObject *object);
/* Whether Pods would be held back or removed that another replica, whose caches knew more, may have let start; what the claims of
 * its models are like is then to be asked of the API server first, and observed and decided again. Once in a look. */
gboolean workload_must_renew (const WorkloadWork *work, const DeliveryDecision *decision);
gboolean workload_renew_claims (WorkloadWork *work, GError **error);
/* Whether a claim that it holds is let go of. */
gboolean workload_releases (const WorkloadWork *work, const DeliveryDecision *decision, const KubeObject *claim);

/* workload_pods.c: what its Pods and revisions are, into view and removals. `template_is_current`: obsolete ones are asked for. */
gboolean workload_view_pods (WorkloadWork *work, GError **error);
/* Whether something but this workload would start Pods with the claim, without a gate. */
gboolean claim_has_open_users (const DeliveryCaches *caches, const char *namespace, const char *claim,
                               const char *workload_uid);

/* workload_act.c: whether there is something to do; and all of it, in the order of delivery_step.h. `*out_again` when the object
 * was written and should be looked at again at once. */
gboolean workload_is_idle (const WorkloadWork *work, const DeliveryDecision *decision);
gboolean workload_act (WorkloadWork *work, const DeliveryDecision *decision, gboolean *out_again, GError **error);
/* Says that something of the API failed, unless that passes by itself. */
void workload_say_failed (const WorkloadWork *work, const GError *problem);
