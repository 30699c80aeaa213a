#include "controllers/model_controller.h"

#include <string.h>

#include "base/log.h"
#include "controllers/model_work.h"
#include "controllers/reconcile_loop.h"

#define N_RECONCILERS 8
#define LOOK_TIMEOUT_MS (2 * 60 * 1000)
#define MAX_STEPS 8 /* in one look; the next look goes on */
#define FIRST_PAUSE_MS 5000
#define MAX_PAUSE_MS (5 * 60 * 1000)
#define COMPONENT "ai-models-controller"

#define SECRETS APP_LABEL " in (" WORKER_APP "," WORKER_STATE_APP "," UPLOAD_SESSION_APP "," CLEANUP_STATE_APP ")"

char *
model_key (const ModelOwner *owner)
{
  return g_strdup_printf ("%s/%s/%s", owner->kind, owner->namespace != NULL ? owner->namespace : "", owner->name);
}

static void
enqueue (ModelController *self, const ModelOwner *owner)
{
  g_autofree char *key = model_key (owner);
  if (g_atomic_int_get (&self->is_leading))
    work_queue_add (self->queue, key);
}

/* Of many that come at once each gets its Pod, which takes its time to start, before any gets more. */
static void
enqueue_new (ModelController *self, const ModelOwner *owner)
{
  g_autofree char *key = model_key (owner);
  if (g_atomic_int_get (&self->is_leading))
    work_queue_add_first (self->queue, key);
}

static gboolean
is_new (const KubeObject *before, const KubeObject *now)
{
  return before == NULL && now != NULL && kube_object_status (now) == NULL;
}

static gboolean
is_stored (const KubeObject *model)
{
  return model != NULL && json_get_object (kube_object_status (model), "artifact") != NULL;
}

static void
tell_listener (ModelController *self, const KubeObject *before, const KubeObject *now, gboolean is_cluster_wide)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->listener_lock);
  if (self->listener != NULL)
    self->listener (before, now, is_cluster_wide, self->listener_data);
}

void
model_controller_listen (ModelController *self, ModelChanged changed, gpointer data)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->listener_lock);
  self->listener = changed;
  self->listener_data = data;
}

/* A Model or ClusterModel has changed. */
static void
model_changed (const KubeObject *before, const KubeObject *now, gpointer data, gboolean is_cluster_wide)
{
  ModelController *self = data;
  ModelOwner owner = model_owner_of (now != NULL ? now : before, is_cluster_wide);
  if (now == NULL || is_stored (before) != is_stored (now))
    g_atomic_int_set (&self->inventory_is_due, TRUE);
  (is_new (before, now) ? enqueue_new : enqueue) (self, &owner);
  tell_listener (self, before, now, is_cluster_wide);
  if (now != NULL || !g_atomic_int_get (&self->is_leading))
    return;
  g_mutex_lock (&self->lock);
  g_hash_table_remove (self->damaged, owner.uid);
  g_mutex_unlock (&self->lock);
  model_queue_orphan (self, &owner);
}

static void
namespaced_changed (const KubeObject *before, const KubeObject *now, gpointer data)
{
  model_changed (before, now, data, FALSE);
}

static void
cluster_changed (const KubeObject *before, const KubeObject *now, gpointer data)
{
  model_changed (before, now, data, TRUE);
}

/* Something of ours that belongs to a model has changed. What comes into sight only after its owner is gone is an orphan. */
static void
part_changed (const KubeObject *before, const KubeObject *now, gpointer data)
{
  ModelController *self = data;
  ModelOwner owner;
  if (!g_atomic_int_get (&self->is_leading) || !model_owner_read (now != NULL ? now : before, &owner))
    return;
  g_autoptr (KubeObject) object = model_controller_find (self, &owner);
  if (object != NULL && strcmp (kube_object_uid (object), owner.uid) == 0)
    enqueue (self, &owner);
  else if (now != NULL)
    model_queue_orphan (self, &owner);
}

static void
call_next (ModelController *self)
{
  for (char *key; (key = worker_slots_call (self->slots)) != NULL; g_free (key))
    work_queue_add (self->queue, key);
}

static void
pod_changed (const KubeObject *before, const KubeObject *now, gpointer data)
{
  ModelController *self = data;
  WorkerSight sight;
  worker_sight_read (now, &sight);
  worker_slots_set (self->slots, kube_object_name (now != NULL ? now : before), sight.state == MODEL_WORKER_ACTIVE);
  worker_sight_clear (&sight);
  if (now == NULL)
    model_forget_admission (self, before);
  part_changed (before, now, data);
  if (g_atomic_int_get (&self->is_leading))
    call_next (self);
}

static LedgerSight
read_books (const KubeObject *config_map)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (StorageLedger) ledger = config_map != NULL ? ledger_store_parse (config_map, &error) : NULL;
  if (ledger == NULL)
    return (LedgerSight){ FALSE };
  return (LedgerSight){ TRUE, storage_ledger_is_confirmed (ledger), storage_ledger_usage (ledger) };
}

/* The books have changed: who waited for them is looked at. */
static void
ledger_changed (const KubeObject *before, const KubeObject *now, gpointer data)
{
  ModelController *self = data;
  LedgerSight books = read_books (now);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->books = books;
  if (!books.is_known)
    g_atomic_int_set (&self->inventory_is_due, TRUE);
  GHashTableIter iter;
  gpointer key;
  g_hash_table_iter_init (&iter, self->awaits_usage);
  while (books.is_known && g_hash_table_iter_next (&iter, &key, NULL))
    {
      work_queue_add (self->queue, key);
      g_hash_table_iter_remove (&iter);
    }
}

/* What nobody reads of a Secret here: how a worker resumes, tokens, and what is stored. */
static void
trim_secret (yyjson_mut_val *root)
{
  yyjson_mut_val *labels = yyjson_mut_obj_get (yyjson_mut_obj_get (root, "metadata"), "labels");
  yyjson_mut_val *app = yyjson_mut_obj_get (labels, APP_LABEL), *data = yyjson_mut_obj_get (root, "data");
  if (yyjson_mut_equals_str (app, CLEANUP_STATE_APP) || yyjson_mut_equals_str (app, WORKER_APP))
    cleanup_state_trim (root);
  else if (yyjson_mut_equals_str (app, WORKER_STATE_APP) && data != NULL)
    yyjson_mut_obj_remove_key (data, "resume");
}

static Informer *
start_informer (ModelController *self, const KubeKind *kind, gboolean everywhere, const char *labels,
                const char *fields, void (*changed) (const KubeObject *before, const KubeObject *now, gpointer data))
{
  InformerConfig config = {
    .kind = kind,
    .namespace = everywhere ? NULL : self->settings->namespace,
    .label_selector = labels,
    .field_selector = fields,
    .trim = kind == &secret_kind ? trim_secret : NULL,
    .changed = changed,
    .data = self,
  };
  return informer_start (self->ctx, self->client, &config);
}

ModelController *
model_controller_new (Ctx *ctx, KubeClient *client, const ControllerSettings *settings)
{
  ModelController *self = g_new0 (ModelController, 1);
  self->ctx = ctx_new_child (ctx, -1);
  self->client = client;
  self->settings = settings;
  g_mutex_init (&self->lock);
  g_mutex_init (&self->listener_lock);
  self->events = event_recorder_new (client, COMPONENT, settings->identity);
  self->ledger_store = ledger_store_new (client, settings->namespace, ACCOUNTING_CONFIG_MAP, TRUE);
  self->queue = work_queue_new (NULL);
  self->slots = worker_slots_new (settings->max_workers);
  self->awaits_usage = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->n_failures = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->orphans = model_orphans_new ();
  self->admitted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->damaged = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->inventory_is_due = TRUE;
  self->models = start_informer (self, &model_kind, TRUE, NULL, NULL, namespaced_changed);
  self->cluster_models = start_informer (self, &cluster_model_kind, TRUE, NULL, NULL, cluster_changed);
  self->pods = start_informer (self, &pod_kind, FALSE, APP_LABEL "=" WORKER_APP, NULL, pod_changed);
  self->secrets = start_informer (self, &secret_kind, FALSE, SECRETS, NULL, part_changed);
  self->ledger = start_informer (self, &config_map_kind, FALSE, NULL, "metadata.name=" ACCOUNTING_CONFIG_MAP,
                                 ledger_changed);
  return self;
}

void
model_controller_free (ModelController *self)
{
  if (self == NULL)
    return;
  ctx_cancel (self->ctx);
  informer_free (self->models);
  informer_free (self->cluster_models);
  informer_free (self->pods);
  informer_free (self->secrets);
  informer_free (self->ledger);
  work_queue_free (self->queue);
  worker_slots_free (self->slots);
  event_recorder_free (self->events);
  ledger_store_free (self->ledger_store);
  g_hash_table_unref (self->awaits_usage);
  g_hash_table_unref (self->n_failures);
  g_hash_table_unref (self->orphans);
  g_hash_table_unref (self->admitted);
  g_hash_table_unref (self->damaged);
  g_mutex_clear (&self->lock);
  g_mutex_clear (&self->listener_lock);
  ctx_unref (self->ctx);
  g_free (self);
}

gboolean
model_controller_is_ready (ModelController *self, GError **error)
{
  const struct {
    const char *name;
    Informer *informer;
  } caches[] = {
    { "Models", self->models },   { "ClusterModels", self->cluster_models }, { "Pods", self->pods },
    { "Secrets", self->secrets }, { "the storage ledger", self->ledger },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (caches); i++)
    if (!informer_has_synced (caches[i].informer))
      return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "%s are not listed yet", caches[i].name);
  return TRUE;
}

KubeObject *
model_controller_find (ModelController *self, const ModelOwner *owner)
{
  return informer_get (owner->namespace != NULL ? self->models : self->cluster_models, owner->namespace, owner->name);
}

gint64
model_next_pause_ms (ModelController *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (self->n_failures, key));
  g_hash_table_replace (self->n_failures, g_strdup (key), GUINT_TO_POINTER (n + 1));
  return MIN ((gint64) FIRST_PAUSE_MS << MIN (n, 10u), MAX_PAUSE_MS);
}

void
model_forget_failures (ModelController *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_remove (self->n_failures, key);
}

/* Cleaning up failed: its user is told, and it is tried again. */
static void
tell_stuck (ModelWork *work, const GError *problem)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *message = g_strdup_printf ("removing what is stored of it failed and is tried again: %s",
                                              problem->message);
  StatusWish wish = { .situation = MODEL_AT_DELETION_STUCK, .message = message };
  if (!model_write_status (work, &wish, &error))
    am_ignore (&error, "the status is written at the next try");
  work->again_ms = model_next_pause_ms (work->controller, work->key);
}

/* Looks and acts until there is nothing more to do now. */
static gboolean
step_on (ModelWork *work, GError **error)
{
  g_autoptr (GError) problem = NULL;
  for (guint i = 0; i < MAX_STEPS; i++)
    {
      gboolean is_done = TRUE;
      if (!model_observe (work, error))
        return FALSE;
      ModelDecision decision = model_decide (&work->view);
      if (decision.step != MODEL_STEP_QUEUE)
        worker_slots_leave (work->controller->slots, work->key);
      if (!model_act (work, &decision, &is_done, &problem))
        break;
      if (is_done)
        return TRUE;
    }
  if (problem == NULL)
    {
      work->again_ms = 1;
      return TRUE;
    }
  gboolean is_passing = am_error_is (problem, AM_ERROR_ABORTED) || am_error_is (problem, AM_ERROR_CANCELLED);
  if (work->view.is_deleting && !is_passing)
    tell_stuck (work, problem);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
parse_key (const char *key, ModelOwner *out_owner, char **out_copy)
{
  g_auto (GStrv) parts = g_strsplit (key, "/", 3);
  if (g_strv_length (parts) != 3)
    return FALSE;
  gboolean is_cluster_wide = strcmp (parts[0], cluster_model_kind.kind) == 0;
  *out_copy = g_strdup (key);
  (*out_copy)[strlen (parts[0])] = '\0';
  (*out_copy)[strlen (parts[0]) + 1 + strlen (parts[1])] = '\0';
  *out_owner = (ModelOwner){
    .kind = *out_copy,
    .namespace = is_cluster_wide ? NULL : *out_copy + strlen (parts[0]) + 1,
    .name = *out_copy + strlen (parts[0]) + strlen (parts[1]) + 2,
  };
  return TRUE;
}

/* One look at an object; the reference is taken over. */
static gboolean
look_at (Ctx *ctx, ModelController *self, const char *key, KubeObject *object, gint64 *out_again_ms, GError **error)
{
  gboolean is_cluster_wide = kube_object_namespace (object)[0] == '\0';
  ModelWork work = {
    .ctx = ctx,
    .controller = self,
    .key = key,
    .kind = is_cluster_wide ? &cluster_model_kind : &model_kind,
    .object = object,
    .owner = model_owner_of (object, is_cluster_wide),
  };
  gboolean done = step_on (&work, error);
  *out_again_ms = work.again_ms;
  model_work_clear (&work);
  return done;
}

/* One look at what the key names: an object, and what is left of earlier ones of that name. */
static gboolean
reconcile (Ctx *ctx, gpointer data, const char *key, gint64 *out_again_ms, GError **error)
{
  ModelController *self = data;
  g_autofree char *copy = NULL;
  ModelOwner owner;
  if (!parse_key (key, &owner, &copy))
    return TRUE;
  g_autoptr (GError) problem = NULL;
  if (!model_reconcile_orphans (ctx, self, key, &owner, out_again_ms, &problem) && ctx_check (ctx, NULL))
    am_log_warning (ctx, "what is left of an earlier one is not removed yet", "err", problem->message, NULL);
  gint64 orphans_again_ms = *out_again_ms;
  KubeObject *object = model_controller_find (self, &owner);
  if (object != NULL)
    {
      gboolean done = look_at (ctx, self, key, object, out_again_ms, error);
      if (orphans_again_ms > 0 && (*out_again_ms == 0 || *out_again_ms > orphans_again_ms))
        *out_again_ms = orphans_again_ms;
      return done;
    }
  worker_slots_leave (self->slots, key);
  model_forget_failures (self, key);
  return TRUE;
}

static void
looked (gpointer data)
{
  call_next (data);
}

typedef struct {
  ModelController *controller;
  Ctx *term;
} Reign;

static gpointer
take_inventory (gpointer data)
{
  const Reign *reign = data;
  inventory_run (reign->term, reign->controller);
  return NULL;
}

static gpointer
check_artifacts (gpointer data)
{
  const Reign *reign = data;
  artifact_sweep_run (reign->term, reign->controller);
  return NULL;
}

/* The threads of a leader; they end with its term. */
static void
reign_until_end (ModelController *self, Ctx *term)
{
  Reign reign = { self, term };
  ReconcileLoop loop = { self->queue, N_RECONCILERS, reconcile, looked, self, LOOK_TIMEOUT_MS };
  g_autoptr (GPtrArray) threads = g_ptr_array_new ();
  if (self->settings->has_accounting)
    g_ptr_array_add (threads, g_thread_new ("inventory", take_inventory, &reign));
  if (self->settings->sweep_interval_ms > 0)
    g_ptr_array_add (threads, g_thread_new ("sweep", check_artifacts, &reign));
  reconcile_loop_run (term, &loop);
  for (guint i = 0; i < threads->len; i++)
    g_thread_join (threads->pdata[i]);
}

static void
enqueue_listed (const KubeObject *object, gpointer data)
{
  ModelController *self = data;
  ModelOwner owner = model_owner_of (object, kube_object_namespace (object)[0] == '\0');
  enqueue (self, &owner);
}

gboolean
model_controller_wait (Ctx *ctx, ModelController *self, GError **error)
{
  Informer *caches[] = { self->models, self->cluster_models, self->pods, self->secrets, self->ledger };
  for (gsize i = 0; i < G_N_ELEMENTS (caches); i++)
    if (!informer_wait (ctx, caches[i], error))
      return FALSE;
  return TRUE;
}

gboolean
model_controller_lead (Ctx *term, gpointer data, GError **error)
{
  ModelController *self = data;
  if (!model_controller_wait (term, self, error))
    return FALSE;
  g_atomic_int_set (&self->is_leading, TRUE);
  informer_each (self->models, enqueue_listed, self);
  informer_each (self->cluster_models, enqueue_listed, self);
  model_queue_orphans (self);
  reign_until_end (self, term);
  g_atomic_int_set (&self->is_leading, FALSE);
  return TRUE;
}
