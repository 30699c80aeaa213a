#include "storage/blob_store.h"

#include <string.h>

#include "base/sha256.h"
#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"

#define WHOLE_LIMIT_BYTES (4u << 20)

struct BlobStore {
  ObjectStore *objects;
};

BlobStore *
blob_store_new (ObjectStore *objects)
{
  BlobStore *self = g_new0 (BlobStore, 1);
  self->objects = objects;
  return self;
}

void
blob_store_free (BlobStore *self)
{
  g_free (self);
}

ObjectStore *
blob_store_objects (BlobStore *self)
{
  return self->objects;
}

static char *
blob_key (const Digest *digest, const char *leaf)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  digest_hex (digest, hex);
  return g_strdup_printf ("docker/registry/v2/blobs/%s/%.2s/%s/%s", digest_algorithm_name (digest->algorithm), hex,
                          hex, leaf);
}

char *
blob_data_key (const Digest *digest)
{
  return blob_key (digest, "data");
}

char *
blob_recipe_key (const Digest *digest)
{
  return blob_key (digest, "recipe");
}

static void
sha256_digest (const guint8 bytes[32], Digest *out_digest)
{
  memset (out_digest, 0, sizeof *out_digest);
  out_digest->algorithm = DIGEST_SHA256;
  memcpy (out_digest->bytes, bytes, 32);
}

char *
chunk_key (const guint8 bytes[32])
{
  Digest digest;
  char hex[2 * DIGEST_MAX_BYTES + 1];
  sha256_digest (bytes, &digest);
  digest_hex (&digest, hex);
  return g_strdup_printf ("_ai_models/chunks/%.2s/%s", hex, hex);
}

static gpointer
fail_unknown (GError **error, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "there is no blob %s", digest_format (digest, text));
}

/* The recipe of a blob that is not kept whole. */
static Recipe *
read_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error)
{
  g_autofree char *key = blob_recipe_key (digest);
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) bytes = object_store_get (ctx, self->objects, key, RECIPE_MAX_BYTES, &problem);
  if (bytes == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return fail_unknown (error, digest);
  if (bytes == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  Recipe *recipe = recipe_read (bytes, digest, error);
  if (recipe == NULL)
    g_prefix_error (error, "object %s: ", key);
  return recipe;
}

Recipe *
blob_store_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  gboolean whole = FALSE;
  if (!object_store_exists (ctx, self->objects, key, &whole, error) || whole)
    return NULL;
  return read_recipe (ctx, self, digest, error);
}

gboolean
blob_store_stat (Ctx *ctx, BlobStore *self, const Digest *digest, BlobInfo *out_info, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  g_autoptr (GError) problem = NULL;
  ObjectInfo object;
  if (object_store_stat (ctx, self->objects, key, &object, &problem))
    {
      *out_info = (BlobInfo) { object.size_bytes, object.size_bytes, 0 };
      return TRUE;
    }
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_autoptr (Recipe) recipe = read_recipe (ctx, self, digest, error);
  if (recipe == NULL)
    return FALSE;
  *out_info = (BlobInfo) { recipe->blob_size, recipe_encoded_bytes (recipe), recipe->entries->len };
  return TRUE;
}

gboolean
blob_store_put_whole (Ctx *ctx, BlobStore *self, const Digest *digest, GBytes *bytes, GError **error)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  Digest actual;
  g_assert (size <= WHOLE_LIMIT_BYTES);
  digest_of (digest->algorithm, data, size, &actual);
  if (!digest_equal (digest, &actual))
    {
      char wanted[DIGEST_STRING_SIZE], got[DIGEST_STRING_SIZE];
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the content's digest is %s, not %s",
                      digest_format (&actual, got), digest_format (digest, wanted));
    }
  g_autofree char *key = blob_data_key (digest);
  return object_store_put (ctx, self->objects, key, data, size, OBJECT_COMMIT_DEFAULT, error);
}

GBytes *
blob_store_get (Ctx *ctx, BlobStore *self, const Digest *digest, gsize limit_bytes, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self, digest, 0, error);
  if (reader == NULL)
    return NULL;
  guint64 size = blob_reader_size (reader);
  if (size > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                         "blob %s is larger than the limit of %" G_GSIZE_FORMAT " bytes", digest_format (digest, text),
                         limit_bytes);
  g_autofree guint8 *data = g_malloc (size + 1);
  for (gsize done = 0; done < size;)
    {
      gssize n = blob_reader_read (ctx, reader, data + done, size - done, error);
      if (n <= 0)
        return n < 0 ? NULL : am_fail_null (error, AM_ERROR_DATA_LOSS, NULL, "blob %s is cut short", text);
      done += (gsize) n;
    }
  Digest actual;
  digest_of (digest->algorithm, data, size, &actual);
  if (!digest_equal (digest, &actual))
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "BlobCorrupt", "blob %s is damaged: its bytes have another digest",
                         digest_format (digest, text));
  return g_bytes_new_take (g_steal_pointer (&data), size);
}

gboolean
blob_store_put_recipe (Ctx *ctx, BlobStore *self, const Recipe *recipe, GError **error)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < recipe->entries->len; i++)
    g_ptr_array_add (keys, chunk_key (g_array_index (recipe->entries, RecipeEntry, i).digest));
  if (!object_store_sync (ctx, self->objects, (const char *const *) keys->pdata, keys->len, error))
    return FALSE;
  g_autofree char *key = blob_recipe_key (&recipe->blob_digest);
  g_autoptr (GBytes) bytes = recipe_write (recipe);
  return object_store_put (ctx, self->objects, key, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes),
                           OBJECT_COMMIT_DEFAULT, error);
}

gboolean
blob_store_has_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], gboolean *out_has, GError **error)
{
  g_autofree char *key = chunk_key (digest);
  return object_store_exists (ctx, self->objects, key, out_has, error);
}

static Reader *
open_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], ChunkHeader *out_header, GError **error)
{
  g_autofree char *key = chunk_key (digest);
  guint8 bytes[CHUNK_HEADER_SIZE];
  g_autoptr (GError) problem = NULL;
  g_autoptr (Reader) reader = object_store_open (ctx, self->objects, key, &problem);
  if (reader == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "CHUNK_UNKNOWN", "chunk object %s is missing", key);
  gboolean ok = reader != NULL
                && (reader->size_bytes >= sizeof bytes
                    || am_fail (&problem, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: it is cut short"))
                && reader_read_at (ctx, reader, 0, bytes, sizeof bytes, &problem)
                && chunk_header_read (bytes, out_header, &problem)
                && ((memcmp (out_header->digest.bytes, digest, 32) == 0
                     && out_header->encoding != CHUNK_ENCODING_REF
                     && reader->size_bytes == CHUNK_HEADER_SIZE + (guint64) out_header->encoded_size)
                    || am_fail (&problem, AM_ERROR_DATA_LOSS, "ChunkCorrupt",
                                "damaged chunk: its name or length is another's"));
  if (ok)
    return g_steal_pointer (&reader);
  g_propagate_prefixed_error (error, g_steal_pointer (&problem), "object %s: ", key);
  return NULL;
}

Reader *
blob_store_open_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], GError **error)
{
  ChunkHeader header;
  return open_chunk (ctx, self, digest, &header, error);
}

/* One opened chunk, read stripe by stripe. */
typedef struct {
  Reader *reader;
  ChunkHeader header;
  guint64 next;        /* offset in the object of the next stripe's prefix */
  guint32 decoded;     /* bytes handed out or skipped */
  gboolean has_prefix; /* `stored` holds the next prefix already */
} OpenChunk;

struct BlobReader {
  BlobStore *store;
  guint64 size_bytes;
  guint64 offset_bytes;
  Reader *whole;  /* kept whole */
  Recipe *recipe; /* or chunked */
  guint entry;
  OpenChunk chunk;
  ChunkDecoder *decoder;
  guint8 *stored; /* a stripe as stored, and the prefix behind it */
  guint8 *stripe; /* decoded, when the caller's buffer does not fit */
  gsize stripe_start, stripe_end;
};

void
blob_reader_free (BlobReader *self)
{
  if (self == NULL)
    return;
  reader_free (self->whole);
  recipe_free (self->recipe);
  reader_free (self->chunk.reader);
  chunk_decoder_free (self->decoder);
  g_free (self->stored);
  g_free (self->stripe);
  g_free (self);
}

guint64
blob_reader_size (const BlobReader *self)
{
  return self->size_bytes;
}

static void
prepare_chunks (BlobReader *self)
{
  self->decoder = chunk_decoder_new ();
  self->stored = g_malloc (CHUNK_STRIPE_BYTES + 2 * CHUNK_STRIPE_OVERHEAD);
}

/* Reads the next stripe as it is stored, and its successor's prefix with it. */
static gboolean
fetch_stripe (Ctx *ctx, BlobReader *self, gsize decoded, gboolean skip, gsize *out_stored, GError **error)
{
  OpenChunk *chunk = &self->chunk;
  gsize prefix = chunk_stripe_prefix_size (chunk->header.encoding);
  guint64 end = chunk->reader->size_bytes;
  if (!chunk->has_prefix && !reader_read_at (ctx, chunk->reader, chunk->next, self->stored, prefix, error))
    return FALSE;
  gsize stored = chunk_stripe_stored_size (chunk->header.encoding, self->stored, decoded);
  chunk->has_prefix = FALSE;
  if (stored == 0 || stored > end - chunk->next)
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: its sizes disagree");
  gsize more = chunk->next + stored + prefix <= end ? prefix : 0;
  if (!skip && !reader_read_at (ctx, chunk->reader, chunk->next + prefix, self->stored + prefix,
                                stored - prefix + more, error))
    return FALSE;
  chunk->next += stored;
  chunk->decoded += (guint32) decoded;
  *out_stored = stored;
  return TRUE;
}

/* Decodes the next stripe of the open chunk into `out`. */
static gboolean
next_stripe (Ctx *ctx, BlobReader *self, gsize decoded, guint8 *out, GError **error)
{
  OpenChunk *chunk = &self->chunk;
  gsize prefix = chunk_stripe_prefix_size (chunk->header.encoding);
  gsize stored;
  if (!fetch_stripe (ctx, self, decoded, FALSE, &stored, error)
      || !chunk_decoder_stripe (self->decoder, chunk->header.encoding, self->stored, stored, out, decoded, error))
    return FALSE;
  if (chunk->next + prefix <= chunk->reader->size_bytes)
    {
      memmove (self->stored, self->stored + stored, prefix);
      chunk->has_prefix = TRUE;
    }
  return TRUE;
}

static gsize
stripe_size (const OpenChunk *chunk)
{
  return MIN (CHUNK_STRIPE_BYTES, chunk->header.decoded_size - chunk->decoded);
}

static gboolean
open_entry (Ctx *ctx, BlobReader *self, guint entry, GError **error)
{
  const RecipeEntry *wanted = &g_array_index (self->recipe->entries, RecipeEntry, entry);
  g_clear_pointer (&self->chunk.reader, reader_free);
  self->chunk = (OpenChunk) { .next = CHUNK_HEADER_SIZE };
  self->chunk.reader = open_chunk (ctx, self->store, wanted->digest, &self->chunk.header, error);
  if (self->chunk.reader == NULL)
    return FALSE;
  self->entry = entry;
  if (self->chunk.header.decoded_size != wanted->decoded_size)
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: its size is not the recipe's");
  return TRUE;
}

static gboolean
seek_chunked (Ctx *ctx, BlobReader *self, guint64 offset_bytes, GError **error)
{
  if (offset_bytes == self->size_bytes)
    return TRUE;
  guint entry = recipe_find (self->recipe, offset_bytes);
  if (!open_entry (ctx, self, entry, error))
    return FALSE;
  gsize inside = (gsize) (offset_bytes - self->recipe->starts[entry]);
  while (inside >= CHUNK_STRIPE_BYTES)
    {
      gsize stored;
      if (!fetch_stripe (ctx, self, CHUNK_STRIPE_BYTES, TRUE, &stored, error))
        return FALSE;
      inside -= CHUNK_STRIPE_BYTES;
    }
  if (inside == 0)
    return TRUE;
  self->stripe = self->stripe != NULL ? self->stripe : g_malloc (CHUNK_STRIPE_BYTES);
  gsize n = stripe_size (&self->chunk);
  if (!next_stripe (ctx, self, n, self->stripe, error))
    return FALSE;
  self->stripe_start = inside;
  self->stripe_end = n;
  return TRUE;
}

BlobReader *
blob_store_open (Ctx *ctx, BlobStore *self, const Digest *digest, guint64 offset_bytes, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  g_autoptr (GError) problem = NULL;
  BlobReader *reader = g_new0 (BlobReader, 1);
  g_autoptr (BlobReader) owner = reader;
  reader->store = self;
  reader->whole = object_store_open (ctx, self->objects, key, &problem);
  if (reader->whole == NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  if (reader->whole == NULL && (reader->recipe = read_recipe (ctx, self, digest, error)) == NULL)
    return NULL;
  reader->size_bytes = reader->whole != NULL ? reader->whole->size_bytes : reader->recipe->blob_size;
  if (offset_bytes > reader->size_bytes)
    return am_fail_null (error, AM_ERROR_OUT_OF_RANGE, NULL, "offset %" G_GUINT64_FORMAT " is beyond the blob's end",
                         offset_bytes);
  reader->offset_bytes = offset_bytes;
  if (reader->recipe != NULL)
    {
      prepare_chunks (reader);
      if (!seek_chunked (ctx, reader, offset_bytes, error))
        return NULL;
    }
  return g_steal_pointer (&owner);
}

static gssize
read_chunked (Ctx *ctx, BlobReader *self, guint8 *buffer, gsize size, GError **error)
{
  if (self->stripe_start == self->stripe_end)
    {
      if ((self->chunk.reader == NULL || self->chunk.decoded == self->chunk.header.decoded_size)
          && !open_entry (ctx, self, self->chunk.reader == NULL ? self->entry : self->entry + 1, error))
        return -1;
      gsize n = stripe_size (&self->chunk);
      if (size >= n)
        return next_stripe (ctx, self, n, buffer, error) ? (gssize) n : -1;
      self->stripe = self->stripe != NULL ? self->stripe : g_malloc (CHUNK_STRIPE_BYTES);
      if (!next_stripe (ctx, self, n, self->stripe, error))
        return -1;
      self->stripe_start = 0;
      self->stripe_end = n;
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
  if (left == 0 || size == 0)
    return 0;
  if (!ctx_check (ctx, error))
    return -1;
  if (self->whole != NULL)
    {
      n = (gssize) MIN (size, left);
      if (!reader_read_at (ctx, self->whole, self->offset_bytes, buffer, (gsize) n, error))
        return -1;
    }
  else
    n = read_chunked (ctx, self, buffer, size, error);
  if (n > 0)
    self->offset_bytes += (guint64) n;
  return n;
}

gssize
blob_store_read_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], guint8 *out, GError **error)
{
  BlobReader *reader = g_new0 (BlobReader, 1);
  g_autoptr (BlobReader) owner = reader;
  prepare_chunks (reader);
  reader->chunk.next = CHUNK_HEADER_SIZE;
  reader->chunk.reader = open_chunk (ctx, self, digest, &reader->chunk.header, error);
  if (reader->chunk.reader == NULL)
    return -1;
  Sha256 sha;
  Digest actual;
  sha256_init (&sha);
  gsize total = reader->chunk.header.decoded_size;
  for (gsize done = 0; done < total;)
    {
      gsize n = stripe_size (&reader->chunk);
      if (!next_stripe (ctx, reader, n, out + done, error))
        return -1;
      sha256_update (&sha, out + done, n);
      done += n;
    }
  sha256_peek (&sha, &actual);
  if (memcmp (actual.bytes, digest, 32) == 0)
    return (gssize) total;
  am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: its bytes have another digest");
  return -1;
}
