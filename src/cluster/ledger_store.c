#include "cluster/ledger_store.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cluster/module_objects.h"

#define KEY "ledger.json"
#define MAX_TRIES 20
#define MAX_PAUSE_MS 400

struct LedgerStore {
  KubeClient *client;
  char *namespace, *name;
  gboolean makes_missing;
};

LedgerStore *
ledger_store_new (KubeClient *client, const char *namespace, const char *name, gboolean makes_missing)
{
  LedgerStore *self = g_new0 (LedgerStore, 1);
  self->client = client;
  self->namespace = g_strdup (namespace);
  self->name = g_strdup (name);
  self->makes_missing = makes_missing;
  return self;
}

void
ledger_store_free (LedgerStore *self)
{
  if (self == NULL)
    return;
  g_free (self->namespace);
  g_free (self->name);
  g_free (self);
}

StorageLedger *
ledger_store_parse (const KubeObject *config_map, GError **error)
{
  yyjson_val *data = json_get_object (kube_object_root (config_map), "data");
  const char *text = json_get_string (data, KEY);
  if (text == NULL)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "ConfigMap %s/%s has no " KEY,
                         kube_object_namespace (config_map), kube_object_name (config_map));
  return storage_ledger_parse (text, strlen (text), error);
}

static KubeTarget
target_of (const LedgerStore *self)
{
  return (KubeTarget){ .kind = &config_map_kind, .namespace = self->namespace, .name = self->name };
}

/* A ConfigMap to create. */
static yyjson_mut_doc *
new_config_map (const LedgerStore *self)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  yyjson_mut_obj_add_strcpy (doc, metadata, "name", self->name);
  yyjson_mut_val *labels = metadata_map (doc, metadata, "labels");
  yyjson_mut_obj_add_str (doc, labels, APP_LABEL, ACCOUNTING_APP);
  yyjson_mut_obj_add_str (doc, labels, "app.kubernetes.io/component", "storage-accounting");
  yyjson_mut_obj_add_obj (doc, root, "data");
  return doc;
}

/* The ledger of `found` (NULL: there is none). */
static StorageLedger *
open_ledger (const LedgerStore *self, const KubeObject *found, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (found == NULL)
    return storage_ledger_new ();
  StorageLedger *ledger = ledger_store_parse (found, &problem);
  if (ledger != NULL)
    return ledger;
  if (!self->makes_missing || !am_error_is (problem, AM_ERROR_INVALID_ARGUMENT))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  am_log_warning (NULL, "the storage ledger cannot be read and is begun anew", "err", problem->message, NULL);
  return storage_ledger_new ();
}

static gboolean
write_ledger (Ctx *ctx, LedgerStore *self, const KubeObject *found, StorageLedger *ledger, GError **error)
{
  gsize size = 0;
  KubeTarget target = target_of (self);
  g_autofree char *text = storage_ledger_write (ledger, &size);
  yyjson_val *before = found != NULL ? json_get_object (kube_object_root (found), "data") : NULL;
  if (g_strcmp0 (json_get_string (before, KEY), text) == 0)
    return TRUE;
  if (size > STORAGE_LEDGER_MAX_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                    "the storage ledger would take %" G_GSIZE_FORMAT " bytes, more than a ConfigMap holds", size);
  g_autoptr (yyjson_mut_doc) doc = found != NULL ? kube_object_edit (found) : new_config_map (self);
  yyjson_mut_val *data = metadata_map (doc, yyjson_mut_doc_get_root (doc), "data");
  yyjson_mut_obj_remove_key (data, KEY);
  yyjson_mut_obj_add_strn (doc, data, KEY, text, size);
  g_autoptr (KubeObject) written = found != NULL ? kube_client_update (ctx, self->client, &target, doc, error)
                                                 : kube_client_create (ctx, self->client, &target, doc, error);
  return written != NULL;
}

/* One try: ABORTED or ALREADY_EXISTS when another writer was faster. */
static gboolean
try_edit (Ctx *ctx, LedgerStore *self, LedgerEdit edit, gpointer data, GError **error)
{
  g_autoptr (GError) problem = NULL;
  KubeTarget target = target_of (self);
  g_autoptr (KubeObject) found = kube_client_get (ctx, self->client, &target, &problem);
  if (found == NULL && !(self->makes_missing && am_error_is (problem, AM_ERROR_NOT_FOUND)))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_autoptr (StorageLedger) ledger = open_ledger (self, found, error);
  return ledger != NULL && edit (ledger, data, error) && write_ledger (ctx, self, found, ledger, error);
}

gboolean
ledger_store_edit (Ctx *ctx, LedgerStore *self, LedgerEdit edit, gpointer data, GError **error)
{
  for (guint i = 1;; i++)
    {
      g_autoptr (GError) problem = NULL;
      if (try_edit (ctx, self, edit, data, &problem))
        return TRUE;
      gboolean was_late = am_error_is (problem, AM_ERROR_ABORTED) || am_error_is (problem, AM_ERROR_ALREADY_EXISTS);
      if (!was_late || i == MAX_TRIES)
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      am_ignore (&problem, "another writer was faster");
      if (!ctx_sleep_ms (ctx, g_random_int_range (1, (gint32) MIN (10u << MIN (i, 6u), MAX_PAUSE_MS)), error))
        return FALSE;
    }
}

typedef struct {
  const char *id, *session;
  const LedgerOwner *owner;
  guint64 size_bytes, logical_bytes, limit_bytes;
  const char *at;
} Entry;

static gboolean
edit_reserve (StorageLedger *ledger, gpointer data, GError **error)
{
  const Entry *entry = data;
  return storage_ledger_reserve (ledger, entry->id, entry->owner, entry->size_bytes, entry->limit_bytes, entry->at,
                                 error);
}

static gboolean
edit_publish (StorageLedger *ledger, gpointer data, GError **error)
{
  const Entry *entry = data;
  return storage_ledger_publish (ledger, entry->owner, entry->session, entry->size_bytes, entry->logical_bytes,
                                 entry->limit_bytes, entry->at, error);
}

static gboolean
edit_release (StorageLedger *ledger, gpointer data, GError **error)
{
  storage_ledger_release (ledger, ((const Entry *) data)->id);
  return TRUE;
}

static gboolean
edit_forget (StorageLedger *ledger, gpointer data, GError **error)
{
  storage_ledger_forget (ledger, ((const Entry *) data)->id);
  return TRUE;
}

gboolean
ledger_store_reserve (Ctx *ctx, LedgerStore *self, const char *id, const LedgerOwner *owner, guint64 size_bytes,
                      guint64 limit_bytes, GError **error)
{
  g_autofree char *at = time_text_now ();
  g_autoptr (GError) problem = NULL;
  Entry entry = { .id = id, .owner = owner, .size_bytes = size_bytes, .limit_bytes = limit_bytes, .at = at };
  if (ledger_store_edit (ctx, self, edit_reserve, &entry, &problem))
    return TRUE;
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail (error, AM_ERROR_UNAVAILABLE, "StorageUsageUnknown",
                    "how much is stored is not known yet: the books are missing; they are made anew within a minute");
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
ledger_store_publish (Ctx *ctx, LedgerStore *self, const LedgerOwner *owner, const char *session, guint64 size_bytes,
                      guint64 logical_bytes, guint64 limit_bytes, GError **error)
{
  g_autofree char *at = time_text_now ();
  Entry entry = {
    .session = session,
    .owner = owner,
    .size_bytes = size_bytes,
    .logical_bytes = logical_bytes,
    .limit_bytes = limit_bytes,
    .at = at,
  };
  return ledger_store_edit (ctx, self, edit_publish, &entry, error);
}

/* An edit that takes something out: nothing is in books that are missing. */
static gboolean
take_out (Ctx *ctx, LedgerStore *self, LedgerEdit edit, const char *id, GError **error)
{
  g_autoptr (GError) problem = NULL;
  Entry entry = { .id = id };
  if (ledger_store_edit (ctx, self, edit, &entry, &problem) || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
ledger_store_release (Ctx *ctx, LedgerStore *self, const char *id, GError **error)
{
  return take_out (ctx, self, edit_release, id, error);
}

gboolean
ledger_store_forget (Ctx *ctx, LedgerStore *self, const char *owner_uid, GError **error)
{
  return take_out (ctx, self, edit_forget, owner_uid, error);
}
