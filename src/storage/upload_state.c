#include "storage/upload_state.h"

#include <string.h>
#include <xxhash.h>

#include "storage/wire.h"

#define MAGIC "AMUS"
#define VERSION 1
#define HEAD_SIZE (4 + 4 + 8 + 8 + SHA256_SAVED_SIZE + 8 + 8 + 4 + 4)
#define SUM_SIZE 8
#define MAX_STATE_BYTES (HEAD_SIZE + 1024 + UPLOAD_LIST_ENTRIES * RECIPE_ENTRY_SIZE + SUM_SIZE)

char *
upload_prefix (const char *id)
{
  return g_strdup_printf ("_ai_models/uploads/%s/", id);
}

char *
upload_key (const char *id, const char *kind, guint64 number)
{
  return g_strdup_printf ("_ai_models/uploads/%s/%s-%012" G_GUINT64_FORMAT, id, kind, number);
}

static void
append_u32 (GByteArray *out, guint32 value)
{
  guint8 bytes[4];
  wire_put_u32 (bytes, value);
  g_byte_array_append (out, bytes, sizeof bytes);
}

static void
append_u64 (GByteArray *out, guint64 value)
{
  guint8 bytes[8];
  wire_put_u64 (bytes, value);
  g_byte_array_append (out, bytes, sizeof bytes);
}

static void
append_entries (GByteArray *out, const GArray *entries, guint first, guint end)
{
  for (guint i = first; i < end; i++)
    {
      const RecipeEntry *entry = &g_array_index (entries, RecipeEntry, i);
      g_byte_array_append (out, entry->digest, sizeof entry->digest);
      append_u32 (out, entry->decoded_size);
      append_u32 (out, entry->encoded_size);
    }
}

static void
read_entries (const guint8 *bytes, guint n, GArray *entries)
{
  for (guint i = 0; i < n; i++, bytes += RECIPE_ENTRY_SIZE)
    {
      RecipeEntry entry = { .decoded_size = wire_get_u32 (bytes + 32), .encoded_size = wire_get_u32 (bytes + 36) };
      memcpy (entry.digest, bytes, sizeof entry.digest);
      g_array_append_val (entries, entry);
    }
}

static GByteArray *
state_write (const UploadState *self, guint n_lists)
{
  guint8 sha[SHA256_SAVED_SIZE];
  guint first = n_lists * UPLOAD_LIST_ENTRIES;
  gsize n_name = strlen (self->repository);
  GByteArray *out = g_byte_array_new ();
  g_byte_array_append (out, (const guint8 *) MAGIC, 4);
  append_u32 (out, VERSION | (guint32) self->tail << 8 | (guint32) n_name << 16);
  append_u64 (out, (guint64) self->created_ms);
  append_u64 (out, self->boundary_bytes);
  sha256_save (&self->boundary_sha, sha);
  g_byte_array_append (out, sha, sizeof sha);
  append_u64 (out, self->tail_bytes);
  append_u64 (out, self->sequence);
  append_u32 (out, n_lists);
  append_u32 (out, self->entries->len - first);
  g_byte_array_append (out, (const guint8 *) self->repository, (guint) n_name);
  append_entries (out, self->entries, first, self->entries->len);
  append_u64 (out, XXH3_64bits (out->data, out->len));
  return out;
}

static gboolean
save_lists (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, guint *inout_n_lists,
            GError **error)
{
  while (state->entries->len >= (*inout_n_lists + 1) * UPLOAD_LIST_ENTRIES)
    {
      g_autoptr (GByteArray) list = g_byte_array_new ();
      g_autofree char *key = upload_key (id, "list", *inout_n_lists);
      append_entries (list, state->entries, *inout_n_lists * UPLOAD_LIST_ENTRIES,
                      (*inout_n_lists + 1) * UPLOAD_LIST_ENTRIES);
      if (!object_store_put (ctx, objects, key, list->data, list->len, OBJECT_COMMIT_LAZY, error))
        return FALSE;
      (*inout_n_lists)++;
    }
  return TRUE;
}

gboolean
upload_state_save (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *state, guint *inout_n_lists,
                   GError **error)
{
  if (!save_lists (ctx, objects, id, state, inout_n_lists, error))
    return FALSE;
  guint64 before = state->sequence;
  state->sequence = before + 1;
  g_autoptr (GByteArray) bytes = state_write (state, *inout_n_lists);
  g_autofree char *key = upload_key (id, "state", state->sequence);
  g_autoptr (GError) problem = NULL;
  if (!object_store_put (ctx, objects, key, bytes->data, bytes->len, OBJECT_COMMIT_IF_ABSENT | OBJECT_COMMIT_LAZY,
                         &problem))
    {
      state->sequence = before;
      if (am_error_is (problem, AM_ERROR_ALREADY_EXISTS))
        return am_fail (error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID",
                        "upload %s is being continued by another request", id);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (before == 0)
    return TRUE;
  g_autofree char *old_state = upload_key (id, "state", before);
  g_autofree char *old_tail = upload_key (id, "tail", before);
  return object_store_remove (ctx, objects, old_state, error) && object_store_remove (ctx, objects, old_tail, error);
}

/* Key of the state with the highest sequence, or NULL. */
static char *
newest_state (Ctx *ctx, ObjectStore *objects, const char *id, GError **error)
{
  g_autofree char *prefix = upload_prefix (id);
  g_autofree char *after = g_strconcat (prefix, "state-", NULL);
  g_autofree char *newest = NULL;
  g_autoptr (GPtrArray) page = object_store_list (ctx, objects, prefix, after, 1000, error);
  if (page == NULL)
    return NULL;
  for (guint i = 0; i < page->len; i++)
    {
      const ObjectInfo *info = g_ptr_array_index (page, i);
      if (!g_str_has_prefix (info->key + strlen (prefix), "state-"))
        break;
      g_free (newest);
      newest = g_strdup (info->key);
    }
  if (newest == NULL)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no upload %s", id);
  return g_steal_pointer (&newest);
}

static gboolean
state_read (GBytes *content, UploadState *out, guint *out_n_lists, GError **error)
{
  gsize size;
  const guint8 *bytes = g_bytes_get_data (content, &size);
  if (size < HEAD_SIZE + SUM_SIZE || memcmp (bytes, MAGIC, 4) != 0
      || wire_get_u64 (bytes + size - SUM_SIZE) != XXH3_64bits (bytes, size - SUM_SIZE) || bytes[4] != VERSION)
    return am_fail (error, AM_ERROR_DATA_LOSS, "BLOB_UPLOAD_UNKNOWN", "the upload's saved state is damaged");
  const guint8 *fixed = bytes + 24 + SHA256_SAVED_SIZE;
  gsize n_name = wire_get_u32 (bytes + 4) >> 16;
  guint n_inline = wire_get_u32 (fixed + 20);
  *out_n_lists = wire_get_u32 (fixed + 16);
  if (n_inline > UPLOAD_LIST_ENTRIES || *out_n_lists > RECIPE_MAX_CHUNKS / UPLOAD_LIST_ENTRIES
      || size != HEAD_SIZE + n_name + (gsize) n_inline * RECIPE_ENTRY_SIZE + SUM_SIZE || bytes[5] > UPLOAD_TAIL_FRAME)
    return am_fail (error, AM_ERROR_DATA_LOSS, "BLOB_UPLOAD_UNKNOWN", "the upload's saved state is damaged");
  out->tail = (UploadTail) bytes[5];
  out->created_ms = (gint64) wire_get_u64 (bytes + 8);
  out->boundary_bytes = wire_get_u64 (bytes + 16);
  sha256_load (&out->boundary_sha, bytes + 24);
  out->tail_bytes = wire_get_u64 (fixed);
  out->sequence = wire_get_u64 (fixed + 8);
  out->repository = g_strndup ((const char *) bytes + HEAD_SIZE, n_name);
  read_entries (bytes + HEAD_SIZE + n_name, n_inline, out->entries);
  return TRUE;
}

/* Entries of the full lists come before those inside the state. */
static gboolean
load_lists (Ctx *ctx, ObjectStore *objects, const char *id, guint n_lists, GArray *entries, GError **error)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  for (guint i = 0; i < n_lists; i++)
    {
      g_autofree char *key = upload_key (id, "list", i);
      g_autoptr (GBytes) list
        = object_store_get (ctx, objects, key, UPLOAD_LIST_ENTRIES * RECIPE_ENTRY_SIZE, error);
      if (list == NULL)
        return FALSE;
      if (g_bytes_get_size (list) != UPLOAD_LIST_ENTRIES * RECIPE_ENTRY_SIZE)
        return am_fail (error, AM_ERROR_DATA_LOSS, "BLOB_UPLOAD_UNKNOWN", "the upload's saved state is damaged");
      read_entries (g_bytes_get_data (list, NULL), UPLOAD_LIST_ENTRIES, all);
    }
  if (all->len > 0)
    g_array_prepend_vals (entries, all->data, all->len);
  return TRUE;
}

gboolean
upload_state_load (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *out_state, guint *out_n_lists,
                   GError **error)
{
  g_autofree char *key = newest_state (ctx, objects, id, error);
  g_autoptr (GBytes) bytes = key != NULL ? object_store_get (ctx, objects, key, MAX_STATE_BYTES, error) : NULL;
  if (bytes == NULL)
    return FALSE;
  out_state->entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  if (state_read (bytes, out_state, out_n_lists, error)
      && load_lists (ctx, objects, id, *out_n_lists, out_state->entries, error))
    return TRUE;
  upload_state_clear (out_state);
  return FALSE;
}

void
upload_state_clear (UploadState *self)
{
  g_clear_pointer (&self->repository, g_free);
  g_clear_pointer (&self->entries, g_array_unref);
}
