/* The module's own check of what delivery needs of the cluster, delivery-sharedpvc.md "Storage readiness check": on every
 * replica, whoever leads, and whatever models and workloads there are. Told by a metric and by log lines "storage-readiness";
 * nothing depends on it. Used by main/. Thread-safe. */
#pragma once

#include "controllers/delivery_caches.h"

typedef struct StorageReadiness StorageReadiness;

/* Checks and logs as soon as the StorageClasses are known, or that they are not known after a while, and from then on now and
 * then, on a thread of its own until it is freed. Borrows `caches`. */
StorageReadiness *storage_readiness_start (Ctx *ctx, const DeliveryCaches *caches);
void storage_readiness_free (StorageReadiness *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (StorageReadiness, storage_readiness_free)

/* Checks, and adds the metric: one series. `self` is a StorageReadiness; a MetricsSource (model_metrics.h). */
void storage_readiness_append (gpointer self, GString *out);
