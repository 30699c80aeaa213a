#include "base/log.h"
#include "controllers/model_work.h"
#include "controllers/worker_pod.h"

#define SHORT_PAUSE_MS 1000

/* The object as it really is, before anything that must not happen twice. FALSE in `out_is_same`: it is another than was
 * looked at. */
static gboolean
refresh (ModelWork *work, gboolean *out_is_same, GError **error)
{
  KubeTarget target = { .kind = work->kind, .namespace = work->owner.namespace, .name = work->owner.name };
  *out_is_same = TRUE;
  if (work->is_live)
    return TRUE;
  g_autoptr (KubeObject) now = kube_client_get (work->ctx, work->controller->client, &target, error);
  if (now == NULL)
    return FALSE;
  *out_is_same = g_strcmp0 (kube_object_resource_version (now), kube_object_resource_version (work->object)) == 0;
  if (g_strcmp0 (kube_object_uid (now), work->owner.uid) != 0)
    return am_fail (error, AM_ERROR_ABORTED, NULL, "another object has its name now");
  model_work_replace (work, g_steal_pointer (&now));
  return TRUE;
}

/* The copy of the token, as it is now. */
static gboolean
put_token (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  gboolean existed = FALSE;
  if (work->token == NULL)
    return TRUE;
  g_autoptr (yyjson_mut_doc) doc = worker_auth_document (&work->owner, work->token);
  if (!model_create (work->ctx, self, &secret_kind, self->settings->namespace, doc, &existed, error))
    return FALSE;
  if (!existed)
    return TRUE;
  g_autofree char *name = model_object_name (WORKER_AUTH_PREFIX, work->owner.uid);
  KubeTarget target = { .kind = &secret_kind, .namespace = self->settings->namespace, .name = name };
  g_autoptr (KubeObject) stored = kube_client_patch (work->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, doc,
                                                     error);
  return stored != NULL;
}

/* What the worker needs beside its Pod, which waits for its state and rights (publish/worker_steps.c) and does nothing
 * meanwhile: so the Pod may come first, and be on its way to a node. The cleanup state comes first and goes last; the worker's
 * state comes first and goes last of the worker's: whoever sees one of them knows that there may be others. */
static gboolean
prepare (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  const ControllerSettings *settings = self->settings;
  const char *namespace = settings->namespace;
  g_autoptr (yyjson_mut_doc) cleanup = cleanup_state_new (&work->owner);
  g_autoptr (yyjson_mut_doc) state = worker_state_document (&work->owner, kube_object_generation (work->object));
  g_autoptr (yyjson_mut_doc) role = worker_role_document (settings, &work->owner);
  g_autoptr (yyjson_mut_doc) binding = worker_role_binding_document (settings, &work->owner);
  return (work->cleanup_secret != NULL
          || model_create (work->ctx, self, &secret_kind, namespace, cleanup, NULL, error))
         && (work->state_secret != NULL
             || model_create (work->ctx, self, &secret_kind, namespace, state, NULL, error))
         && model_create (work->ctx, self, &role_kind, namespace, role, NULL, error)
         && model_create (work->ctx, self, &role_binding_kind, namespace, binding, NULL, error);
}

/* What keeps a Pod from being made at all is told; it is tried again. */
static gboolean
create_pod (ModelWork *work, const WorkerJob *job, gboolean *out_existed, GError **error)
{
  ModelController *self = work->controller;
  g_autoptr (GError) problem = NULL;
  g_autoptr (yyjson_mut_doc) pod = worker_pod_document (self->settings, job);
  if (model_create (work->ctx, self, &pod_kind, self->settings->namespace, pod, out_existed, &problem))
    return TRUE;
  if (am_error_is (problem, AM_ERROR_PERMISSION_DENIED) || am_error_is (problem, AM_ERROR_INVALID_ARGUMENT))
    {
      StatusWish wish = { .situation = MODEL_AT_QUEUED, .source_type = work->source.type };
      g_autofree char *words = g_strdup_printf (
        "the worker cannot be started, which is tried again; the administrator "
        "has to mend it: %.600s",
        problem->message);
      wish.message = words;
      if (!model_write_status (work, &wish, error))
        return FALSE;
    }
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
model_admit_worker (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  if (!prepare (work, error))
    return FALSE;
  am_log_info (work->ctx, "worker admitted", NULL);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_add (self->admitted, g_strdup (kube_object_uid (work->pod)));
  return TRUE;
}

gboolean
model_is_admitted (const ModelWork *work)
{
  ModelController *self = work->controller;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return work->pod != NULL && g_hash_table_contains (self->admitted, kube_object_uid (work->pod));
}

void
model_forget_admission (ModelController *self, const KubeObject *pod)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_remove (self->admitted, kube_object_uid (pod));
}

gboolean
model_start_worker (ModelWork *work, gboolean *out_started, GError **error)
{
  gboolean is_same = FALSE, existed = FALSE;
  *out_started = FALSE;
  if (!refresh (work, &is_same, error))
    return FALSE;
  if (!is_same) /* the cache is late: look again at what is */
    return TRUE;
  if (!put_token (work, error) || (work->upload != NULL && !model_start_upload (work, error)))
    return FALSE;
  yyjson_val *source = json_get_object (kube_object_status (work->object), "source");
  WorkerJob job = {
    .owner = work->owner,
    .generation = kube_object_generation (work->object),
    .url = work->source.url,
    .revision = json_get_string (source, "resolvedRevision"),
    .has_token = work->token != NULL,
    .staged_file = work->upload != NULL ? work->upload->staged_file : NULL,
  };
  if (!create_pod (work, &job, &existed, error))
    return FALSE;
  am_log_info (work->ctx, existed ? "worker is there" : "worker started", NULL);
  *out_started = TRUE;
  return TRUE;
}

/* Keeps that the worker was interrupted. FALSE in `out_is_seen`: the caches do not show it yet, and that comes as a change. */
static gboolean
keep_interruption (ModelWork *work, gboolean *out_is_seen, GError **error)
{
  ModelController *self = work->controller;
  g_autoptr (GError) problem = NULL;
  WorkerRestarts next = worker_restarts_next (&work->restarts, kube_object_uid (work->pod),
                                              work->progress.uploaded_size_bytes, work->worker.message,
                                              g_get_real_time () / 1000);
  *out_is_seen = next.n_in_a_row == work->restarts.n_in_a_row && next.at_ms == work->restarts.at_ms;
  if (*out_is_seen)
    return TRUE;
  g_autofree char *state = model_object_name (WORKER_STATE_PREFIX, work->owner.uid);
  KubeTarget target = { .kind = &secret_kind, .namespace = self->settings->namespace, .name = state };
  g_autoptr (yyjson_mut_doc) patch = worker_restarts_patch (&next);
  g_autoptr (KubeObject) stored = kube_client_patch (work->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, patch,
                                                     &problem);
  if (stored != NULL)
    am_log_info (work->ctx, "worker interrupted", "why", work->worker.message, NULL);
  else if (am_error_is (problem, AM_ERROR_NOT_FOUND)) /* nothing to pause for */
    *out_is_seen = TRUE;
  else
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return TRUE;
}

gboolean
model_restart_worker (ModelWork *work, GError **error)
{
  gboolean is_seen = FALSE;
  /* One that ended before it was let begin leaves a count, too. */
  if (!model_is_admitted (work) && !model_admit_worker (work, error))
    return FALSE;
  if (!keep_interruption (work, &is_seen, error))
    return FALSE;
  if (!is_seen) /* whoever sees that the Pod is gone must see the pause */
    {
      work->again_ms = UNSEEN_AGAIN_MS;
      return TRUE;
    }
  KubeTarget pod = { .kind = &pod_kind,
                     .namespace = work->controller->settings->namespace,
                     .name = kube_object_name (work->pod) };
  KubeDeleteOptions options = { .uid = kube_object_uid (work->pod), .grace_period_s = -1 };
  return kube_client_delete (work->ctx, work->controller->client, &pod, &options, error);
}

/* Only once no Pod can use them any more. */
static gboolean
remove_helpers (Ctx *ctx, ModelController *self, const ModelOwner *owner, GError **error)
{
  const char *namespace = self->settings->namespace;
  return model_delete (ctx, self, &role_binding_kind, namespace, WORKER_PREFIX, owner->uid, error)
         && model_delete (ctx, self, &role_kind, namespace, WORKER_PREFIX, owner->uid, error)
         && model_delete (ctx, self, &secret_kind, namespace, WORKER_AUTH_PREFIX, owner->uid, error)
         && model_delete (ctx, self, &secret_kind, namespace, WORKER_STATE_PREFIX, owner->uid, error);
}

gboolean
model_remove_worker (Ctx *ctx, ModelController *self, const ModelOwner *owner, const KubeObject *pod,
                     gboolean *out_is_gone, GError **error)
{
  g_autofree char *name = model_object_name (WORKER_PREFIX, owner->uid);
  KubeTarget target = { .kind = &pod_kind, .namespace = self->settings->namespace, .name = name };
  g_autoptr (KubeObject) unseen = NULL;
  *out_is_gone = FALSE;
  if (pod != NULL) /* its end comes as a change */
    return kube_object_is_deleting (pod) || kube_client_delete (ctx, self->client, &target, NULL, error);
  if (!kube_client_find (ctx, self->client, &target, &unseen, error))
    return FALSE;
  if (unseen != NULL)
    return kube_client_delete (ctx, self->client, &target, NULL, error);
  worker_slots_set (self->slots, name, FALSE);
  *out_is_gone = TRUE;
  return remove_helpers (ctx, self, owner, error);
}
