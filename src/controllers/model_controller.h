/* The controller of Models and ClusterModels: observes an object and what there is of it, asks domain/model_step.h what is
 * next, does that, and looks again when something changes. Used by main/. */
#pragma once

#include "controllers/controller_settings.h"
#include "kube/kube_client.h"

typedef struct ModelController ModelController;

/* Starts its caches, on every replica. Borrows `client` and `settings`. */
ModelController *model_controller_new (Ctx *ctx, KubeClient *client, const ControllerSettings *settings);
void model_controller_free (ModelController *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelController, model_controller_free)

/* Whether all caches are filled; UNAVAILABLE names one that is not. */
gboolean model_controller_is_ready (ModelController *self, GError **error);
/* The work of the leader, until `term` is cancelled; every write is bound to that context. A LeaderFunc. */
gboolean model_controller_lead (Ctx *term, gpointer self, GError **error);
