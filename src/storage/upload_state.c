#include "storage/upload_state.h"

#include <string.h>
#include <xxhash.h>

#include "base/digest.h"
#include "base/text.h"
#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"
#include "storage/wire.h"

/* "AMUS", version, tail kind, u16 length of the repository's name, u64 created, u64 boundary, the saved SHA-256,
 * u64 tail size, tail digest, u64 sequence, u64 holder, u32 lists, u32 entries; then the name, the lists' sums,
 * the entries, and u64 XXH3-64 of all before. */
#define MAGIC "AMUS"
#define VERSION 1
#define AT_CREATED 8
#define AT_BOUNDARY 16
#define AT_SHA 24
#define AT_TAIL_SIZE (AT_SHA + SHA256_SAVED_SIZE)
#define AT_TAIL_DIGEST (AT_TAIL_SIZE + 8)
#define AT_SEQUENCE (AT_TAIL_DIGEST + 32)
#define AT_HOLDER (AT_SEQUENCE + 8)
#define AT_LISTS (AT_HOLDER + 8)
#define AT_ENTRIES (AT_LISTS + 4)
#define HEAD_SIZE (AT_ENTRIES + 4)
#define SUM_SIZE 8
#define MAX_LISTS (RECIPE_MAX_CHUNKS / UPLOAD_LIST_ENTRIES)
#define LIST_SIZE (UPLOAD_LIST_ENTRIES * RECIPE_ENTRY_SIZE)
#define MAX_STATE_BYTES (HEAD_SIZE + UPLOAD_MAX_REPOSITORY_BYTES + MAX_LISTS * 8 + LIST_SIZE + SUM_SIZE)
#define LOAD_ATTEMPTS 8 /* without another state to be seen */
#define LIST_ATTEMPTS 16
#define LIST_ATTEMPTS_AT_ONCE 4
#define LIST_PAUSE_MS 2
/* On a far store so many states are made before somebody looks around again, and removed at once. */
#define DROP_BATCH 8u

void
upload_state_init (UploadState *self)
{
  memset (self, 0, sizeof *self);
  self->entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  self->lists = g_array_new (FALSE, FALSE, sizeof (guint64));
  sha256_init (&self->boundary_sha);
}

void
upload_state_clear (UploadState *self)
{
  g_clear_pointer (&self->repository, g_free);
  g_clear_pointer (&self->entries, g_array_unref);
  g_clear_pointer (&self->lists, g_array_unref);
}

char *
upload_prefix (const char *id)
{
  return g_strdup_printf (UPLOADS_PREFIX "%s/", id);
}

void
upload_name (const char *repository, const char *key, char out_id[UPLOAD_ID_LENGTH + 1])
{
  g_autofree char *text = g_strdup_printf ("%s\n%s", repository, key);
  Digest digest;
  char hex[2 * DIGEST_MAX_BYTES + 1];
  digest_of (DIGEST_SHA256, text, strlen (text), &digest);
  digest_hex (&digest, hex);
  /* Version 8, variant 2: made by another rule than those of RFC 9562. */
  g_snprintf (out_id, UPLOAD_ID_LENGTH + 1, "%.8s-%.4s-8%.3s-a%.3s-%.12s", hex, hex + 8, hex + 12, hex + 15,
              hex + 18);
}

char *
upload_tail_prefix (const char *id)
{
  return g_strdup_printf (UPLOADS_PREFIX "%s/tail-", id);
}

char *
upload_tail_key (const char *id, const UploadState *state)
{
  char hex[CHUNK_HEX_SIZE];
  return g_strdup_printf (UPLOADS_PREFIX "%s/tail-%s", id, chunk_digest_hex (state->tail_digest, hex));
}

static char *
state_key (const char *id, guint64 sequence)
{
  return g_strdup_printf (UPLOADS_PREFIX "%s/state-%012" G_GUINT64_FORMAT, id, sequence);
}

static char *
list_key (const char *id, guint number, guint64 sum)
{
  return g_strdup_printf (UPLOADS_PREFIX "%s/list-%06u-%016" G_GINT64_MODIFIER "x", id, number, sum);
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
      guint8 sizes[8];
      wire_put_u32 (sizes, entry->decoded_size);
      wire_put_u32 (sizes + 4, entry->encoded_size);
      g_byte_array_append (out, entry->digest, sizeof entry->digest);
      g_byte_array_append (out, sizes, sizeof sizes);
    }
}

static gboolean
read_entries (const guint8 *bytes, guint n, GArray *entries)
{
  for (guint i = 0; i < n; i++, bytes += RECIPE_ENTRY_SIZE)
    {
      RecipeEntry entry = { .decoded_size = wire_get_u32 (bytes + 32), .encoded_size = wire_get_u32 (bytes + 36) };
      memcpy (entry.digest, bytes, sizeof entry.digest);
      if (entry.decoded_size == 0 || entry.decoded_size > CHUNK_MAX_BYTES)
        return FALSE;
      g_array_append_val (entries, entry);
    }
  return TRUE;
}

GByteArray *
upload_state_write (const UploadState *self)
{
  guint8 head[HEAD_SIZE] = MAGIC;
  gsize n_name = strlen (self->repository);
  guint first = self->lists->len * UPLOAD_LIST_ENTRIES;
  g_assert (n_name <= UPLOAD_MAX_REPOSITORY_BYTES && first <= self->entries->len);
  wire_put_u32 (head + 4, VERSION | (guint32) self->tail << 8 | (guint32) n_name << 16);
  wire_put_u64 (head + AT_CREATED, (guint64) self->created_ms);
  wire_put_u64 (head + AT_BOUNDARY, self->boundary_bytes);
  sha256_save (&self->boundary_sha, head + AT_SHA);
  wire_put_u64 (head + AT_TAIL_SIZE, self->tail_bytes);
  memcpy (head + AT_TAIL_DIGEST, self->tail_digest, sizeof self->tail_digest);
  wire_put_u64 (head + AT_SEQUENCE, self->sequence);
  wire_put_u64 (head + AT_HOLDER, self->holder);
  wire_put_u32 (head + AT_LISTS, self->lists->len);
  wire_put_u32 (head + AT_ENTRIES, self->entries->len - first);
  GByteArray *out = g_byte_array_new ();
  g_byte_array_append (out, head, sizeof head);
  g_byte_array_append (out, (const guint8 *) self->repository, (guint) n_name);
  for (guint i = 0; i < self->lists->len; i++)
    append_u64 (out, g_array_index (self->lists, guint64, i));
  append_entries (out, self->entries, first, self->entries->len);
  append_u64 (out, XXH3_64bits (out->data, out->len));
  return out;
}

static gboolean
fail_unusable (GError **error)
{
  return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN",
                  "the upload's saved state is damaged: start the upload again");
}

/* Room for a tail of its kind: nothing, a head that is waited for, or less than a chunk. */
static gboolean
tail_is_sane (UploadTail tail, guint64 tail_bytes)
{
  static const guint64 limits[] = { 0, CHUNK_PLAN_HEADER_LIMIT_BYTES, CHUNK_MAX_BYTES };
  return (tail == UPLOAD_TAIL_NONE) == (tail_bytes == 0) && tail_bytes <= limits[tail];
}

gboolean
upload_state_read (GBytes *content, UploadState *out, GError **error)
{
  gsize size;
  const guint8 *bytes = g_bytes_get_data (content, &size);
  if (size < HEAD_SIZE + SUM_SIZE || memcmp (bytes, MAGIC, 4) != 0 || bytes[4] != VERSION
      || bytes[5] > UPLOAD_TAIL_FRAME
      || wire_get_u64 (bytes + size - SUM_SIZE) != XXH3_64bits (bytes, size - SUM_SIZE))
    return fail_unusable (error);
  gsize n_name = wire_get_u32 (bytes + 4) >> 16;
  guint n_lists = wire_get_u32 (bytes + AT_LISTS);
  guint n_entries = wire_get_u32 (bytes + AT_ENTRIES);
  const guint8 *name = bytes + HEAD_SIZE;
  const guint8 *sums = name + n_name;
  if (n_name > UPLOAD_MAX_REPOSITORY_BYTES || n_lists > MAX_LISTS || n_entries > UPLOAD_LIST_ENTRIES
      || size != HEAD_SIZE + n_name + n_lists * 8 + (gsize) n_entries * RECIPE_ENTRY_SIZE + SUM_SIZE
      || memchr (name, '\0', n_name) != NULL || !read_entries (sums + n_lists * 8, n_entries, out->entries))
    return fail_unusable (error);
  out->tail = (UploadTail) bytes[5];
  out->created_ms = (gint64) wire_get_u64 (bytes + AT_CREATED);
  out->boundary_bytes = wire_get_u64 (bytes + AT_BOUNDARY);
  sha256_load (&out->boundary_sha, bytes + AT_SHA);
  out->tail_bytes = wire_get_u64 (bytes + AT_TAIL_SIZE);
  memcpy (out->tail_digest, bytes + AT_TAIL_DIGEST, sizeof out->tail_digest);
  out->sequence = wire_get_u64 (bytes + AT_SEQUENCE);
  out->holder = wire_get_u64 (bytes + AT_HOLDER);
  out->repository = g_strndup ((const char *) name, n_name);
  for (guint i = 0; i < n_lists; i++)
    {
      guint64 sum = wire_get_u64 (sums + 8 * i);
      g_array_append_val (out->lists, sum);
    }
  return (out->boundary_sha.length == out->boundary_bytes && tail_is_sane (out->tail, out->tail_bytes))
         || fail_unusable (error);
}

static gboolean
save_lists (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, GError **error)
{
  while (state->entries->len >= (state->lists->len + 1) * UPLOAD_LIST_ENTRIES)
    {
      guint number = state->lists->len;
      g_autoptr (GByteArray) list = g_byte_array_sized_new (LIST_SIZE);
      append_entries (list, state->entries, number * UPLOAD_LIST_ENTRIES, (number + 1) * UPLOAD_LIST_ENTRIES);
      guint64 sum = XXH3_64bits (list->data, list->len);
      g_autofree char *key = list_key (id, number, sum);
      if (!object_store_put (ctx, objects, key, list->data, list->len, OBJECT_COMMIT_LAZY, error))
        return FALSE;
      g_array_append_val (state->lists, sum);
    }
  return TRUE;
}

/* Keys of the session's states in the order of their sequence. */
static GPtrArray *
list_states (Ctx *ctx, ObjectStore *objects, const char *id, GError **error)
{
  g_autofree char *prefix = upload_prefix (id);
  g_autofree char *after = g_strconcat (prefix, "state-", NULL);
  g_autoptr (GPtrArray) page = object_store_list (ctx, objects, prefix, after, 1000, error);
  if (page == NULL)
    return NULL;
  GPtrArray *keys = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < page->len; i++)
    {
      const ObjectInfo *info = g_ptr_array_index (page, i);
      if (g_str_has_prefix (info->key, after))
        g_ptr_array_add (keys, g_strdup (info->key));
    }
  return keys;
}

static gboolean
fail_taken (const char *id, GError **error)
{
  return am_fail (error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID", "upload %s is being continued by another request",
                  id);
}

/* A holder that was overtaken by two states creates one that nobody created before; it shows by a later one, and by
 * the lack of the one before, which only its successor's writer and the session's end remove. */
static gboolean
is_successor (const GPtrArray *keys, const char *key, const char *before_key)
{
  gboolean has_before = before_key == NULL;
  for (guint i = 0; i < keys->len; i++)
    has_before = has_before || strcmp (g_ptr_array_index (keys, i), before_key) == 0;
  return has_before && keys->len > 0 && strcmp (g_ptr_array_index (keys, keys->len - 1), key) == 0;
}

static void
drop_object (Ctx *ctx, ObjectStore *objects, const char *key)
{
  g_autoptr (GError) problem = NULL;
  if (!object_store_remove (ctx, objects, key, &problem))
    am_ignore (&problem, "it goes with the session");
}

gboolean
upload_pins_put (Ctx *ctx, ObjectStore *objects, const char *id, const guint8 *digests, gsize n, GError **error)
{
  char uuid[37];
  text_uuid (uuid);
  g_autofree char *key = g_strdup_printf (UPLOADS_PREFIX "%s/pins-%s", id, uuid);
  return object_store_put (ctx, objects, key, digests, n * 32, OBJECT_COMMIT_LAZY, error);
}

/* Of a far store: those that have been succeeded for long. That the next ones stay is what stops a holder who was
 * overtaken: he would create a state that is there. */
static void
drop_old_states (Ctx *ctx, ObjectStore *objects, const char *id, guint64 sequence)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) problem = NULL;
  for (guint64 old = sequence - 2 * DROP_BATCH + 1; old <= sequence - DROP_BATCH; old++)
    g_ptr_array_add (keys, state_key (id, old));
  if (!object_store_remove_many (ctx, objects, (const char *const *) keys->pdata, keys->len, &problem))
    am_ignore (&problem, "they go with the session");
}

static void
drop_before (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, const UploadState *before,
             const GPtrArray *keys)
{
  if (!object_store_is_far (objects))
    for (guint i = 0; i + 1 < keys->len; i++)
      drop_object (ctx, objects, g_ptr_array_index (keys, i));
  else if (state->sequence % DROP_BATCH == 0 && state->sequence >= 2 * DROP_BATCH)
    drop_old_states (ctx, objects, id, state->sequence);
  if (before->tail != UPLOAD_TAIL_NONE && memcmp (before->tail_digest, state->tail_digest, 32) != 0)
    {
      g_autofree char *tail = upload_tail_key (id, before);
      drop_object (ctx, objects, tail);
    }
}

/* Whether the state just written is the newest, by a look at all. */
static gboolean
look_around (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, const UploadState *before,
             guint64 seen, GError **error)
{
  g_autofree char *key = state_key (id, state->sequence);
  g_autofree char *seen_key = seen > 0 ? state_key (id, seen) : NULL;
  g_autoptr (GPtrArray) keys = list_states (ctx, objects, id, error);
  if (keys == NULL)
    return FALSE;
  if (!is_successor (keys, key, seen_key))
    {
      drop_object (ctx, objects, key);
      return fail_taken (id, error);
    }
  drop_before (ctx, objects, id, state, before, keys);
  return TRUE;
}

gboolean
upload_state_save (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state,
                   const UploadState *before, guint64 seen, gboolean is_last, gboolean *out_is_seen, GError **error)
{
  gboolean is_first = before->sequence == 0;
  gboolean looks = !object_store_is_far (objects) || (!is_first && (is_last || state->sequence % DROP_BATCH == 0));
  g_assert (state->sequence == before->sequence + 1);
  if (!save_lists (ctx, objects, id, state, error))
    return FALSE;
  g_autoptr (GByteArray) bytes = upload_state_write (state);
  g_autofree char *key = state_key (id, state->sequence);
  g_autoptr (GError) problem = NULL;
  if (!object_store_put (ctx, objects, key, bytes->data, bytes->len, OBJECT_COMMIT_IF_ABSENT | OBJECT_COMMIT_LAZY,
                         &problem))
    {
      if (am_error_is (problem, AM_ERROR_ALREADY_EXISTS))
        return fail_taken (id, error);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (looks && !look_around (ctx, objects, id, state, before, seen, error))
    return FALSE;
  *out_is_seen = looks || is_first;
  return TRUE;
}

gboolean
upload_state_check (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, guint64 seen,
                    GError **error)
{
  g_autofree char *key = state_key (id, state->sequence);
  g_autofree char *seen_key = seen > 0 ? state_key (id, seen) : NULL;
  g_autoptr (GPtrArray) keys = list_states (ctx, objects, id, error);
  if (keys == NULL)
    return FALSE;
  return is_successor (keys, key, seen_key) || fail_taken (id, error);
}

gboolean
upload_state_settle (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, gboolean *out_is_saved,
                     GError **error)
{
  g_autofree char *key = state_key (id, state->sequence);
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) bytes = object_store_get (ctx, objects, key, MAX_STATE_BYTES, &problem);
  g_auto (UploadState) there;
  upload_state_init (&there);
  if (bytes == NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (bytes != NULL && (!upload_state_read (bytes, &there, NULL) || there.holder != state->holder))
    return fail_taken (id, error);
  *out_is_saved = bytes != NULL;
  return TRUE;
}

/* Entries of the full lists come before those inside the state. NOT_FOUND when a list is gone. */
static gboolean
load_lists (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *state, GError **error)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  for (guint i = 0; i < state->lists->len; i++)
    {
      gsize size;
      guint64 sum = g_array_index (state->lists, guint64, i);
      g_autofree char *key = list_key (id, i, sum);
      g_autoptr (GBytes) list = object_store_get (ctx, objects, key, LIST_SIZE, error);
      if (list == NULL)
        return FALSE;
      const guint8 *bytes = g_bytes_get_data (list, &size);
      if (size != LIST_SIZE || XXH3_64bits (bytes, size) != sum || !read_entries (bytes, UPLOAD_LIST_ENTRIES, all))
        return fail_unusable (error);
    }
  g_array_append_vals (all, state->entries->data, state->entries->len);
  guint64 total = 0;
  for (guint i = 0; i < all->len; i++)
    total += g_array_index (all, RecipeEntry, i).decoded_size;
  if (total != state->boundary_bytes)
    return fail_unusable (error);
  g_array_unref (state->entries);
  state->entries = g_steal_pointer (&all);
  return TRUE;
}

/* The states, of which there is one at least unless the session is gone. A listing of a directory may see neither of two
 * while one takes the other's place; a far store keeps some that are over. */
static GPtrArray *
list_live (Ctx *ctx, ObjectStore *objects, const char *id, GError **error)
{
  guint n_attempts = object_store_is_far (objects) ? 1 : LIST_ATTEMPTS;
  for (guint i = 0; i < n_attempts; i++)
    {
      if (i >= LIST_ATTEMPTS_AT_ONCE && !ctx_sleep_ms (ctx, LIST_PAUSE_MS, error))
        return NULL;
      g_autoptr (GPtrArray) keys = list_states (ctx, objects, id, error);
      if (keys == NULL || keys->len > 0)
        return g_steal_pointer (&keys);
    }
  am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no upload %s", id);
  return NULL;
}

/* `*newest` is the key that was tried last, before and after. */
static gboolean
load_newest (Ctx *ctx, ObjectStore *objects, const char *id, gboolean with_lists, UploadState *out_state,
             char **newest, gboolean *out_goes_on, GError **error)
{
  g_autoptr (GPtrArray) keys = list_live (ctx, objects, id, error);
  *out_goes_on = FALSE;
  if (keys == NULL)
    return FALSE;
  const char *key = g_ptr_array_index (keys, keys->len - 1);
  *out_goes_on = g_strcmp0 (key, *newest) > 0; /* they are numbered */
  g_free (*newest);
  *newest = g_strdup (key);
  g_autoptr (GBytes) bytes = object_store_get (ctx, objects, key, MAX_STATE_BYTES, error);
  return bytes != NULL && upload_state_read (bytes, out_state, error)
         && (!with_lists || load_lists (ctx, objects, id, out_state, error));
}

static gboolean
load (Ctx *ctx, ObjectStore *objects, const char *id, gboolean with_lists, UploadState *out_state, GError **error)
{
  g_autofree char *newest = NULL;
  for (guint attempt = 1;; attempt++)
    {
      g_autoptr (GError) problem = NULL;
      g_auto (UploadState) state;
      gboolean goes_on = FALSE;
      upload_state_init (&state);
      if (load_newest (ctx, objects, id, with_lists, &state, &newest, &goes_on, &problem))
        {
          upload_state_clear (out_state);
          *out_state = state;
          memset (&state, 0, sizeof state);
          return TRUE;
        }
      /* An object that is gone without a reason of ours: the holder went on, or ended the session, meanwhile. */
      gboolean is_race = am_error_is (problem, AM_ERROR_NOT_FOUND) && am_error_reason (problem) == NULL;
      if (is_race && goes_on) /* each look may be too late for the next state: that proves nothing */
        attempt = 0;
      if (is_race && attempt < LOAD_ATTEMPTS)
        continue;
      if (is_race)
        return fail_unusable (error);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
}

gboolean
upload_state_load (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *out_state, GError **error)
{
  return load (ctx, objects, id, TRUE, out_state, error);
}

char *
upload_state_repository (Ctx *ctx, ObjectStore *objects, const char *id, GError **error)
{
  g_auto (UploadState) state;
  upload_state_init (&state);
  return load (ctx, objects, id, FALSE, &state, error) ? g_steal_pointer (&state.repository) : NULL;
}
