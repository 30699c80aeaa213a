/* Which StorageClass shared volumes are made of, by what the caches know: domain/storage_verdict.h. Used by the reconciler of
 * workloads and by storage_readiness.c. Thread-safe; does not block. */
#pragma once

#include "controllers/delivery_caches.h"

typedef struct {
  StorageClassChoice choice;
  GPtrArray *classes; /* private: owns the texts of the choice */
} StorageClassSight;

void storage_class_sight_read (const DeliveryCaches *caches, StorageClassSight *out_sight);
void storage_class_sight_clear (StorageClassSight *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (StorageClassSight, storage_class_sight_clear)
