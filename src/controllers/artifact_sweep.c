#include "base/log.h"
#include "controllers/artifact_registry.h"
#include "controllers/model_work.h"

#define MIN_CHECK_MS 50 /* so many at most: the registry has other things to do */

typedef struct {
  Ctx *ctx;
  ModelController *controller;
  ArtifactRegistry *registry;
  guint n_checked, n_damaged;
  GError *problem; /* ends the pass */
} Sweep;

static void
note_damage (Sweep *self, const ModelOwner *owner, const char *damage)
{
  ModelController *controller = self->controller;
  g_autofree char *key = model_key (owner);
  am_log_warning (self->ctx, "an artifact is damaged", "kind", owner->kind, "namespace", owner->namespace, "name",
                  owner->name, "what", damage, NULL);
  g_mutex_lock (&controller->lock);
  g_hash_table_replace (controller->damaged, g_strdup (owner->uid), g_strdup (damage));
  g_mutex_unlock (&controller->lock);
  self->n_damaged++;
  work_queue_add (controller->queue, key);
}

static void
check_one (const KubeObject *model, gpointer data)
{
  Sweep *self = data;
  yyjson_val *status = kube_object_status (model);
  const char *digest = json_get_string (json_get_object (status, "artifact"), "digest");
  if (self->problem != NULL || g_strcmp0 (json_get_string (status, "phase"), "Ready") != 0 || digest == NULL
      || kube_object_is_deleting (model))
    return;
  ModelOwner owner = model_owner_of (model, kube_object_namespace (model)[0] == '\0');
  g_autofree char *repository = model_repository (&owner), *damage = NULL;
  gint64 began_us = g_get_monotonic_time ();
  if (!artifact_registry_check (self->ctx, self->registry, repository, digest, &damage, &self->problem))
    return;
  self->n_checked++;
  if (damage != NULL)
    note_damage (self, &owner, damage);
  ctx_sleep_ms (self->ctx, MIN_CHECK_MS - (g_get_monotonic_time () - began_us) / 1000, &self->problem);
}

/* A registry that is away proves nothing. */
static gboolean
sweep (Ctx *ctx, ModelController *controller, GError **error)
{
  g_autoptr (ArtifactRegistry) registry = artifact_registry_new (controller->settings, error);
  Sweep self = { .ctx = ctx, .controller = controller, .registry = registry };
  if (registry == NULL)
    return FALSE;
  informer_each (controller->models, check_one, &self);
  informer_each (controller->cluster_models, check_one, &self);
  if (self.problem != NULL)
    {
      g_propagate_error (error, self.problem);
      return FALSE;
    }
  am_log_info (ctx, "artifacts checked", "checked", AM_U64 (self.n_checked), "damaged", AM_U64 (self.n_damaged),
               NULL);
  return TRUE;
}

void
artifact_sweep_run (Ctx *term, ModelController *self)
{
  while (ctx_sleep_ms (term, self->settings->sweep_interval_ms, NULL))
    {
      g_autoptr (GError) error = NULL;
      model_queue_orphans (self);
      if (!sweep (term, self, &error) && ctx_check (term, NULL))
        am_log_warning (term, "artifacts were not checked", "err", error->message, NULL);
    }
}
