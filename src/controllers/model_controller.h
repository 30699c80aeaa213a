/* The controller of Models and ClusterModels: observes an object and what there is of it, asks domain/model_step.h what is
 * next, does that, and looks again when something changes. Used by main/. */
#pragma once

#include "cluster/module_objects.h"
#include "controllers/controller_settings.h"
#include "kube/kube_client.h"

typedef struct ModelController ModelController;

/* Starts its caches, on every replica. Borrows `client` and `settings`. */
ModelController *model_controller_new (Ctx *ctx, KubeClient *client, const ControllerSettings *settings);
void model_controller_free (ModelController *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelController, model_controller_free)

/* Whether all caches are filled; UNAVAILABLE names one that is not. */
gboolean model_controller_is_ready (ModelController *self, GError **error);
/* Blocks until they are, or the context ends. */
gboolean model_controller_wait (Ctx *ctx, ModelController *self, GError **error);
/* The work of the leader, until `term` is cancelled; every write is bound to that context. A LeaderFunc. */
gboolean model_controller_lead (Ctx *term, gpointer self, GError **error);

/* The cached object of that kind, namespace and name; NULL when there is none. Caller unrefs. */
KubeObject *model_controller_find (ModelController *self, const ModelOwner *owner);
/* "Model/NAMESPACE/NAME", "ClusterModel//NAME"; caller frees. */
char *model_key (const ModelOwner *owner);

/* A Model or ClusterModel has changed, as InformerConfig.changed; on the thread of a cache. */
typedef void (*ModelChanged) (const KubeObject *before, const KubeObject *now, gboolean is_cluster_wide,
                              gpointer data);
/* Tells one listener from now on; NULL: no more, and it is not being told when this returns. */
void model_controller_listen (ModelController *self, ModelChanged changed, gpointer data);
