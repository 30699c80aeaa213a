/* What delivery reads instead of asking the API server: workloads, what Kubernetes makes of them, and the volumes, Jobs and
 * StorageClasses of models. Kept on every replica, since the webhook reads it too. Thread-safe. */
#pragma once

#include "controllers/materialize_job.h"
#include "controllers/model_controller.h"
#include "controllers/workload_kinds.h"
#include "kube/informer.h"

typedef enum {
  DELIVERY_CACHE_WORKLOADS, /* and those of the other kinds */
  DELIVERY_CACHE_REPLICA_SETS = WORKLOAD_N_KINDS,
  DELIVERY_CACHE_PENDING_PODS,
  DELIVERY_CACHE_CLAIMS,
  DELIVERY_CACHE_JOBS,
  DELIVERY_CACHE_JOB_PODS,
  DELIVERY_CACHE_STORAGE_CLASSES,
} DeliveryCache;
#define DELIVERY_N_CACHES 10

/* On the thread of that cache, after it has changed, as InformerConfig.changed. `cache` below WORKLOAD_N_KINDS is the kind. */
typedef void (*DeliveryChanged) (DeliveryCache cache, const KubeObject *before, const KubeObject *now, gpointer data);

typedef struct DeliveryCaches DeliveryCaches;

/* Found by index: workloads by what model_key says of a Model that they ask for, "NAMESPACE/CLAIM" of a claim of ours that
 * their template names, WORKLOADS_BLOCKED and workloads_in; ReplicaSets by their controller's uid and by "NAMESPACE/CLAIM"
 * when they would make Pods with it without a gate; pending Pods by their controller's uid, by "NAMESPACE/CLAIM", and those
 * of Jobs, but for materializers', by workloads_in; claims whose names fit what they say, by the uids of all their owners and
 * CLAIMS_UNSETTLED; Pods of materializers by the uid of their Job. Objects lack what nobody reads of them here: a workload
 * without a reference and with nothing of ours has little but its name. */
struct DeliveryCaches {
  Ctx *ctx;
  KubeClient *client;
  const ControllerSettings *settings;
  ModelController *models;
  Informer *workloads[WORKLOAD_N_KINDS];
  Informer *replica_sets, *pending_pods, *claims, *jobs, *job_pods, *storage_classes;
  gpointer listeners; /* private */
};

#define WORKLOADS_BLOCKED "blocked"  /* with a report */
#define CLAIMS_UNSETTLED "unsettled" /* that are not whole, go, or are held by nobody */

/* Starts them. Borrows all of it. */
DeliveryCaches *delivery_caches_new (Ctx *ctx, KubeClient *client, const ControllerSettings *settings,
                                     ModelController *models);
void delivery_caches_free (DeliveryCaches *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DeliveryCaches, delivery_caches_free)

/* What changed before is not told; what changes after delivery_caches_free began neither. `changed` NULL: the listener with
 * that data is not told any more, nor being told when this returns. */
void delivery_caches_listen (DeliveryCaches *self, DeliveryChanged changed, gpointer data);
/* Whether all are filled; UNAVAILABLE names one that is not. */
gboolean delivery_caches_are_ready (DeliveryCaches *self, GError **error);
/* Blocks until they are, or the context ends. */
gboolean delivery_caches_wait (Ctx *ctx, DeliveryCaches *self, GError **error);

/* The value under which workloads of ours in a namespace are found; caller frees. */
char *workloads_in (const char *namespace);
/* Whether a cached or live workload asks for models or has anything of ours. */
gboolean workload_is_ours (const KubeObject *workload);

/* What a reference leads to. */
typedef struct {
  gboolean exists, is_ready;
  char *phase; /* NULL: none yet; as are those below while it is not ready */
  char *digest, *repository, *family, *uri;
  guint64 size_bytes; /* of the files; 0: not known */
} DeliveryModelFacts;

/* Always fills it; whether the model exists. */
gboolean delivery_model_read (const DeliveryCaches *self, const char *namespace, const ModelReference *reference,
                              DeliveryModelFacts *out_facts);
void delivery_model_facts_clear (DeliveryModelFacts *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DeliveryModelFacts, delivery_model_facts_clear)
