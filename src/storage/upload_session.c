#include "storage/upload_session.h"

#include <string.h>

#include "base/text.h"
#include "storage/blob_ingest.h"
#include "storage/blob_private.h"
#include "storage/upload_state.h"

#define SAVE_EVERY_BYTES (48u << 20)

struct UploadSession {
  BlobStore *blobs;
  char id[37];
  UploadState state;     /* as it was saved last; its entries and lists may be ahead of that */
  guint n_saved_entries; /* of the entries */
  guint64 seen;          /* sequence of the last state that was surely the session's newest */
  UploadState attempted; /* when saving failed: what may have been saved all the same; it borrows the arrays */
  guint n_attempted_entries;
  gboolean is_unclear; /* whether it was */
  BlobIngest ingest;
  GByteArray *head; /* the first bytes, until it is known how to cut; NULL afterwards */
  gsize head_needed;
  gboolean is_overtaken; /* another holder went on */
  gboolean failed;       /* the open chunk is not to be trusted: only the boundary counts */
  gboolean in_frames;    /* a stream of frames is under way */
  gboolean tail_parked;  /* the tail lies in the store and must be read before going on */
  gboolean has_objects;  /* something may lie in the store under the session's name */
};

static UploadSession *
session_alloc (BlobStore *blobs, const char *id)
{
  UploadSession *self = g_new0 (UploadSession, 1);
  self->blobs = blobs;
  g_strlcpy (self->id, id, sizeof self->id);
  self->head_needed = BLOB_WHOLE_MAX_BYTES + 1;
  upload_state_init (&self->state);
  return self;
}

static ObjectStore *
objects_of (UploadSession *self)
{
  return blob_store_objects (self->blobs);
}

UploadSession *
upload_session_new (BlobStore *blobs, const char *repository)
{
  char id[37];
  text_uuid (id);
  UploadSession *self = session_alloc (blobs, id);
  self->state.created_ms = g_get_real_time () / 1000;
  self->state.repository = g_strdup (repository);
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

/* Everything below the session's prefix, where something may be. */
static gboolean
forget (Ctx *ctx, UploadSession *self, GError **error)
{
  g_autofree char *prefix = upload_prefix (self->id);
  return !self->has_objects || object_store_remove_prefix (ctx, objects_of (self), prefix, error);
}

UploadSession *
upload_session_named (Ctx *ctx, BlobStore *blobs, const char *repository, const char *key, GError **error)
{
  char id[UPLOAD_ID_LENGTH + 1];
  g_autoptr (GError) problem = NULL;
  upload_name (repository, key, id);
  UploadSession *found = upload_session_open (ctx, blobs, repository, id, &problem);
  if (found != NULL)
    return found;
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  g_autoptr (UploadSession) self = upload_session_new (blobs, repository);
  g_strlcpy (self->id, id, sizeof self->id);
  /* What is too damaged to be opened is in the way. */
  self->has_objects = TRUE;
  return forget (ctx, self, error) && upload_session_save (ctx, self, error) ? g_steal_pointer (&self) : NULL;
}

/* From here on the session is as if it had been opened anew. */
static void
reset_to_saved (UploadSession *self)
{
  g_clear_pointer (&self->head, g_byte_array_unref);
  g_clear_pointer (&self->ingest.plan, chunk_plan_free);
  self->head_needed = BLOB_WHOLE_MAX_BYTES + 1;
  g_array_set_size (self->state.entries, self->n_saved_entries);
  g_array_set_size (self->state.lists, MIN (self->state.lists->len, self->n_saved_entries / UPLOAD_LIST_ENTRIES));
  blob_ingest_rewind (&self->ingest, &self->state.boundary_sha, self->state.boundary_bytes);
  self->tail_parked = self->state.tail != UPLOAD_TAIL_NONE;
  self->failed = FALSE;
  self->in_frames = FALSE;
}

UploadSession *
upload_session_open (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id, GError **error)
{
  if (!text_is_uuid (id))
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  g_autoptr (UploadSession) self = session_alloc (blobs, id);
  if (!upload_state_load (ctx, objects_of (self), id, &self->state, error))
    return NULL;
  if (strcmp (self->state.repository, repository) != 0)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no upload %s", id);
  self->n_saved_entries = self->state.entries->len;
  self->seen = self->state.sequence;
  self->has_objects = TRUE;
  blob_store_saw_upload (blobs, id, repository);
  blob_ingest_init (&self->ingest, blobs, self->state.entries);
  reset_to_saved (self);
  return g_steal_pointer (&self);
}

const char *
upload_session_id (const UploadSession *self)
{
  return self->id;
}

/* What was promised to whoever asked last. */
static guint64
saved_offset (const UploadSession *self)
{
  return self->state.boundary_bytes + self->state.tail_bytes;
}

guint64
upload_session_offset (const UploadSession *self)
{
  guint64 boundary = self->ingest.start_bytes;
  if (self->failed)
    return MAX (boundary, saved_offset (self));
  if (self->tail_parked)
    return saved_offset (self);
  if (self->head != NULL)
    return self->head->len;
  gboolean raw = blob_ingest_has_open_chunk (&self->ingest) && !self->in_frames;
  return boundary + (raw ? self->ingest.chunk_fill + self->ingest.stripe_fill : 0);
}

/* The state as of the last whole chunk, as the successor of the one that was saved. */
static UploadState
next_state (UploadSession *self)
{
  UploadState next = self->state;
  next.sequence = self->state.sequence + 1;
  next.holder = (guint64) g_random_int () << 32 | g_random_int ();
  next.boundary_bytes = self->ingest.start_bytes;
  next.boundary_sha = self->ingest.boundary_sha;
  next.tail = UPLOAD_TAIL_NONE;
  next.tail_bytes = 0;
  memset (next.tail_digest, 0, sizeof next.tail_digest);
  return next;
}

static void
take_as_saved (UploadSession *self, const UploadState *state, guint n_entries)
{
  self->state = *state;
  self->n_saved_entries = n_entries;
  self->is_unclear = FALSE;
  blob_store_saw_upload (self->blobs, self->id, state->repository);
}

/* That an object is gone or damaged, and not that a disk or a bucket fails to give it: the same may be there the next
 * time. */
static gboolean
tells_of_loss (const GError *problem)
{
  return am_error_is (problem, AM_ERROR_NOT_FOUND) || am_error_has_reason (problem, "ChunkCorrupt")
         || am_error_has_reason (problem, "CHUNK_INVALID");
}

/* Bytes that the session counted on are gone, by a power cut, by rot, or because another holder went on: only the
 * last leaves an upload that can be continued. */
static gboolean
fail_lost (Ctx *ctx, UploadSession *self, GError *problem, GError **error)
{
  g_autoptr (GError) owned = problem;
  if (!tells_of_loss (problem))
    {
      g_propagate_error (error, g_steal_pointer (&owned));
      return FALSE;
    }
  if (self->state.sequence > 0
      && !upload_state_check (ctx, objects_of (self), self->id, &self->state, self->seen, error))
    return FALSE;
  return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN",
                  "upload %s lost some of its bytes, start it again: %s", self->id, problem->message);
}

typedef struct {
  BlobStore *blobs;
  const guint8 *digests;
} References;

static gboolean
look_again (Ctx *ctx, gpointer data, guint index, GError **error)
{
  const References *self = data;
  gboolean has = FALSE;
  if (!blob_store_has_chunk (ctx, self->blobs, self->digests + CHUNK_DIGEST_SIZE * (gsize) index, &has, error))
    return FALSE;
  return has || am_fail (error, AM_ERROR_NOT_FOUND, "CHUNK_UNKNOWN", "a referenced chunk is gone");
}

static gint
compare_digests (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, CHUNK_DIGEST_SIZE);
}

/* Each of them once; what a model repeats it may repeat often. */
static guint
sort_out (GByteArray *digests)
{
  guint n = digests->len / CHUNK_DIGEST_SIZE, kept = 0;
  qsort (digests->data, n, CHUNK_DIGEST_SIZE, compare_digests);
  for (guint i = 0; i < n; i++)
    {
      const guint8 *each = digests->data + CHUNK_DIGEST_SIZE * (gsize) i;
      if (kept == 0 || memcmp (each - CHUNK_DIGEST_SIZE, each, CHUNK_DIGEST_SIZE) != 0)
        memmove (digests->data + CHUNK_DIGEST_SIZE * (gsize) kept++, each, CHUNK_DIGEST_SIZE);
    }
  g_byte_array_set_size (digests, kept * CHUNK_DIGEST_SIZE);
  return kept;
}

/* A reference that nobody pinned could be collected after it was read: it is pinned, and looked at again. From then on
 * it is as sure as what the session has stored itself, and a state may name it. */
static gboolean
secure_references (Ctx *ctx, UploadSession *self, GError **error)
{
  GByteArray *digests = self->ingest.references;
  guint n = digests->len > 0 ? sort_out (digests) : 0;
  References references = { self->blobs, digests->data };
  GError *problem = NULL;
  if (n == 0)
    return TRUE;
  self->has_objects = TRUE;
  if (!upload_pins_put (ctx, objects_of (self), self->id, digests->data, n, error))
    return FALSE;
  if (!object_store_each (ctx, objects_of (self), n, look_again, &references, &problem))
    {
      if (am_error_is (problem, AM_ERROR_NOT_FOUND))
        reset_to_saved (self);
      return fail_lost (ctx, self, problem, error);
    }
  g_byte_array_set_size (digests, 0);
  return TRUE;
}

/* Every chunk that it names is stored, or pinned. */
static gboolean
save_state (Ctx *ctx, UploadSession *self, const UploadState *next, gboolean is_last, GError **error)
{
  g_autoptr (GError) problem = NULL;
  gboolean is_seen = FALSE;
  if (!secure_references (ctx, self, error))
    return FALSE;
  self->has_objects = TRUE;
  if (upload_state_save (ctx, objects_of (self), self->id, next, &self->state, self->seen, is_last, &is_seen,
                         &problem))
    {
      self->seen = is_seen ? next->sequence : self->seen;
      take_as_saved (self, next, self->state.entries->len);
      return TRUE;
    }
  self->attempted = *next;
  self->n_attempted_entries = self->state.entries->len;
  self->is_overtaken = am_error_is (problem, AM_ERROR_ABORTED);
  self->is_unclear = !self->is_overtaken;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

/* Finds out what became of an attempt to save that failed. */
static gboolean
settle (Ctx *ctx, UploadSession *self, GError **error)
{
  gboolean is_saved = FALSE;
  if (!self->is_unclear)
    return TRUE;
  if (!upload_state_settle (ctx, objects_of (self), self->id, &self->attempted, &is_saved, error))
    return FALSE;
  if (is_saved)
    take_as_saved (self, &self->attempted, self->n_attempted_entries);
  self->is_unclear = FALSE;
  return TRUE;
}

/* Before its chunks are old enough to be collected, also a session that nobody will continue is saved: its state
 * says that they are in use. */
static gboolean
is_old (const UploadSession *self)
{
  return g_get_real_time () / 1000 - self->state.created_ms > UPLOAD_SESSION_TTL_MS / 2;
}

/* Saves now and then, so that a crash costs little. */
static gboolean
save_if_due (Ctx *ctx, UploadSession *self, GError **error)
{
  if (self->ingest.start_bytes - self->state.boundary_bytes < SAVE_EVERY_BYTES
      || (self->state.sequence == 0 && !is_old (self)))
    return TRUE;
  if (!blob_ingest_settle (ctx, &self->ingest, error))
    return FALSE;
  UploadState next = next_state (self);
  return save_state (ctx, self, &next, FALSE, error);
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
          GError *problem = NULL;
          gssize n = blob_store_read_chunk (ctx, self->blobs, entry->digest, chunk, &problem);
          if (n < 0)
            return fail_lost (ctx, self, problem, error);
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

/* Reads the parked tail back through the ordinary way in. */
static gboolean
unpark (Ctx *ctx, UploadSession *self, GError **error)
{
  GError *problem = NULL;
  if (!self->tail_parked)
    return TRUE;
  g_autoptr (GByteArray) tail = upload_tail_read (ctx, objects_of (self), self->id, &self->state, &problem);
  if (tail == NULL)
    return fail_lost (ctx, self, problem, error);
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

gboolean
upload_session_digest (Ctx *ctx, UploadSession *self, Digest *out_digest, GError **error)
{
  g_assert (!self->failed);
  if (!unpark (ctx, self, error))
    {
      self->failed = TRUE;
      return FALSE;
    }
  Sha256 sum = self->ingest.blob_sha;
  if (self->head != NULL)
    sha256_update (&sum, self->head->data, self->head->len);
  else if (self->ingest.stripe_fill > 0)
    sha256_update (&sum, self->ingest.stripe, self->ingest.stripe_fill);
  sha256_peek (&sum, out_digest);
  return TRUE;
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
  if (size == 0)
    return TRUE;
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

/* Puts what lies behind the last whole chunk into the store, so that the state may name it. */
static gboolean
park (Ctx *ctx, UploadSession *self, UploadState *next, GError **error)
{
  g_autofree char *prefix = upload_tail_prefix (self->id);
  guint64 offset = upload_session_offset (self);
  gboolean raw = self->head != NULL && self->head->len > 0;
  gboolean frame = blob_ingest_has_open_chunk (&self->ingest) && !self->in_frames;
  if (!raw && !frame)
    return TRUE;
  self->has_objects = TRUE;
  next->tail = raw ? UPLOAD_TAIL_RAW : UPLOAD_TAIL_FRAME;
  next->tail_bytes = offset - self->ingest.start_bytes;
  if (frame)
    return blob_ingest_park_chunk (ctx, &self->ingest, prefix, next->tail_digest, error);
  blake3_of (self->head->data, self->head->len, next->tail_digest);
  g_autofree char *key = upload_tail_key (self->id, next);
  return object_store_put (ctx, objects_of (self), key, self->head->data, self->head->len, OBJECT_COMMIT_LAZY, error);
}

/* Whole chunks are where they belong. After a failure only those that are count, and nothing else is lost by it. */
static gboolean
settle_chunks (Ctx *ctx, UploadSession *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (blob_ingest_settle (ctx, &self->ingest, &problem))
    return TRUE;
  if (self->failed)
    {
      am_ignore (&problem, "the session failed before, and keeps what is stored");
      return TRUE;
    }
  self->failed = TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
upload_session_save (Ctx *ctx, UploadSession *self, GError **error)
{
  if (self->tail_parked && !self->failed)
    return TRUE; /* nothing was added since */
  if (self->is_overtaken)
    return am_fail (error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID", "upload %s is being continued by another request",
                    self->id);
  if (!settle (ctx, self, error) || !settle_chunks (ctx, self, error))
    return FALSE;
  if (self->failed && self->state.sequence > 0 && self->ingest.start_bytes <= saved_offset (self))
    {
      /* No more whole chunks than what was saved last, which still stands, its tail included. */
      reset_to_saved (self);
      return TRUE;
    }
  UploadState next = next_state (self);
  if ((self->failed || park (ctx, self, &next, error)) && save_state (ctx, self, &next, TRUE, error))
    {
      reset_to_saved (self);
      return TRUE;
    }
  /* What was parked is out of memory: the session goes on from what was saved, or from the last whole chunk. */
  self->failed = TRUE;
  return FALSE;
}

gboolean
upload_session_cancel (Ctx *ctx, UploadSession *self, GError **error)
{
  return forget (ctx, self, error);
}

/* Reads the stored chunks again, in order. */
static gboolean
reread (Ctx *ctx, UploadSession *self, Hasher *hasher, GByteArray *bytes, GError **error)
{
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  for (guint i = 0; i < self->state.entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (self->state.entries, RecipeEntry, i);
      GError *problem = NULL;
      gssize n = blob_store_read_chunk (ctx, self->blobs, entry->digest, chunk, &problem);
      if (n < 0)
        return fail_lost (ctx, self, problem, error);
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

/* Where saving does not always look who else does, somebody may have ended this session meanwhile: from then on nothing
 * keeps its chunks. */
static gboolean
check_holder (Ctx *ctx, UploadSession *self, GError **error)
{
  return self->state.sequence == 0 || !object_store_is_far (objects_of (self))
         || upload_state_check (ctx, objects_of (self), self->id, &self->state, self->seen, error);
}

static gboolean
finish_chunked (Ctx *ctx, UploadSession *self, const Digest *expected, GError **error)
{
  Digest actual;
  if (!close_raw (ctx, self, error) || !settle_chunks (ctx, self, error)
      || !blob_digest (ctx, self, expected->algorithm, &actual, error))
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
  if (!secure_references (ctx, self, error) || !check_holder (ctx, self, error))
    return FALSE;
  g_autoptr (Recipe) recipe = recipe_new (expected, self->ingest.start_bytes, self->state.entries);
  GError *problem = NULL;
  return blob_store_put_recipe (ctx, self->blobs, recipe, &problem) || fail_lost (ctx, self, problem, error);
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
