#include "publish/worker_report.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cluster/module_objects.h"

#define WRITE_INTERVAL_US (2 * G_USEC_PER_SEC)
#define FIRST_WRITE_US (G_USEC_PER_SEC / 2) /* what the first moments bring is written at once */
#define MAX_INTERVAL_US (30 * G_USEC_PER_SEC)
#define WRITE_TIMEOUT_MS (10 * 1000)
#define LAST_WORD_MS (8 * 1000)
#define LAST_WORD_PAUSE_MS 500
#define MAX_NOTES 256u

struct WorkerReport {
  KubeClient *client;
  char *namespace, *name;
  PushNotes notes;
  Ctx *ctx; /* of the thread */
  GThread *thread;

  GMutex lock; /* for all below */
  GCond changed;
  WorkerState state;
  GHashTable *by_name; /* notes */
  guint64 transferred_bytes;
  gboolean is_dirty, is_ending;
  KubeObject *seen; /* the Secret as it was written last */
};

static void
touch_locked (WorkerReport *self)
{
  self->is_dirty = TRUE;
  g_cond_signal (&self->changed);
}

static char *
note_load (gpointer data, const char *name)
{
  WorkerReport *self = data;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return g_strdup (g_hash_table_lookup (self->by_name, name));
}

static void
note_save (Ctx *ctx, gpointer data, const char *name, const char *note)
{
  WorkerReport *self = data;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (note == NULL)
    g_hash_table_remove (self->by_name, name);
  else if (g_hash_table_size (self->by_name) < MAX_NOTES)
    g_hash_table_insert (self->by_name, g_strdup (name), g_strdup (note));
  touch_locked (self);
}

WorkerReport *
worker_report_new (KubeClient *client, const char *namespace, const char *secret_name, gint64 owner_generation)
{
  WorkerReport *self = g_new0 (WorkerReport, 1);
  self->client = client;
  self->namespace = g_strdup (namespace);
  self->name = g_strdup (secret_name);
  self->notes = (PushNotes){ note_load, note_save, self };
  self->state.owner_generation = owner_generation;
  self->by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  return self;
}

const PushNotes *
worker_report_notes (WorkerReport *self)
{
  return &self->notes;
}

/* A Secret of our own: what is not as it should be there only costs time. */
static void
take_notes (WorkerReport *self, const char *text)
{
  size_t index, n;
  yyjson_val *key, *value;
  g_autoptr (yyjson_doc) doc = text != NULL
                                 ? json_parse (text, strlen (text), WORKER_STATE_MAX_RESUME_BYTES, JSON_STRICT, NULL)
                                 : NULL;
  yyjson_obj_foreach (yyjson_doc_get_root (doc), index, n, key, value)
  {
    if (yyjson_is_str (value) && g_hash_table_size (self->by_name) < MAX_NOTES)
      g_hash_table_insert (self->by_name, g_strdup (yyjson_get_str (key)), g_strdup (yyjson_get_str (value)));
  }
}

/* Caller frees; NULL when there are none. */
static char *
notes_text_locked (WorkerReport *self)
{
  GHashTableIter iter;
  gpointer name, note;
  if (g_hash_table_size (self->by_name) == 0)
    return NULL;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  g_hash_table_iter_init (&iter, self->by_name);
  while (g_hash_table_iter_next (&iter, &name, &note))
    yyjson_mut_obj_add_strcpy (doc, root, name, note);
  return json_write (doc, NULL);
}

static void
copy_state_locked (const WorkerReport *self, WorkerState *out_copy)
{
  *out_copy = self->state;
  out_copy->resolved_revision = g_strdup (self->state.resolved_revision);
  out_copy->trouble = g_strdup (self->state.trouble);
}

/* Writes what is to be told now. */
static gboolean
write_state (Ctx *parent, WorkerReport *self, GError **error)
{
  g_auto (WorkerState) state = { 0 };
  g_autoptr (Ctx) ctx = ctx_new_child (parent, WRITE_TIMEOUT_MS);
  g_mutex_lock (&self->lock);
  copy_state_locked (self, &state);
  g_autofree char *notes = notes_text_locked (self);
  g_autoptr (KubeObject) seen = self->seen != NULL ? kube_object_ref (self->seen) : NULL;
  self->is_dirty = FALSE;
  g_mutex_unlock (&self->lock);
  KubeObject *stored = worker_state_store (ctx, self->client, self->namespace, self->name, seen, &state, notes,
                                           error);
  g_mutex_lock (&self->lock);
  g_clear_pointer (&self->seen, kube_object_unref);
  self->seen = stored;
  self->is_dirty |= stored == NULL;
  g_mutex_unlock (&self->lock);
  return stored != NULL;
}

/* Until there is something to write and its time has come; FALSE at the end. */
static gboolean
await_turn (WorkerReport *self, gint64 not_before_us)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  while (!self->is_dirty && !self->is_ending)
    g_cond_wait (&self->changed, &self->lock);
  gint64 end_us = MAX (not_before_us, g_get_monotonic_time () + FIRST_WRITE_US);
  while (!self->is_ending && g_cond_wait_until (&self->changed, &self->lock, end_us))
    continue;
  return !self->is_ending;
}

static gpointer
write_changes (gpointer data)
{
  WorkerReport *self = data;
  gint64 interval_us = WRITE_INTERVAL_US, not_before_us = 0;
  while (await_turn (self, not_before_us))
    {
      g_autoptr (GError) problem = NULL;
      if (write_state (self->ctx, self, &problem))
        interval_us = WRITE_INTERVAL_US;
      else if (!ctx_is_cancelled (self->ctx))
        {
          interval_us = MIN (2 * interval_us, MAX_INTERVAL_US);
          am_log_warning (self->ctx, "the worker's state cannot be written now", "err", problem->message, NULL);
        }
      not_before_us = g_get_monotonic_time () + interval_us;
    }
  return NULL;
}

static void
copy_field (const char *key, const char *value, gpointer data)
{
  ctx_set_field (data, key, value);
}

/* Ends with the report, not with `ctx`; lines that it logs are about the same. */
static Ctx *
own_ctx (Ctx *ctx)
{
  Ctx *own = ctx_new ();
  ctx_foreach_field (ctx, copy_field, own);
  return own;
}

gboolean
worker_report_begin (Ctx *ctx, WorkerReport *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_auto (WorkerState) before = { 0 };
  g_autofree char *notes = NULL;
  KubeTarget target = { .kind = &secret_kind, .namespace = self->namespace, .name = self->name };
  g_autoptr (Ctx) reading = ctx_new_child (ctx, WRITE_TIMEOUT_MS);
  KubeObject *secret = kube_client_get (reading, self->client, &target, error);
  if (secret == NULL)
    return FALSE;
  if (!worker_state_read (secret, &before, &notes, &problem))
    am_log_warning (ctx, "an earlier worker's state cannot be read; it is begun anew", "err", problem->message, NULL);
  g_mutex_lock (&self->lock);
  self->seen = secret;
  self->state.phase = WORKER_RUNNING;
  self->state.stage = WORKER_STAGE_STARTING;
  if (problem == NULL && before.owner_generation == self->state.owner_generation)
    {
      self->state.resolved_revision = g_steal_pointer (&before.resolved_revision);
      self->state.planned_layers = before.planned_layers;
      self->state.planned_size_bytes = before.planned_size_bytes;
      self->state.uploaded_size_bytes = before.uploaded_size_bytes;
      take_notes (self, notes);
    }
  touch_locked (self);
  g_mutex_unlock (&self->lock);
  self->ctx = own_ctx (ctx);
  self->thread = g_thread_new ("report", write_changes, self);
  return TRUE;
}

char *
worker_report_revision (WorkerReport *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return g_strdup (self->state.resolved_revision);
}

/* Whether it was another one. */
static gboolean
replace_text (char **slot, const char *text)
{
  if (g_strcmp0 (*slot, text) == 0)
    return FALSE;
  g_free (*slot);
  *slot = g_strdup (text);
  return TRUE;
}

void
worker_report_set_revision (WorkerReport *self, const char *revision)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (replace_text (&self->state.resolved_revision, revision))
    touch_locked (self);
}

void
worker_report_set_trouble (WorkerReport *self, const char *trouble)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (replace_text (&self->state.trouble, trouble))
    touch_locked (self);
}

void
worker_report_set_plan (WorkerReport *self, guint n_layers, guint64 size_bytes)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (self->state.planned_size_bytes != size_bytes)
    self->state.uploaded_size_bytes = 0;
  self->state.planned_layers = n_layers;
  self->state.planned_size_bytes = size_bytes;
  touch_locked (self);
}

void
worker_report_set_stage (WorkerReport *self, WorkerStage stage)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gboolean goes_on = stage == WORKER_STAGE_UPLOADING && g_hash_table_size (self->by_name) > 0;
  self->state.stage = goes_on ? WORKER_STAGE_RESUMED : stage;
  touch_locked (self);
}

void
worker_report_restart_transfer (WorkerReport *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->transferred_bytes = 0;
}

void
worker_report_transferred (WorkerReport *self, guint64 n_bytes)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->transferred_bytes += n_bytes;
  guint64 done = MIN (self->transferred_bytes, self->state.planned_size_bytes);
  if (done <= self->state.uploaded_size_bytes)
    return;
  self->state.uploaded_size_bytes = done;
  self->is_dirty = TRUE;
  g_cond_signal (&self->changed);
}

guint64
worker_report_done_bytes (WorkerReport *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return self->transferred_bytes;
}

static void
stop_thread (WorkerReport *self)
{
  g_mutex_lock (&self->lock);
  self->is_ending = TRUE;
  g_cond_signal (&self->changed);
  g_mutex_unlock (&self->lock);
  if (self->ctx != NULL)
    ctx_cancel (self->ctx);
  if (self->thread != NULL)
    g_thread_join (g_steal_pointer (&self->thread));
}

void
worker_report_end (WorkerReport *self, WorkerPhase phase)
{
  g_autoptr (GError) problem = NULL;
  if (self->thread == NULL)
    return;
  stop_thread (self);
  g_autoptr (Ctx) fields = own_ctx (self->ctx), ctx = ctx_new_child (fields, LAST_WORD_MS);
  self->state.phase = phase;
  if (phase == WORKER_COMPLETED)
    self->state.stage = WORKER_STAGE_COMMITTED;
  if (phase != WORKER_RUNNING)
    g_clear_pointer (&self->state.trouble, g_free);
  gboolean written = write_state (ctx, self, &problem);
  while (!written && am_error_retryable (problem) && ctx_sleep_ms (ctx, LAST_WORD_PAUSE_MS, NULL))
    {
      g_clear_error (&problem);
      written = write_state (ctx, self, &problem);
    }
  if (!written)
    am_log_warning (ctx, "the worker's last state could not be written", "err", problem->message, NULL);
}

void
worker_report_free (WorkerReport *self)
{
  if (self == NULL)
    return;
  stop_thread (self);
  g_clear_pointer (&self->ctx, ctx_unref);
  g_clear_pointer (&self->seen, kube_object_unref);
  worker_state_clear (&self->state);
  g_hash_table_unref (self->by_name);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self->namespace);
  g_free (self->name);
  g_free (self);
}
