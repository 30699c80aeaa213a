#include "storage/upload_session.h"

#include <string.h>

#include "base/text.h"
#include "storage/blob_ingest.h"
#include "storage/upload_state.h"

#define SAVE_EVERY_BYTES (64u << 20)
#define READ_BLOCK_BYTES (1u << 20)

struct UploadSession {
  BlobStore *blobs;
  char id[37];
  UploadState state; /* boundary_* follow the last whole chunk */
  guint n_lists;     /* full entry lists written */
  BlobIngest ingest;
  GByteArray *head;   /* the first bytes, until it is known how to cut; NULL afterwards */
  gsize head_needed;
  guint64 saved_boundary; /* of the last save */
  gboolean failed;    /* the open chunk is not to be trusted: only the boundary counts */
  gboolean in_frames;   /* a stream of frames is under way */
  gboolean tail_parked; /* the tail lies in the store and must be read before going on */
  gboolean has_pins;
};

static UploadSession *
session_alloc (BlobStore *blobs, const char *id)
{
  UploadSession *self = g_new0 (UploadSession, 1);
  self->blobs = blobs;
  g_strlcpy (self->id, id, sizeof self->id);
  self->head_needed = BLOB_WHOLE_MAX_BYTES + 1;
  return self;
}

UploadSession *
upload_session_new (BlobStore *blobs, const char *repository)
{
  char id[37];
  text_uuid (id);
  UploadSession *self = session_alloc (blobs, id);
  self->state.created_ms = g_get_real_time () / 1000;
  self->state.repository = g_strdup (repository);
  self->state.entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  sha256_init (&self->state.boundary_sha);
  blob_ingest_init (&self->ingest, blobs, self->state.entries);
  return self;
}

void
upload_session_free (UploadSession *self)
{
  if (self == NULL)
    return;
  blob_ingest_clear (&self->ingest);
  upload_state_clear (&self->state);
  if (self->head != NULL)
    g_byte_array_unref (self->head);
  g_free (self);
}

UploadSession *
upload_session_open (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id, GError **error)
{
  if (!text_is_uuid (id))
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  g_autoptr (UploadSession) self = session_alloc (blobs, id);
  if (!upload_state_load (ctx, blob_store_objects (blobs), id, &self->state, &self->n_lists, error))
    return NULL;
  if (strcmp (self->state.repository, repository) != 0)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no upload %s", id);
  blob_ingest_init (&self->ingest, blobs, self->state.entries);
  blob_ingest_rewind (&self->ingest, &self->state.boundary_sha, self->state.boundary_bytes);
  self->saved_boundary = self->state.boundary_bytes;
  self->tail_parked = self->state.tail != UPLOAD_TAIL_NONE;
  self->has_pins = TRUE; /* unknown: cleaning up looks */
  return g_steal_pointer (&self);
}

const char *
upload_session_id (const UploadSession *self)
{
  return self->id;
}

guint64
upload_session_offset (const UploadSession *self)
{
  guint64 boundary = self->ingest.start_bytes;
  if (self->failed)
    return boundary;
  if (self->tail_parked)
    return boundary + self->state.tail_bytes;
  if (self->head != NULL)
    return self->head->len;
  gboolean raw = blob_ingest_has_open_chunk (&self->ingest) && !self->in_frames;
  return boundary + (raw ? self->ingest.chunk_fill + self->ingest.stripe_fill : 0);
}

/* Writes the state as of the last whole chunk, with whatever tail was parked. */
static gboolean
save_state (Ctx *ctx, UploadSession *self, GError **error)
{
  self->state.boundary_bytes = self->ingest.start_bytes;
  self->state.boundary_sha = self->ingest.boundary_sha;
  if (!upload_state_save (ctx, blob_store_objects (self->blobs), self->id, &self->state, &self->n_lists, error))
    return FALSE;
  self->saved_boundary = self->state.boundary_bytes;
  return TRUE;
}

/* Saves now and then, so that a crash costs little. */
static gboolean
save_if_due (Ctx *ctx, UploadSession *self, GError **error)
{
  if (self->state.sequence == 0 || self->ingest.start_bytes - self->saved_boundary < SAVE_EVERY_BYTES)
    return TRUE;
  self->state.tail = UPLOAD_TAIL_NONE;
  self->state.tail_bytes = 0;
  return save_state (ctx, self, error);
}

static gboolean
feed (Ctx *ctx, UploadSession *self, const guint8 *data, gsize size, GError **error)
{
  return blob_ingest_bytes (ctx, &self->ingest, data, size, error) && save_if_due (ctx, self, error);
}

/* The plan of a resumed blob comes from its first chunks, as it did the first time. */
static gboolean
recover_plan (Ctx *ctx, UploadSession *self, GError **error)
{
  g_autoptr (GByteArray) prefix = g_byte_array_new ();
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  for (guint i = 0; self->ingest.plan == NULL; i++)
    {
      gboolean is_last = i == self->state.entries->len;
      gsize needed = 0;
      if (!is_last)
        {
          const RecipeEntry *entry = &g_array_index (self->state.entries, RecipeEntry, i);
          gssize n = blob_store_read_chunk (ctx, self->blobs, entry->digest, chunk, error);
          if (n < 0)
            return FALSE;
          g_byte_array_append (prefix, chunk, (guint) n);
        }
      if (is_last || prefix->len > BLOB_WHOLE_MAX_BYTES)
        self->ingest.plan = chunk_plan_probe (prefix->data, prefix->len, is_last, &needed);
    }
  return TRUE;
}

static gboolean
take_raw (Ctx *ctx, UploadSession *self, const guint8 *data, gsize size, GError **error)
{
  if (self->ingest.plan != NULL)
    return feed (ctx, self, data, size, error);
  if (self->state.entries->len > 0)
    return recover_plan (ctx, self, error) && feed (ctx, self, data, size, error);
  if (self->head == NULL)
    self->head = g_byte_array_new ();
  gsize n = MIN (size, self->head_needed > self->head->len ? self->head_needed - self->head->len : 0);
  g_byte_array_append (self->head, data, (guint) n);
  if (self->head->len < self->head_needed)
    return TRUE;
  gsize needed = 0;
  self->ingest.plan = chunk_plan_probe (self->head->data, self->head->len, FALSE, &needed);
  if (self->ingest.plan == NULL)
    {
      self->head_needed = MIN (MAX (needed, self->head->len + 1), CHUNK_PLAN_HEADER_LIMIT_BYTES);
      return take_raw (ctx, self, data + n, size - n, error);
    }
  g_autoptr (GByteArray) head = g_steal_pointer (&self->head);
  return feed (ctx, self, head->data, head->len, error) && feed (ctx, self, data + n, size - n, error);
}

static gboolean
tail_header (gpointer data, const ChunkHeader *header, GError **error)
{
  return TRUE;
}

static gboolean
tail_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded, gsize decoded_size,
             GError **error)
{
  g_byte_array_append (data, decoded, (guint) decoded_size);
  return TRUE;
}

static gboolean
tail_end (gpointer data, GError **error)
{
  return TRUE;
}

/* Decoded bytes of the parked tail. */
static GByteArray *
read_tail (Ctx *ctx, UploadSession *self, GError **error)
{
  static const ChunkParserEvents events = { tail_header, tail_stripe, tail_end };
  g_autofree char *key = upload_key (self->id, "tail", self->state.sequence);
  g_autoptr (GByteArray) decoded = g_byte_array_new ();
  g_autoptr (GBytes) stored
    = object_store_get (ctx, blob_store_objects (self->blobs), key, CHUNK_PLAN_HEADER_LIMIT_BYTES, error);
  if (stored == NULL)
    return NULL;
  gsize size;
  const guint8 *bytes = g_bytes_get_data (stored, &size);
  g_autoptr (ChunkParser) parser = chunk_parser_new (&events, decoded);
  if (self->state.tail == UPLOAD_TAIL_RAW)
    g_byte_array_append (decoded, bytes, (guint) size);
  else if (!chunk_parser_feed (parser, bytes, size, error))
    return NULL;
  if (decoded->len != self->state.tail_bytes)
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "BLOB_UPLOAD_UNKNOWN", "the upload's saved tail is damaged");
  return g_steal_pointer (&decoded);
}

/* Reads the parked tail back through the ordinary way in. */
static gboolean
unpark (Ctx *ctx, UploadSession *self, GError **error)
{
  if (!self->tail_parked)
    return TRUE;
  g_autoptr (GByteArray) tail = read_tail (ctx, self, error);
  if (tail == NULL)
    return FALSE;
  self->tail_parked = FALSE;
  return take_raw (ctx, self, tail->data, tail->len, error);
}

gboolean
upload_session_write (Ctx *ctx, UploadSession *self, gconstpointer data, gsize size, GError **error)
{
  g_assert (!self->failed);
  if (size == 0)
    return TRUE;
  if (unpark (ctx, self, error) && take_raw (ctx, self, data, size, error))
    return TRUE;
  self->failed = TRUE;
  return FALSE;
}

/* What is raw and open is closed where it stands. */
static gboolean
close_raw (Ctx *ctx, UploadSession *self, GError **error)
{
  if (self->head != NULL)
    {
      g_autoptr (GByteArray) head = g_steal_pointer (&self->head);
      gsize needed = 0;
      self->ingest.plan = chunk_plan_probe (head->data, head->len, TRUE, &needed);
      if (!feed (ctx, self, head->data, head->len, error))
        return FALSE;
    }
  return blob_ingest_close_chunk (ctx, &self->ingest, error);
}

gboolean
upload_session_frames (Ctx *ctx, UploadSession *self, gconstpointer data, gsize size, GError **error)
{
  g_assert (!self->failed);
  gboolean ok = self->in_frames || (unpark (ctx, self, error) && close_raw (ctx, self, error));
  self->in_frames = TRUE;
  if (ok && blob_ingest_frames (ctx, &self->ingest, data, size, error) && save_if_due (ctx, self, error))
    return TRUE;
  self->failed = TRUE;
  return FALSE;
}

gboolean
upload_session_frames_end (UploadSession *self, GError **error)
{
  self->in_frames = FALSE;
  if (self->ingest.parser == NULL || chunk_parser_between_frames (self->ingest.parser))
    return TRUE;
  self->failed = TRUE;
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID", "the body ends inside a chunk frame");
}

gboolean
upload_session_known (Ctx *ctx, UploadSession *self, const guint8 *digests, gsize n, GString *out_answers,
                      GError **error)
{
  char uuid[37];
  /* Pinned first, asked afterwards: what is answered as known cannot be collected in between. */
  text_uuid (uuid);
  g_autofree char *key = g_strdup_printf ("_ai_models/uploads/%s/pins-%s", self->id, uuid);
  if (!object_store_put (ctx, blob_store_objects (self->blobs), key, digests, n * 32, OBJECT_COMMIT_LAZY, error))
    return FALSE;
  self->has_pins = TRUE;
  for (gsize i = 0; i < n; i++)
    {
      gboolean has = FALSE;
      if (!blob_store_has_chunk (ctx, self->blobs, digests + 32 * i, &has, error))
        return FALSE;
      g_string_append_c (out_answers, has ? '1' : '0');
    }
  return TRUE;
}

/* Puts what lies behind the last whole chunk into the store, so that the state may name it. */
static gboolean
park (Ctx *ctx, UploadSession *self, GError **error)
{
  g_autofree char *key = upload_key (self->id, "tail", self->state.sequence + 1);
  gboolean raw = self->head != NULL && self->head->len > 0;
  gboolean frame = blob_ingest_has_open_chunk (&self->ingest) && !self->in_frames;
  self->state.tail_bytes = upload_session_offset (self) - self->ingest.start_bytes;
  self->state.tail = raw ? UPLOAD_TAIL_RAW : frame ? UPLOAD_TAIL_FRAME : UPLOAD_TAIL_NONE;
  if (raw
      && !object_store_put (ctx, blob_store_objects (self->blobs), key, self->head->data, self->head->len,
                            OBJECT_COMMIT_LAZY, error))
    return FALSE;
  return !frame || blob_ingest_park_chunk (ctx, &self->ingest, key, error);
}

/* From here on the session is as if it had been opened anew. */
static void
reset_to_saved (UploadSession *self)
{
  g_clear_pointer (&self->head, g_byte_array_unref);
  g_clear_pointer (&self->ingest.plan, chunk_plan_free);
  self->head_needed = BLOB_WHOLE_MAX_BYTES + 1;
  blob_ingest_rewind (&self->ingest, &self->state.boundary_sha, self->state.boundary_bytes);
  self->tail_parked = self->state.tail != UPLOAD_TAIL_NONE;
  self->failed = FALSE;
  self->in_frames = FALSE;
}

gboolean
upload_session_save (Ctx *ctx, UploadSession *self, GError **error)
{
  if (self->tail_parked && !self->failed)
    return TRUE; /* nothing was added since */
  if (self->failed && self->state.sequence > 0 && self->ingest.start_bytes == self->saved_boundary)
    {
      /* No whole chunk since the last save: what it holds, its tail included, still stands. */
      reset_to_saved (self);
      return TRUE;
    }
  if (self->failed)
    {
      self->state.tail = UPLOAD_TAIL_NONE;
      self->state.tail_bytes = 0;
    }
  else if (!park (ctx, self, error))
    return FALSE;
  if (!save_state (ctx, self, error))
    return FALSE;
  reset_to_saved (self);
  return TRUE;
}

/* Everything below the session's prefix, where something may be. */
static gboolean
forget (Ctx *ctx, UploadSession *self, GError **error)
{
  g_autofree char *prefix = upload_prefix (self->id);
  return (self->state.sequence == 0 && !self->has_pins)
         || object_store_remove_prefix (ctx, blob_store_objects (self->blobs), prefix, error);
}

gboolean
upload_session_cancel (Ctx *ctx, UploadSession *self, GError **error)
{
  return forget (ctx, self, error);
}

/* Reads the stored chunks again, in order, into `take`. */
static gboolean
reread (Ctx *ctx, UploadSession *self, Hasher *hasher, GByteArray *bytes, GError **error)
{
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  for (guint i = 0; i < self->state.entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (self->state.entries, RecipeEntry, i);
      gssize n = blob_store_read_chunk (ctx, self->blobs, entry->digest, chunk, error);
      if (n < 0)
        return FALSE;
      if (hasher != NULL)
        hasher_update (hasher, chunk, (gsize) n);
      if (bytes != NULL)
        g_byte_array_append (bytes, chunk, (guint) n);
    }
  return TRUE;
}

/* SHA-256 was carried along; another algorithm is known only now and costs a second reading. */
static gboolean
blob_digest (Ctx *ctx, UploadSession *self, DigestAlgorithm algorithm, Digest *out_digest, GError **error)
{
  if (algorithm == DIGEST_SHA256)
    {
      sha256_peek (&self->ingest.blob_sha, out_digest);
      return TRUE;
    }
  g_autoptr (Hasher) hasher = hasher_new (algorithm);
  if (!reread (ctx, self, hasher, NULL, error))
    return FALSE;
  hasher_finish (hasher, out_digest);
  return TRUE;
}

static gboolean
refuse_digest (Ctx *ctx, UploadSession *self, const Digest *expected, const Digest *actual, GError **error)
{
  char wanted[DIGEST_STRING_SIZE], got[DIGEST_STRING_SIZE];
  g_autoptr (GError) problem = NULL;
  if (!forget (ctx, self, &problem))
    am_ignore (&problem, "the session will expire");
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the uploaded bytes have digest %s, not %s",
                  digest_format (actual, got), digest_format (expected, wanted));
}

/* A small blob that never went through the chunker. */
static gboolean
finish_head (Ctx *ctx, UploadSession *self, const Digest *expected, GError **error)
{
  g_autoptr (GByteArray) head = self->head != NULL ? g_steal_pointer (&self->head) : g_byte_array_new ();
  Digest actual;
  digest_of (expected->algorithm, head->data, head->len, &actual);
  if (!digest_equal (expected, &actual))
    return refuse_digest (ctx, self, expected, &actual, error);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (g_steal_pointer (&head));
  return blob_store_put_whole (ctx, self->blobs, expected, bytes, error);
}

static gboolean
finish_chunked (Ctx *ctx, UploadSession *self, const Digest *expected, GError **error)
{
  Digest actual;
  if (!close_raw (ctx, self, error) || !blob_digest (ctx, self, expected->algorithm, &actual, error))
    return FALSE;
  if (!digest_equal (expected, &actual))
    return refuse_digest (ctx, self, expected, &actual, error);
  if (self->ingest.start_bytes <= BLOB_WHOLE_MAX_BYTES)
    {
      /* Small blobs are kept whole however they came. */
      g_autoptr (GByteArray) all = g_byte_array_new ();
      if (!reread (ctx, self, NULL, all, error))
        return FALSE;
      g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (g_steal_pointer (&all));
      return blob_store_put_whole (ctx, self->blobs, expected, bytes, error);
    }
  g_autoptr (Recipe) recipe = recipe_new (expected, self->ingest.start_bytes, self->state.entries);
  return blob_store_put_recipe (ctx, self->blobs, recipe, error);
}

gboolean
upload_session_finish (Ctx *ctx, UploadSession *self, const Digest *expected, GError **error)
{
  g_assert (!self->failed);
  self->in_frames = FALSE;
  gboolean ok = unpark (ctx, self, error);
  gboolean small = ok && self->state.entries->len == 0 && self->ingest.plan == NULL
                   && (self->head == NULL || self->head->len <= BLOB_WHOLE_MAX_BYTES);
  ok = ok && (small ? finish_head (ctx, self, expected, error) : finish_chunked (ctx, self, expected, error));
  if (!ok)
    {
      self->failed = TRUE;
      return FALSE;
    }
  g_autoptr (GError) problem = NULL;
  if (!forget (ctx, self, &problem))
    am_ignore (&problem, "the blob is stored; its session will expire");
  return TRUE;
}

static void
add_pins (GHashTable *set, const guint8 *digests, gsize n, gsize stride)
{
  for (gsize i = 0; i < n; i++)
    g_hash_table_add (set, g_bytes_new (digests + i * stride, 32));
}

/* What one live session holds: what it was told as known, and what it has stored. */
static gboolean
collect_session (Ctx *ctx, BlobStore *blobs, const char *id, GPtrArray *pin_keys, GHashTable *set, GError **error)
{
  for (guint i = 0; i < pin_keys->len; i++)
    {
      g_autoptr (GBytes) pins = object_store_get (ctx, blob_store_objects (blobs), g_ptr_array_index (pin_keys, i),
                                                  CHUNK_MAX_BYTES, error);
      if (pins == NULL)
        return FALSE;
      add_pins (set, g_bytes_get_data (pins, NULL), g_bytes_get_size (pins) / 32, 32);
    }
  UploadState state = { 0 };
  guint n_lists;
  g_autoptr (GError) problem = NULL;
  if (!upload_state_load (ctx, blob_store_objects (blobs), id, &state, &n_lists, &problem))
    {
      am_ignore (&problem, "the session ended, or never saved its state");
      return TRUE;
    }
  add_pins (set, (const guint8 *) state.entries->data, state.entries->len, sizeof (RecipeEntry));
  upload_state_clear (&state);
  return TRUE;
}

gboolean
upload_session_collect_pins (Ctx *ctx, BlobStore *blobs, gint64 now_ms, GHashTable *out_set, GError **error)
{
  static const char prefix[] = "_ai_models/uploads/";
  g_autofree char *after = NULL;
  for (;;)
    {
      /* One session at a time: the page starts with its first key. */
      g_autoptr (GPtrArray) first = object_store_list (ctx, blob_store_objects (blobs), prefix, after, 1, error);
      if (first == NULL || first->len == 0)
        return first != NULL;
      const ObjectInfo *info = g_ptr_array_index (first, 0);
      g_autofree char *id = g_strndup (info->key + strlen (prefix), 36);
      g_autofree char *own = upload_prefix (id);
      g_autoptr (GPtrArray) page = object_store_list (ctx, blob_store_objects (blobs), own, NULL, 1000, error);
      g_autoptr (GPtrArray) pin_keys = g_ptr_array_new ();
      gboolean alive = FALSE;
      for (guint i = 0; page != NULL && i < page->len; i++)
        {
          const ObjectInfo *each = g_ptr_array_index (page, i);
          alive = alive || now_ms - each->modified_ms < UPLOAD_SESSION_TTL_MS;
          if (g_str_has_prefix (each->key + strlen (own), "pins-"))
            g_ptr_array_add (pin_keys, each->key);
        }
      if (page == NULL || (alive && !collect_session (ctx, blobs, id, pin_keys, out_set, error)))
        return FALSE;
      g_free (after);
      after = g_strconcat (own, "\xf4\x8f\xbf\xbf", NULL);
    }
}
