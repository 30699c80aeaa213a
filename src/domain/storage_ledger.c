#include "domain/storage_ledger.h"

#include <string.h>

#define VERSION 2
#define RESERVATIONS "reservations"
#define PUBLISHED "published"
#define FEW_ENTRIES 2000 /* more artifacts are written in fewer bytes: a ConfigMap holds a mebibyte */

struct StorageLedger {
  yyjson_mut_doc *doc;
};

static yyjson_mut_val *
root_of (const StorageLedger *self)
{
  return yyjson_mut_doc_get_root (self->doc);
}

static yyjson_mut_val *
entries_of (const StorageLedger *self, const char *list)
{
  return yyjson_mut_obj_get (root_of (self), list);
}

static void
add_missing_list (StorageLedger *self, const char *list)
{
  if (entries_of (self, list) == NULL)
    yyjson_mut_obj_add_obj (self->doc, root_of (self), list);
}

StorageLedger *
storage_ledger_new (void)
{
  StorageLedger *self = g_new0 (StorageLedger, 1);
  self->doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (self->doc);
  yyjson_mut_doc_set_root (self->doc, root);
  yyjson_mut_obj_add_int (self->doc, root, "version", VERSION);
  add_missing_list (self, RESERVATIONS);
  add_missing_list (self, PUBLISHED);
  return self;
}

void
storage_ledger_free (StorageLedger *self)
{
  if (self == NULL)
    return;
  yyjson_mut_doc_free (self->doc);
  g_free (self);
}

/* ["Model", bytes, logical bytes], the short form of an artifact. */
static gboolean
is_short (yyjson_val *entry)
{
  return yyjson_is_arr (entry) && yyjson_arr_size (entry) == 3 && yyjson_is_str (yyjson_arr_get (entry, 0))
         && yyjson_is_uint (yyjson_arr_get (entry, 1)) && yyjson_is_uint (yyjson_arr_get (entry, 2));
}

static gboolean
check_entries (yyjson_val *root, const char *list, GError **error)
{
  size_t index, n;
  yyjson_val *key, *entry;
  yyjson_val *entries = yyjson_obj_get (root, list);
  if (entries != NULL && !yyjson_is_obj (entries))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the storage ledger's %s are no object", list);
  yyjson_obj_foreach (entries, index, n, key, entry)
  {
    if (!is_short (entry)
        && (!yyjson_is_uint (yyjson_obj_get (entry, "sizeBytes"))
            || json_get_string (json_get_object (entry, "owner"), "uid") == NULL))
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                      "the storage ledger's entry \"%.100s\" has no size or owner", yyjson_get_str (key));
  }
  return TRUE;
}

static void
add_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *value)
{
  if (value != NULL)
    yyjson_mut_obj_add_strcpy (doc, object, name, value);
}

static yyjson_mut_val *
new_entry (StorageLedger *self, const char *id, const LedgerOwner *owner, guint64 size_bytes)
{
  yyjson_mut_val *entry = yyjson_mut_obj (self->doc);
  yyjson_mut_obj_add_strcpy (self->doc, entry, "id", id);
  yyjson_mut_val *by = yyjson_mut_obj_add_obj (self->doc, entry, "owner");
  add_text (self->doc, by, "kind", owner->kind);
  add_text (self->doc, by, "name", owner->name);
  add_text (self->doc, by, "namespace", owner->namespace);
  add_text (self->doc, by, "uid", owner->uid);
  yyjson_mut_obj_add_uint (self->doc, entry, "sizeBytes", size_bytes);
  return entry;
}

/* Where `key` is an artifact's id, its entry from the short form. */
static yyjson_mut_val *
entry_of_short (StorageLedger *self, const char *id, yyjson_mut_val *row)
{
  LedgerOwner owner = { .kind = yyjson_mut_get_str (yyjson_mut_arr_get (row, 0)), .uid = id };
  yyjson_mut_val *entry = new_entry (self, id, &owner, yyjson_mut_get_uint (yyjson_mut_arr_get (row, 1)));
  yyjson_mut_obj_add_uint (self->doc, entry, "logicalSizeBytes", yyjson_mut_get_uint (yyjson_mut_arr_get (row, 2)));
  return entry;
}

typedef yyjson_mut_val *(*EntryForm) (StorageLedger *self, const char *id, yyjson_mut_val *entry);

/* The list's entries in another form; NULL keeps one as it is. */
static yyjson_mut_val *
list_in_form (StorageLedger *self, const char *list, EntryForm form)
{
  size_t index, n;
  yyjson_mut_val *key, *entry;
  yyjson_mut_val *formed = yyjson_mut_obj (self->doc);
  yyjson_mut_obj_foreach (entries_of (self, list), index, n, key, entry)
  {
    yyjson_mut_val *other = form (self, yyjson_mut_get_str (key), entry);
    yyjson_mut_obj_add (formed, yyjson_mut_strcpy (self->doc, yyjson_mut_get_str (key)),
                        other != NULL ? other : yyjson_mut_val_mut_copy (self->doc, entry));
  }
  return formed;
}

static yyjson_mut_val *
long_form (StorageLedger *self, const char *id, yyjson_mut_val *entry)
{
  return yyjson_mut_is_arr (entry) ? entry_of_short (self, id, entry) : NULL;
}

static yyjson_mut_val *
short_form (StorageLedger *self, const char *id, yyjson_mut_val *entry)
{
  const char *kind = yyjson_mut_get_str (yyjson_mut_obj_get (yyjson_mut_obj_get (entry, "owner"), "kind"));
  if (kind == NULL)
    return NULL;
  yyjson_mut_val *row = yyjson_mut_arr (self->doc);
  yyjson_mut_arr_add_strcpy (self->doc, row, kind);
  yyjson_mut_arr_add_uint (self->doc, row, yyjson_mut_get_uint (yyjson_mut_obj_get (entry, "sizeBytes")));
  yyjson_mut_arr_add_uint (self->doc, row, yyjson_mut_get_uint (yyjson_mut_obj_get (entry, "logicalSizeBytes")));
  return row;
}

/* Puts it in the place that `name` has, or at the end. */
static void
put_member (yyjson_mut_val *object, const char *name, yyjson_mut_val *value, yyjson_mut_doc *doc)
{
  yyjson_mut_obj_put (object, yyjson_mut_strcpy (doc, name), value);
}

StorageLedger *
storage_ledger_parse (const char *text, gsize size, GError **error)
{
  g_autoptr (yyjson_doc) doc = json_parse (text, size, STORAGE_LEDGER_MAX_BYTES, JSON_STRICT, error);
  yyjson_val *root = yyjson_doc_get_root (doc);
  if (doc == NULL)
    return NULL;
  guint64 version = yyjson_get_uint (yyjson_obj_get (root, "version"));
  if (version == 0)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the storage ledger has no version");
  if (version > VERSION)
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                         "the storage ledger is of version %" G_GUINT64_FORMAT ", later than %d", version, VERSION);
  if (!check_entries (root, RESERVATIONS, error) || !check_entries (root, PUBLISHED, error))
    return NULL;
  StorageLedger *self = g_new0 (StorageLedger, 1);
  self->doc = yyjson_doc_mut_copy (doc, NULL);
  put_member (root_of (self), "version", yyjson_mut_int (self->doc, VERSION), self->doc);
  add_missing_list (self, RESERVATIONS);
  add_missing_list (self, PUBLISHED);
  put_member (root_of (self), PUBLISHED, list_in_form (self, PUBLISHED, long_form), self->doc);
  if (version < 2) /* of a release that did not confirm */
    yyjson_mut_obj_remove_key (root_of (self), "confirmed");
  return self;
}

char *
storage_ledger_write (StorageLedger *self, gsize *out_size)
{
  yyjson_mut_val *entries = entries_of (self, PUBLISHED);
  if (yyjson_mut_obj_size (entries) <= FEW_ENTRIES)
    return json_write (self->doc, out_size);
  put_member (root_of (self), PUBLISHED, list_in_form (self, PUBLISHED, short_form), self->doc);
  char *text = json_write (self->doc, out_size);
  put_member (root_of (self), PUBLISHED, entries, self->doc);
  return text;
}

gboolean
storage_ledger_is_confirmed (const StorageLedger *self)
{
  yyjson_mut_val *confirmed = yyjson_mut_obj_get (root_of (self), "confirmed");
  return yyjson_mut_is_str (yyjson_mut_obj_get (confirmed, "at"));
}

void
storage_ledger_confirm (StorageLedger *self, const char *at, const char *by, guint n_artifacts)
{
  yyjson_mut_val *confirmed = yyjson_mut_obj (self->doc);
  put_member (root_of (self), "confirmed", confirmed, self->doc);
  yyjson_mut_obj_add_strcpy (self->doc, confirmed, "at", at);
  yyjson_mut_obj_add_strcpy (self->doc, confirmed, "by", by);
  yyjson_mut_obj_add_uint (self->doc, confirmed, "inventoryCount", n_artifacts);
}

static guint64
add_capped (guint64 a, guint64 b)
{
  return a > G_MAXUINT64 - b ? G_MAXUINT64 : a + b;
}

static const char *
owner_uid (yyjson_mut_val *entry)
{
  return yyjson_mut_get_str (yyjson_mut_obj_get (yyjson_mut_obj_get (entry, "owner"), "uid"));
}

/* Of a list, but for the entry `id` and those of the owner `uid`; both may be NULL. */
static guint64
sum_without (const StorageLedger *self, const char *list, const char *id, const char *uid)
{
  size_t index, n;
  yyjson_mut_val *key, *entry;
  guint64 sum = 0;
  yyjson_mut_obj_foreach (entries_of (self, list), index, n, key, entry)
  {
    gboolean is_left_out = g_strcmp0 (yyjson_mut_get_str (key), id) == 0
                           || (uid != NULL && g_strcmp0 (owner_uid (entry), uid) == 0);
    if (!is_left_out)
      sum = add_capped (sum, yyjson_mut_get_uint (yyjson_mut_obj_get (entry, "sizeBytes")));
  }
  return sum;
}

LedgerUsage
storage_ledger_usage (const StorageLedger *self)
{
  return (LedgerUsage){ sum_without (self, PUBLISHED, NULL, NULL), sum_without (self, RESERVATIONS, NULL, NULL) };
}

static gboolean
check_limit (guint64 requested, guint64 used, guint64 reserved, guint64 limit, GError **error)
{
  guint64 taken = add_capped (used, reserved);
  guint64 available = limit > taken ? limit - taken : 0;
  if (limit == 0 || requested <= available)
    return TRUE;
  return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage",
                  "artifact storage capacity exceeded: requested=%" G_GUINT64_FORMAT " available=%" G_GUINT64_FORMAT
                  " used=%" G_GUINT64_FORMAT " reserved=%" G_GUINT64_FORMAT " limit=%" G_GUINT64_FORMAT,
                  requested, available, used, reserved, limit);
}

static yyjson_mut_val *
put_entry (StorageLedger *self, const char *list, const char *id, const LedgerOwner *owner, guint64 size_bytes)
{
  yyjson_mut_val *entry = new_entry (self, id, owner, size_bytes);
  put_member (entries_of (self, list), id, entry, self->doc);
  return entry;
}

gboolean
storage_ledger_reserve (StorageLedger *self, const char *id, const LedgerOwner *owner, guint64 size_bytes,
                        guint64 limit_bytes, const char *at, GError **error)
{
  if (size_bytes == 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "nothing to set aside: the size is not known");
  if (!storage_ledger_is_confirmed (self))
    return am_fail (error, AM_ERROR_UNAVAILABLE, "StorageUsageUnknown",
                    "how much is stored is not known yet; it is counted within a minute");
  guint64 used = sum_without (self, PUBLISHED, NULL, NULL), reserved = sum_without (self, RESERVATIONS, id, NULL);
  if (!check_limit (size_bytes, used, reserved, limit_bytes, error))
    return FALSE;
  yyjson_mut_val *entry = put_entry (self, RESERVATIONS, id, owner, size_bytes);
  yyjson_mut_obj_add_strcpy (self->doc, entry, "createdAt", at);
  return TRUE;
}

typedef gboolean (*EntryFunc) (yyjson_mut_val *entry, gconstpointer data);

static guint
drop_entries (StorageLedger *self, const char *list, EntryFunc drops, gconstpointer data)
{
  guint n_dropped = 0;
  yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with (entries_of (self, list));
  for (yyjson_mut_val *key = yyjson_mut_obj_iter_next (&iter); key != NULL; key = yyjson_mut_obj_iter_next (&iter))
    if (drops (yyjson_mut_obj_iter_get_val (key), data))
      {
        yyjson_mut_obj_iter_remove (&iter);
        n_dropped++;
      }
  return n_dropped;
}

static gboolean
is_of_owner (yyjson_mut_val *entry, gconstpointer uid)
{
  return g_strcmp0 (owner_uid (entry), uid) == 0;
}

static yyjson_mut_val *
new_artifact (StorageLedger *self, const LedgerArtifact *artifact, const char *at)
{
  yyjson_mut_val *entry = new_entry (self, artifact->owner.uid, &artifact->owner, artifact->size_bytes);
  yyjson_mut_obj_add_uint (self->doc, entry, "logicalSizeBytes", artifact->logical_bytes);
  yyjson_mut_obj_add_strcpy (self->doc, entry, "updatedAt", at);
  return entry;
}

gboolean
storage_ledger_publish (StorageLedger *self, const LedgerOwner *owner, const char *session, guint64 size_bytes,
                        guint64 logical_bytes, guint64 limit_bytes, const char *at, GError **error)
{
  guint64 used = sum_without (self, PUBLISHED, owner->uid, NULL);
  guint64 reserved = sum_without (self, RESERVATIONS, session, owner->uid);
  if (!check_limit (size_bytes, used, reserved, limit_bytes, error))
    return FALSE;
  if (session != NULL)
    storage_ledger_release (self, session);
  drop_entries (self, RESERVATIONS, is_of_owner, owner->uid);
  LedgerArtifact artifact = { *owner, size_bytes, logical_bytes };
  put_member (entries_of (self, PUBLISHED), owner->uid, new_artifact (self, &artifact, at), self->doc);
  return TRUE;
}

static gboolean
is_written (yyjson_mut_val *entry, const LedgerArtifact *artifact)
{
  return entry != NULL && yyjson_mut_get_uint (yyjson_mut_obj_get (entry, "sizeBytes")) == artifact->size_bytes;
}

guint
storage_ledger_record (StorageLedger *self, const LedgerArtifact *artifacts, gsize n, const char *at)
{
  size_t index, n_entries;
  yyjson_mut_val *key, *entry;
  guint n_changed = 0;
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  yyjson_mut_obj_foreach (entries_of (self, PUBLISHED), index, n_entries, key, entry)
    g_hash_table_insert (known, (char *) yyjson_mut_get_str (key), entry);
  for (gsize i = 0; i < n; i++)
    {
      const char *uid = artifacts[i].owner.uid;
      yyjson_mut_val *written = g_hash_table_lookup (known, uid);
      if (is_written (written, &artifacts[i]))
        continue;
      entry = new_artifact (self, &artifacts[i], at);
      if (written != NULL)
        put_member (entries_of (self, PUBLISHED), uid, entry, self->doc);
      else
        yyjson_mut_obj_add (entries_of (self, PUBLISHED), yyjson_mut_strcpy (self->doc, uid), entry);
      n_changed++;
    }
  return n_changed;
}

gboolean
storage_ledger_release (StorageLedger *self, const char *id)
{
  return yyjson_mut_obj_remove_key (entries_of (self, RESERVATIONS), id) != NULL;
}

gboolean
storage_ledger_forget (StorageLedger *self, const char *uid)
{
  guint n_dropped = drop_entries (self, RESERVATIONS, is_of_owner, uid);
  return n_dropped + drop_entries (self, PUBLISHED, is_of_owner, uid) > 0;
}

typedef struct {
  LedgerKeeps keeps;
  gpointer data;
} Keeper;

static gboolean
is_unknown (yyjson_mut_val *entry, gconstpointer data)
{
  const Keeper *keeper = data;
  return !keeper->keeps (owner_uid (entry), keeper->data);
}

guint
storage_ledger_drop_artifacts (StorageLedger *self, LedgerKeeps keeps, gpointer data)
{
  Keeper keeper = { keeps, data };
  return drop_entries (self, PUBLISHED, is_unknown, &keeper);
}

guint
storage_ledger_drop_reservations (StorageLedger *self, LedgerKeeps keeps, gpointer data)
{
  Keeper keeper = { keeps, data };
  return drop_entries (self, RESERVATIONS, is_unknown, &keeper);
}

LedgerVerdict
storage_ledger_verdict (const StorageLedger *self, guint64 size_bytes, guint64 limit_bytes)
{
  if (self == NULL || size_bytes == 0 || !storage_ledger_is_confirmed (self))
    return LEDGER_ESTIMATE_UNAVAILABLE;
  LedgerUsage usage = storage_ledger_usage (self);
  gboolean fits = check_limit (size_bytes, usage.used_bytes, usage.reserved_bytes, limit_bytes, NULL);
  return fits ? LEDGER_FEASIBLE : LEDGER_NOT_FEASIBLE;
}
