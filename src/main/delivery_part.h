/* The part of `ai-models controller` that delivers models to workloads: starts what is needed of controllers/ and says what of
 * it the leader does. Private to main/. */
#pragma once

#include "controllers/model_metrics.h"
#include "main/controller_options.h"

typedef struct DeliveryPart DeliveryPart;

/* Starts what every replica does. Borrows all but `options`. Errors of http_server_start. */
DeliveryPart *delivery_part_start (Ctx *ctx, KubeClient *client, const ControllerOptions *options,
                                   const ControllerSettings *settings, ModelController *models, GError **error);
void delivery_part_free (DeliveryPart *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DeliveryPart, delivery_part_free)

/* Whether its caches are filled; UNAVAILABLE names one that is not. NULL is ready. */
gboolean delivery_part_is_ready (DeliveryPart *self, GError **error);

/* What the leader does for it. A LeaderFunc. */
gboolean delivery_part_lead (Ctx *term, gpointer self, GError **error);

/* What of it is measured; owned by it. NULL has nothing. */
const MetricsSource *delivery_part_metrics (DeliveryPart *self, gsize *out_n);
