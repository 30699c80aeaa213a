/* How what delivery makes is called: names-and-delivery-contract.md, delivery-sharedpvc.md "Claim design", "Materializer Job".
 * The words are the contract with users and with what is already in clusters. Pure. Used by the webhook, the reconciler and
 * the materializer. */
#pragma once

#include <glib.h>

#define DELIVERY_WORD "ai.deckhouse.io/" /* what annotations, labels, gates and finalizers begin with */

/* Of the workload. */
#define MODEL_REFERENCE_ANNOTATION DELIVERY_WORD "model"
#define CLUSTER_MODEL_REFERENCE_ANNOTATION DELIVERY_WORD "clustermodel"
#define DELIVERY_BLOCKED_REASON_ANNOTATION DELIVERY_WORD "model-delivery-blocked-reason"
#define DELIVERY_BLOCKED_MESSAGE_ANNOTATION DELIVERY_WORD "model-delivery-blocked-message"
#define DELIVERY_FINALIZER DELIVERY_WORD "model-delivery-cleanup"
#define DELIVERY_GATE DELIVERY_WORD "model-delivery"

/* In its containers. */
#define DELIVERY_CACHE_DIR "/data/modelcache"
#define DELIVERY_MODELS_DIR DELIVERY_CACHE_DIR "/models"
#define DELIVERY_MODELS_DIR_ENV "AI_MODELS_MODELS_DIR"
#define DELIVERY_MODELS_ENV "AI_MODELS_MODELS"
#define DELIVERY_SUBPATH "model" /* of a claim: what the materializer makes appear at once (modelpack.md) */

/* Beginnings of names. */
#define DELIVERY_CLAIM_PREFIX "ai-models-cache-"
#define DELIVERY_JOB_PREFIX "ai-models-materialize-"
#define DELIVERY_GRANT_PREFIX "ai-models-read-grant-"
#define DELIVERY_PULL_PREFIX "ai-models-image-pull-"
#define DELIVERY_VOLUME_PREFIX "ai-models-shared-"
#define NODE_CACHE_VOLUME_PREFIX "ai-models-node-cache-"
#define NODE_CACHE_DRIVER "node-cache.ai-models.deckhouse.io"

/* Prefix and 16 hex digits of the model in the namespace: claim, Job and Secrets of one delivery have the same. Caller
 * frees. */
char *delivery_object_name (const char *prefix, const char *namespace, gboolean is_cluster_wide, const char *model,
                            const char *digest);
/* Of a Pod's volume: the model's name after the prefix, '-' for '.' and '_'; one that was altered or does not fit into 63
 * characters is cut and ends with 10 hex digits of its own. Caller frees. */
char *delivery_volume_name (const char *prefix, const char *model);
/* Where the model lies in a container; caller frees. */
char *delivery_model_path (const char *model);
/* Of a claim: a tenth more than the larger one, at least 1 GiB, at most G_MAXINT64. */
guint64 delivery_claim_bytes (guint64 stored_bytes, guint64 logical_bytes);
