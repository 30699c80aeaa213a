#include <string.h>

#include "base/log.h"
#include "controllers/model_work.h"

#define UNFINISHED_MS 2000 /* a Pod ends */

static void
free_uids (gpointer data)
{
  g_hash_table_unref (data);
}

GHashTable *
model_orphans_new (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_uids);
}

static void
remember (ModelController *self, const char *key, const char *uid)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  GHashTable *uids = g_hash_table_lookup (self->orphans, key);
  if (uids == NULL)
    {
      uids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      g_hash_table_insert (self->orphans, g_strdup (key), uids);
    }
  g_hash_table_add (uids, g_strdup (uid));
}

void
model_queue_orphan (ModelController *self, const ModelOwner *owner)
{
  g_autofree char *key = model_key (owner);
  remember (self, key, owner->uid);
  work_queue_add (self->queue, key);
}

/* One uid that is to be looked at under this key, taken out; NULL when there is none. Caller frees. */
static char *
take_uid (ModelController *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  GHashTable *uids = g_hash_table_lookup (self->orphans, key);
  GHashTableIter iter;
  gpointer uid = NULL;
  if (uids == NULL)
    return NULL;
  g_hash_table_iter_init (&iter, uids);
  if (!g_hash_table_iter_next (&iter, &uid, NULL))
    {
      g_hash_table_remove (self->orphans, key);
      return NULL;
    }
  g_hash_table_iter_steal (&iter);
  return uid;
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
  g_autoptr (KubeObject) object = NULL;
  KubeTarget target = { .kind = owner->namespace != NULL ? &model_kind : &cluster_model_kind,
                        .namespace = owner->namespace,
                        .name = owner->name };
  gboolean is_known = kube_client_find (ctx, self->client, &target, &object, error);
  *out_is_gone = object == NULL || strcmp (kube_object_uid (object), owner->uid) != 0;
  return is_known;
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

static gboolean
reconcile_one (Ctx *ctx, ModelController *self, const ModelOwner *owner, gboolean *out_is_done, GError **error)
{
  gboolean is_gone = FALSE;
  *out_is_done = TRUE;
  if (is_there (self, owner))
    return TRUE;
  if (!check_gone (ctx, self, owner, &is_gone, error))
    return FALSE;
  return !is_gone || clear_up (ctx, self, owner, out_is_done, error);
}

gboolean
model_reconcile_orphans (Ctx *ctx, ModelController *self, const char *key, const ModelOwner *named,
                         gint64 *out_again_ms, GError **error)
{
  g_autoptr (GPtrArray) unfinished = g_ptr_array_new_with_free_func (g_free);
  gboolean done = TRUE;
  for (char *uid; done && (uid = take_uid (self, key)) != NULL;)
    {
      ModelOwner owner = { named->kind, named->name, named->namespace, uid };
      gboolean is_finished = FALSE;
      done = reconcile_one (ctx, self, &owner, &is_finished, error);
      if (done && is_finished)
        g_free (uid);
      else
        g_ptr_array_add (unfinished, uid);
    }
  for (guint i = 0; i < unfinished->len; i++)
    remember (self, key, unfinished->pdata[i]);
  if (unfinished->len > 0)
    *out_again_ms = UNFINISHED_MS;
  return done;
}
