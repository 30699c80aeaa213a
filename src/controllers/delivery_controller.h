/* The controller of workloads that ask for models: observes a workload and what there is for it, asks domain/delivery_step.h
 * what is next, does that, and looks again when something changes. Used by main/. */
#pragma once

#include "controllers/delivery_caches.h"

typedef struct DeliveryController DeliveryController;

/* Borrows the caches. */
DeliveryController *delivery_controller_new (Ctx *ctx, DeliveryCaches *caches);
/* Before the caches are freed. */
void delivery_controller_free (DeliveryController *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DeliveryController, delivery_controller_free)

/* Of copies to volumes (materialize_metrics.h): MetricsSource.append; `self` is a DeliveryController. */
void delivery_controller_append_metrics (gpointer self, GString *out);

/* The work of the leader, until `term` is cancelled; every write is bound to that context. A LeaderFunc. */
gboolean delivery_controller_lead (Ctx *term, gpointer self, GError **error);
