#include <malloc.h>

#include "base/log.h"
#include "base/text.h"
#include "controllers/model_work.h"

#define MAX_NAMED 100 /* models in one line of the log */

/* What the objects say is stored. */
typedef struct {
  ModelController *controller;
  GStringChunk *texts;  /* of what follows: the objects themselves are large */
  GArray *artifacts;    /* LedgerArtifact */
  GHashTable *stored;   /* uids of those */
  GHashTable *expected; /* uids on their way: they may have reservations, and a record that no status tells yet */
  GString *blocking;    /* names of models whose record cannot be written */
  guint n_blocking;
} Inventory;

static void
inventory_clear (Inventory *self)
{
  g_array_unref (self->artifacts);
  g_hash_table_unref (self->stored);
  g_hash_table_unref (self->expected);
  g_string_chunk_free (self->texts);
  g_string_free (self->blocking, TRUE);
}

static void
note_blocking (Inventory *self, const ModelOwner *owner)
{
  if (self->n_blocking++ < MAX_NAMED)
    g_string_append_printf (self->blocking, "%s%s/%s%s%s", self->blocking->len > 0 ? ", " : "", owner->kind,
                            owner->namespace != NULL ? owner->namespace : "", owner->namespace != NULL ? "/" : "",
                            owner->name);
}

/* One that is being deleted counts until its cleanup state says that it is released. */
static gboolean
is_released (Inventory *self, const KubeObject *model)
{
  if (!kube_object_is_deleting (model))
    return FALSE;
  g_autofree char *name = model_object_name (CLEANUP_STATE_PREFIX, kube_object_uid (model));
  g_autoptr (KubeObject) cleanup = informer_get (self->controller->secrets, self->controller->settings->namespace,
                                                 name);
  return cleanup == NULL || cleanup_state_is_complete (cleanup);
}

/* The owner in texts that stay. */
static ModelOwner
kept_owner (Inventory *self, const KubeObject *model)
{
  ModelOwner owner = model_owner_of (model, kube_object_namespace (model)[0] == '\0');
  if (owner.namespace != NULL)
    owner.namespace = g_string_chunk_insert_const (self->texts, owner.namespace);
  owner.name = g_string_chunk_insert (self->texts, owner.name);
  owner.uid = g_string_chunk_insert (self->texts, owner.uid);
  return owner;
}

static void
take_model (const KubeObject *model, gpointer data)
{
  Inventory *self = data;
  yyjson_val *status = kube_object_status (model), *artifact = json_get_object (status, "artifact");
  const char *phase = json_get_string (status, "phase");
  gint64 size = yyjson_get_sint (yyjson_obj_get (artifact, "sizeBytes"));
  if (g_strcmp0 (phase, "Failed") != 0 && g_strcmp0 (phase, "Ready") != 0)
    g_hash_table_add (self->expected, g_strdup (kube_object_uid (model)));
  if (artifact == NULL || is_released (self, model))
    return;
  LedgerArtifact entry = { kept_owner (self, model), (guint64) MAX (size, 0), (guint64) MAX (size, 0) };
  if (size <= 0)
    {
      note_blocking (self, &entry.owner);
      return;
    }
  g_array_append_val (self->artifacts, entry);
  g_hash_table_add (self->stored, (char *) entry.owner.uid);
}

static gboolean
is_in (const char *uid, gpointer data)
{
  return uid != NULL && g_hash_table_contains (data, uid);
}

/* The books are written before the status, and the cache shows that later still: a model on its way keeps its record. */
static gboolean
may_be_stored (const char *uid, gpointer data)
{
  const Inventory *self = data;
  return is_in (uid, self->stored) || is_in (uid, self->expected);
}

static gboolean
edit_books (StorageLedger *ledger, gpointer data, GError **error)
{
  Inventory *self = data;
  g_autofree char *now = time_text_now ();
  guint n_changed = storage_ledger_record (ledger, (const LedgerArtifact *) (gpointer) self->artifacts->data,
                                           self->artifacts->len, now);
  n_changed += storage_ledger_drop_artifacts (ledger, may_be_stored, self);
  n_changed += storage_ledger_drop_reservations (ledger, is_in, self->expected);
  if (self->n_blocking == 0 && (n_changed > 0 || !storage_ledger_is_confirmed (ledger)))
    storage_ledger_confirm (ledger, now, self->controller->settings->identity, self->artifacts->len);
  return TRUE;
}

/* Compares all objects with the books. */
static gboolean
count_all (Ctx *ctx, ModelController *controller, GError **error)
{
  Inventory self = {
    .controller = controller,
    .texts = g_string_chunk_new (64 * 1024),
    .artifacts = g_array_new (FALSE, FALSE, sizeof (LedgerArtifact)),
    .stored = g_hash_table_new (g_str_hash, g_str_equal),
    .expected = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
    .blocking = g_string_new (NULL),
  };
  informer_each (controller->models, take_model, &self);
  informer_each (controller->cluster_models, take_model, &self);
  gboolean done = ledger_store_edit (ctx, controller->ledger_store, edit_books, &self, error);
  if (done && self.n_blocking > 0)
    done = am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%u models have no size in their status: %s%s",
                    self.n_blocking, self.blocking->str, self.n_blocking > MAX_NAMED ? ", ..." : "");
  inventory_clear (&self);
  malloc_trim (0);
  return done;
}

static gboolean
are_books_known (ModelController *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return self->books.is_known;
}

/* Whether the API server lets us at the books: caches tell nothing of that. */
static gboolean
can_read_books (Ctx *ctx, ModelController *self, GError **error)
{
  KubeTarget target = { .kind = &config_map_kind,
                        .namespace = self->settings->namespace,
                        .name = ACCOUNTING_CONFIG_MAP };
  g_autoptr (KubeObject) books = kube_client_get (ctx, self->client, &target, error);
  return books != NULL;
}

/* Nothing is compared when nothing has changed since the last pass and the books are known. */
static gboolean
pass (Ctx *ctx, ModelController *self, GError **error)
{
  if (!g_atomic_int_get (&self->inventory_is_due) && are_books_known (self))
    return can_read_books (ctx, self, error);
  g_atomic_int_set (&self->inventory_is_due, FALSE);
  if (count_all (ctx, self, error))
    return TRUE;
  g_atomic_int_set (&self->inventory_is_due, TRUE);
  return FALSE;
}

static void
note_pass (ModelController *self, gboolean done)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->inventory_is_healthy = done;
  if (done)
    self->inventory_success_s = g_get_real_time () / G_USEC_PER_SEC;
}

void
inventory_run (Ctx *term, ModelController *self)
{
  gint64 interval_ms = self->settings->inventory_interval_ms;
  while (ctx_check (term, NULL))
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Ctx) limited = ctx_new_child (term, interval_ms);
      gboolean done = pass (limited, self, &error);
      if (ctx_check (term, NULL))
        note_pass (self, done);
      if (!done && ctx_check (term, NULL))
        am_log_warning (term, "the storage inventory failed", "err", error->message, NULL);
      ctx_sleep_ms (term, done ? interval_ms : MAX (interval_ms / 6, 100), NULL);
    }
}
