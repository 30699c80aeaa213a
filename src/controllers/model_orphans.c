#include <string.h>

#include "base/log.h"
#include "controllers/model_work.h"

#define N_PARTS 5

/* "Orphan/KIND/NAMESPACE/NAME/UID" */
static char *
orphan_key (const ModelOwner *owner)
{
  return g_strdup_printf (ORPHAN_KEY "/%s/%s/%s/%s", owner->kind, owner->namespace != NULL ? owner->namespace : "",
                          owner->name, owner->uid);
}

void
model_queue_orphan (ModelController *self, const ModelOwner *owner)
{
  g_autofree char *key = orphan_key (owner);
  work_queue_add (self->queue, key);
}

static gboolean
is_there (ModelController *self, const ModelOwner *owner)
{
  g_autoptr (KubeObject) object = model_controller_find (self, owner);
  return object != NULL && strcmp (kube_object_uid (object), owner->uid) == 0;
}

static void
queue_if_orphan (const KubeObject *part, gpointer data)
{
  ModelOwner owner;
  if (model_owner_read (part, &owner) && !is_there (data, &owner))
    model_queue_orphan (data, &owner);
}

void
model_queue_orphans (ModelController *self)
{
  informer_each (self->pods, queue_if_orphan, self);
  informer_each (self->secrets, queue_if_orphan, self);
}

/* The cache may be late: only the API server knows that an owner is gone. */
static gboolean
check_gone (Ctx *ctx, ModelController *self, const ModelOwner *owner, gboolean *out_is_gone, GError **error)
{
  g_autoptr (GError) problem = NULL;
  KubeTarget target = { .kind = owner->namespace != NULL ? &model_kind : &cluster_model_kind,
                        .namespace = owner->namespace,
                        .name = owner->name };
  g_autoptr (KubeObject) object = kube_client_get (ctx, self->client, &target, &problem);
  *out_is_gone = object == NULL || strcmp (kube_object_uid (object), owner->uid) != 0;
  if (object != NULL || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

/* The same as for an object that is being deleted: first nothing runs, then what is stored goes. */
static gboolean
clear_up (Ctx *ctx, ModelController *self, const ModelOwner *owner, gboolean *out_is_done, GError **error)
{
  const char *namespace = self->settings->namespace;
  gboolean is_worker_gone = TRUE;
  g_autofree char *pod_name = model_object_name (WORKER_PREFIX, owner->uid);
  g_autofree char *state_name = model_object_name (WORKER_STATE_PREFIX, owner->uid);
  g_autofree char *session_name = model_object_name (UPLOAD_SESSION_PREFIX, owner->uid);
  g_autofree char *cleanup_name = model_object_name (CLEANUP_STATE_PREFIX, owner->uid);
  g_autoptr (KubeObject) pod = informer_get (self->pods, namespace, pod_name);
  g_autoptr (KubeObject) state = informer_get (self->secrets, namespace, state_name);
  g_autoptr (KubeObject) session = informer_get (self->secrets, namespace, session_name);
  g_autoptr (KubeObject) cleanup = informer_get (self->secrets, namespace, cleanup_name);
  *out_is_done = pod == NULL && state == NULL && session == NULL && cleanup == NULL;
  if (*out_is_done)
    return TRUE;
  am_log_info (ctx, "its owner is gone: removing what is left", NULL);
  if ((pod != NULL || state != NULL) && !model_remove_worker (ctx, self, owner, pod, &is_worker_gone, error))
    return FALSE;
  if (!is_worker_gone)
    return TRUE;
  if (session != NULL && !model_remove_upload (ctx, self, owner, error))
    return FALSE;
  if (cleanup != NULL && !model_release (ctx, self, owner, cleanup, error))
    return FALSE;
  *out_is_done = TRUE;
  return TRUE;
}

gboolean
model_reconcile_orphan (Ctx *term, ModelController *self, const char *key, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (key, "/", N_PARTS);
  gboolean is_gone = FALSE, is_done = FALSE;
  if (g_strv_length (parts) != N_PARTS)
    return TRUE;
  ModelOwner owner = { parts[1], parts[3], parts[2][0] != '\0' ? parts[2] : NULL, parts[4] };
  g_autoptr (Ctx) ctx = ctx_new_child (term, 2 * 60 * 1000);
  ctx_set_field (ctx, "kind", owner.kind);
  ctx_set_field (ctx, "namespace", parts[2]);
  ctx_set_field (ctx, "name", owner.name);
  if (is_there (self, &owner) || !check_gone (ctx, self, &owner, &is_gone, error))
    return is_there (self, &owner);
  if (!is_gone)
    return TRUE;
  if (!clear_up (ctx, self, &owner, &is_done, error))
    return FALSE;
  if (!is_done) /* its Pod ends */
    work_queue_add_after (self->queue, key, 2000);
  return TRUE;
}
