#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "controllers/artifact_registry.h"
#include "controllers/model_work.h"

#define SHORT_PAUSE_MS 1000

static KubeTarget
cleanup_target (ModelController *self, const char *name)
{
  return (KubeTarget){ .kind = &secret_kind, .namespace = self->settings->namespace, .name = name };
}

/* The cleanup state as it really is; NULL with an error, or without one when there is none. */
static KubeObject *
get_cleanup (ModelWork *work, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autofree char *name = model_object_name (CLEANUP_STATE_PREFIX, work->owner.uid);
  KubeTarget target = cleanup_target (work->controller, name);
  KubeObject *secret = kube_client_get (work->ctx, work->controller->client, &target, &problem);
  if (secret == NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    g_propagate_error (error, g_steal_pointer (&problem));
  return secret;
}

/* Writes `patch` into the cleanup state. */
static gboolean
patch_cleanup (ModelWork *work, yyjson_mut_doc *patch, GError **error)
{
  g_autofree char *name = model_object_name (CLEANUP_STATE_PREFIX, work->owner.uid);
  KubeTarget target = cleanup_target (work->controller, name);
  g_autoptr (KubeObject) stored = kube_client_patch (work->ctx, work->controller->client, &target, KUBE_PATCH_MERGE,
                                                     NULL, patch, error);
  return stored != NULL;
}

/* From here on the artifact cannot be forgotten. */
static gboolean
store_result (ModelWork *work, const WorkerResult *result, GError **error)
{
  ModelController *self = work->controller;
  g_autoptr (GError) problem = NULL;
  g_autoptr (yyjson_mut_doc) patch = cleanup_state_result_patch (&work->owner, self->settings->registry, result);
  if (patch_cleanup (work, patch, &problem))
    return TRUE;
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_autoptr (yyjson_mut_doc) doc = cleanup_state_new (&work->owner);
  return model_create (work->ctx, self, &secret_kind, self->settings->namespace, doc, NULL, error)
         && patch_cleanup (work, patch, error);
}

static gboolean
book (ModelWork *work, const WorkerResult *result, GError **error)
{
  ModelController *self = work->controller;
  g_autofree char *session = model_object_name (UPLOAD_SESSION_PREFIX, work->owner.uid);
  return !self->settings->has_accounting
         || ledger_store_publish (work->ctx, self->ledger_store, &work->owner, session, result->size_bytes,
                                  result->size_bytes, self->settings->capacity_limit_bytes, error);
}

/* It is stored, and does not fit: what is stored is marked for removal, and the model fails. */
static gboolean
refuse (ModelWork *work, const GError *problem, GError **error)
{
  g_autofree char *now = time_text_now ();
  g_autoptr (yyjson_mut_doc) patch = cleanup_state_damage_patch (now);
  g_autofree char *message = g_strdup_printf (
    "%s; delete models that nobody needs, or ask the administrator for more room, "
    "and create the object anew",
    problem->message);
  StatusWish wish = { .situation = MODEL_AT_FAILED,
                      .reason = "InsufficientStorage",
                      .message = message,
                      .source_type = work->source.type };
  if (!patch_cleanup (work, patch, error) || !model_write_status (work, &wish, error))
    return FALSE;
  model_say (work, EVENT_WARNING, "PublicationFailed", "%s", message);
  return TRUE;
}

static void
forget_damage (ModelController *self, const char *uid)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_remove (self->damaged, uid);
}

static gboolean
show_result (ModelWork *work, const WorkerResult *result, gboolean is_new, GError **error)
{
  StatusWish wish = { .situation = MODEL_AT_READY, .result = result };
  g_autofree char *size = text_bytes (result->size_bytes);
  if (!model_write_status (work, &wish, error))
    return FALSE;
  g_atomic_int_set (&work->controller->inventory_is_due, TRUE);
  am_log_info (work->ctx, "ready", "digest", result->digest, "bytes", AM_U64 (result->size_bytes), NULL);
  if (is_new)
    model_say (work, EVENT_NORMAL, "PublicationSucceeded", "%s, %s", result->digest, size);
  return TRUE;
}

/* The result that is written down; FALSE without an error when there is none. */
static gboolean
read_stored (ModelWork *work, WorkerResult *out_result, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (KubeObject) cleanup = get_cleanup (work, &problem);
  if (cleanup != NULL && cleanup_state_read_result (cleanup, out_result, &problem))
    return TRUE;
  if (problem != NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
model_take_result (ModelWork *work, GError **error)
{
  g_auto (WorkerResult) stored = { 0 };
  g_autoptr (GError) problem = NULL;
  const WorkerResult *result = &work->worker.result;
  gboolean is_new = work->worker.state == MODEL_WORKER_SUCCEEDED;
  if (!is_new)
    {
      if (!read_stored (work, &stored, &problem))
        {
          work->again_ms = SHORT_PAUSE_MS; /* the caches are late */
          if (problem != NULL)
            g_propagate_error (error, g_steal_pointer (&problem));
          return error == NULL || *error == NULL;
        }
      result = &stored;
    }
  else if (!store_result (work, result, error))
    return FALSE;
  forget_damage (work->controller, work->owner.uid);
  if (book (work, result, &problem))
    return show_result (work, result, is_new && !work->view.is_ready, error);
  if (is_new && am_error_has_reason (problem, "InsufficientStorage"))
    return refuse (work, problem, error);
  if (!is_new && am_error_has_reason (problem, "InsufficientStorage")) /* it was counted once */
    return show_result (work, result, FALSE, error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
model_publish_again (ModelWork *work, gboolean *out_is_lost, GError **error)
{
  ModelController *self = work->controller;
  g_autoptr (GError) problem = NULL;
  g_autoptr (KubeObject) cleanup = get_cleanup (work, &problem);
  *out_is_lost = FALSE;
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_mutex_lock (&self->lock);
  const char *found = g_hash_table_lookup (self->damaged, work->owner.uid);
  g_autofree char *damage = g_strdup (found);
  g_mutex_unlock (&self->lock);
  *out_is_lost = cleanup == NULL || cleanup_state_digest (cleanup) == NULL || cleanup_state_is_damaged (cleanup)
                 || damage != NULL;
  if (!*out_is_lost || cleanup == NULL || cleanup_state_is_damaged (cleanup))
    return TRUE;
  am_log_warning (work->ctx, "artifact damaged", "what", damage, NULL);
  g_autofree char *now = time_text_now ();
  g_autoptr (yyjson_mut_doc) patch = cleanup_state_damage_patch (now);
  return patch_cleanup (work, patch, error);
}

/* The collector is told that there is something to do: dmcr-gc.md, "Request Secret". */
static gboolean
request_collection (Ctx *ctx, ModelController *self, const ModelOwner *owner, GError **error)
{
  gboolean existed = FALSE;
  g_autofree char *name = model_object_name (GC_REQUEST_PREFIX, owner->uid), *now = time_text_now ();
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  yyjson_mut_obj_add_str (doc, metadata, "name", name);
  model_owner_mark (doc, metadata, owner, GC_REQUEST_APP);
  yyjson_mut_obj_add_str (doc, metadata_map (doc, metadata, "labels"), MODEL_ANNOTATION "dmcr-gc-request", "true");
  yyjson_mut_val *annotations = metadata_map (doc, metadata, "annotations");
  yyjson_mut_obj_add_str (doc, annotations, MODEL_ANNOTATION "dmcr-gc-requested-at", now);
  yyjson_mut_obj_add_str (doc, annotations, MODEL_ANNOTATION "dmcr-gc-phase", "queued");
  if (!model_create (ctx, self, &secret_kind, self->settings->namespace, doc, &existed, error))
    return FALSE;
  if (!existed)
    return TRUE;
  KubeTarget target = cleanup_target (self, name);
  g_autoptr (KubeObject) stored = kube_client_patch (ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, doc, error);
  return stored != NULL;
}

static gboolean
remove_artifact (Ctx *ctx, ModelController *self, const ModelOwner *owner, const char *digest, GError **error)
{
  g_autoptr (ArtifactRegistry) registry = artifact_registry_new (self->settings, error);
  g_autofree char *repository = model_repository (owner);
  return registry != NULL && artifact_registry_remove (ctx, registry, repository, digest, error);
}

/* Before there is a result, a worker may have been started that no cache shows yet. */
static gboolean
end_worker (Ctx *ctx, ModelController *self, const ModelOwner *owner, GError **error)
{
  gboolean is_gone = FALSE;
  if (!model_remove_worker (ctx, self, owner, NULL, &is_gone, error))
    return FALSE;
  return is_gone || am_fail (error, AM_ERROR_ABORTED, NULL, "its worker is not gone yet");
}

gboolean
model_release (Ctx *ctx, ModelController *self, const ModelOwner *owner, const KubeObject *cleanup, GError **error)
{
  g_autofree char *name = model_object_name (CLEANUP_STATE_PREFIX, owner->uid), *now = time_text_now ();
  KubeTarget target = cleanup_target (self, name);
  g_autoptr (yyjson_mut_doc) patch = cleanup_state_completion_patch (now);
  if (cleanup_state_digest (cleanup) == NULL && !end_worker (ctx, self, owner, error))
    return FALSE;
  if (!cleanup_state_is_complete (cleanup))
    {
      if (!remove_artifact (ctx, self, owner, cleanup_state_digest (cleanup), error))
        return FALSE;
      g_autoptr (KubeObject) stored = kube_client_patch (ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, patch,
                                                         error);
      if (stored == NULL)
        return FALSE;
    }
  if (!request_collection (ctx, self, owner, error))
    return FALSE;
  if (self->settings->has_accounting && !ledger_store_forget (ctx, self->ledger_store, owner->uid, error))
    return FALSE;
  am_log_info (ctx, "artifact released", NULL);
  g_atomic_int_set (&self->inventory_is_due, TRUE);
  return kube_client_delete (ctx, self->client, &target, NULL, error);
}
