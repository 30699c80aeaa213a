/* Reading a blob in order and at random. */
#include <string.h>

#include "storage/blob_private.h"
#include "storage/chunk_ahead.h"
#include "storage/chunk_reader.h"

/* Of a far store: chunks on their way while one is read. */
#define N_AHEAD 3

struct BlobReader {
  Digest digest;
  guint64 size_bytes;
  guint64 offset_bytes;
  Reader *whole;  /* kept whole */
  Recipe *recipe; /* or chunked */
  guint entry;    /* the open chunk, or the one to open next */
  gboolean is_open;
  ChunkAhead *ahead;
  ChunkReader *chunk;
  guint8 *stripe; /* decoded, when the caller's buffer does not fit */
  gsize stripe_start, stripe_end;
  gboolean failed; /* where it stands is not to be trusted */
};

void
blob_reader_free (BlobReader *self)
{
  if (self == NULL)
    return;
  reader_free (self->whole);
  chunk_ahead_free (self->ahead);
  recipe_free (self->recipe);
  chunk_reader_free (self->chunk);
  g_free (self->stripe);
  g_free (self);
}

guint64
blob_reader_size (const BlobReader *self)
{
  return self->size_bytes;
}

static gboolean
open_entry (Ctx *ctx, BlobReader *self, guint entry, GError **error)
{
  const RecipeEntry *wanted = &g_array_index (self->recipe->entries, RecipeEntry, entry);
  self->entry = entry;
  self->is_open = FALSE;
  ChunkHeader header;
  Reader *frame = chunk_ahead_open (ctx, self->ahead, entry, &header, error);
  if (frame == NULL)
    return FALSE;
  chunk_reader_take (self->chunk, wanted->digest, frame, &header);
  if (header.decoded_size != wanted->decoded_size)
    {
      g_autofree char *key = chunk_key (wanted->digest);
      return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt",
                      "object %s: damaged chunk: its size is not the recipe's", key);
    }
  self->is_open = TRUE;
  return TRUE;
}

static gboolean
decode_aside (Ctx *ctx, BlobReader *self, gsize start, GError **error)
{
  gsize n = chunk_reader_stripe_size (self->chunk);
  if (self->stripe == NULL)
    self->stripe = g_malloc (CHUNK_STRIPE_BYTES);
  if (!chunk_reader_next (ctx, self->chunk, self->stripe, error))
    return FALSE;
  self->stripe_start = start;
  self->stripe_end = n;
  return TRUE;
}

static gboolean
seek_chunked (Ctx *ctx, BlobReader *self, guint64 offset_bytes, GError **error)
{
  self->stripe_start = self->stripe_end = 0;
  if (offset_bytes == self->size_bytes)
    return TRUE;
  guint entry = recipe_find (self->recipe, offset_bytes);
  gsize inside = (gsize) (offset_bytes - self->recipe->starts[entry]);
  if (!open_entry (ctx, self, entry, error))
    return FALSE;
  for (; inside >= CHUNK_STRIPE_BYTES; inside -= CHUNK_STRIPE_BYTES)
    if (!chunk_reader_skip (ctx, self->chunk, error))
      return FALSE;
  return inside == 0 || decode_aside (ctx, self, inside, error);
}

/* A chunk that is missing under a blob is a loss, whatever the store calls it. Returns FALSE. */
static gboolean
fail_reader (BlobReader *self, GError *problem, GError **error)
{
  g_autoptr (GError) owned = problem;
  char text[DIGEST_STRING_SIZE];
  self->failed = TRUE;
  digest_format (&self->digest, text);
  if (am_error_has_reason (problem, "CHUNK_UNKNOWN"))
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkMissing", "blob %s: %s", text, problem->message);
  g_propagate_prefixed_error (error, g_steal_pointer (&owned), "blob %s: ", text);
  return FALSE;
}

gboolean
blob_reader_seek (Ctx *ctx, BlobReader *self, guint64 offset_bytes, GError **error)
{
  GError *problem = NULL;
  if (offset_bytes > self->size_bytes)
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL, "offset %" G_GUINT64_FORMAT " is beyond the blob's end",
                    offset_bytes);
  if (self->recipe != NULL && !seek_chunked (ctx, self, offset_bytes, &problem))
    return fail_reader (self, problem, error);
  self->failed = FALSE;
  self->offset_bytes = offset_bytes;
  return TRUE;
}

BlobReader *
blob_store_open (Ctx *ctx, BlobStore *store, const Digest *digest, guint64 offset_bytes, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  g_autoptr (GError) problem = NULL;
  BlobReader *self = g_new0 (BlobReader, 1);
  g_autoptr (BlobReader) owner = self;
  self->digest = *digest;
  self->recipe = blob_store_recall_recipe (store, digest);
  self->whole = self->recipe == NULL ? object_store_open (ctx, blob_store_objects (store), key, &problem) : NULL;
  if (problem != NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  if (self->whole != NULL)
    self->size_bytes = self->whole->size_bytes;
  else
    {
      if (self->recipe == NULL)
        self->recipe = blob_store_read_recipe (ctx, store, digest, error);
      if (self->recipe == NULL)
        return NULL;
      self->size_bytes = self->recipe->blob_size;
      self->chunk = chunk_reader_new (blob_store_objects (store));
      self->ahead = chunk_ahead_new (store, self->recipe, G_MAXUINT, self->recipe->entries->len, N_AHEAD);
    }
  return blob_reader_seek (ctx, self, offset_bytes, error) ? g_steal_pointer (&owner) : NULL;
}

static gssize
read_chunked (Ctx *ctx, BlobReader *self, guint8 *buffer, gsize size, GError **error)
{
  if (self->stripe_start == self->stripe_end)
    {
      if (chunk_reader_stripe_size (self->chunk) == 0
          && !open_entry (ctx, self, self->is_open ? self->entry + 1 : self->entry, error))
        return -1;
      gsize n = chunk_reader_stripe_size (self->chunk);
      if (size >= n)
        return chunk_reader_next (ctx, self->chunk, buffer, error) ? (gssize) n : -1;
      if (!decode_aside (ctx, self, 0, error))
        return -1;
    }
  gsize n = MIN (size, self->stripe_end - self->stripe_start);
  memcpy (buffer, self->stripe + self->stripe_start, n);
  self->stripe_start += n;
  return (gssize) n;
}

gssize
blob_reader_read (Ctx *ctx, BlobReader *self, guint8 *buffer, gsize size, GError **error)
{
  gssize n;
  guint64 left = self->size_bytes - self->offset_bytes;
  GError *problem = NULL;
  if (self->failed)
    {
      am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "reading the blob failed before");
      return -1;
    }
  if (left == 0 || size == 0)
    return 0;
  if (!ctx_check (ctx, error))
    return -1;
  if (self->whole == NULL)
    n = read_chunked (ctx, self, buffer, size, &problem);
  else
    {
      n = (gssize) MIN (size, left);
      if (!reader_read_at (ctx, self->whole, self->offset_bytes, buffer, (gsize) n, &problem))
        n = -1;
    }
  if (n < 0)
    {
      fail_reader (self, problem, error);
      return -1;
    }
  self->offset_bytes += (guint64) n;
  return n;
}

typedef struct {
  Reader base;
  BlobReader *reader;
} BlobRandom;

static gboolean
random_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  BlobRandom *self = (BlobRandom *) base;
  BlobReader *reader = self->reader;
  if ((reader->failed || reader->offset_bytes != offset_bytes)
      && !blob_reader_seek (ctx, reader, offset_bytes, error))
    return FALSE;
  for (gsize done = 0; done < size;)
    {
      gssize n = blob_reader_read (ctx, reader, (guint8 *) buffer + done, size - done, error);
      if (n < 0)
        return FALSE;
      g_assert (n > 0); /* Reader asks for nothing beyond the end */
      done += (gsize) n;
    }
  return TRUE;
}

static void
random_free (Reader *base)
{
  BlobRandom *self = (BlobRandom *) base;
  blob_reader_free (self->reader);
  g_free (self);
}

Reader *
blob_store_open_reader (Ctx *ctx, BlobStore *store, const Digest *digest, GError **error)
{
  static const ReaderClass klass = { random_read_at, random_free };
  BlobReader *reader = blob_store_open (ctx, store, digest, 0, error);
  if (reader == NULL)
    return NULL;
  BlobRandom *self = g_new0 (BlobRandom, 1);
  self->base = (Reader){ &klass, reader->size_bytes };
  self->reader = reader;
  return &self->base;
}
