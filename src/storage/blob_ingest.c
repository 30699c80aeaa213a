#include "storage/blob_ingest.h"

#include <string.h>

#include "storage/blob_private.h"

/* Of one upload's chunks on their way to a far store, which are in memory until they are there: enough small ones that
 * the way there and back does not count. */
#define MAX_UNDER_WAY 16
#define MAX_UNDER_WAY_BYTES (4u * CHUNK_MAX_BYTES)

static gboolean on_frame_header (gpointer data, const ChunkHeader *header, GError **error);
static gboolean on_frame_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded,
                                 gsize decoded_size, GError **error);
static gboolean on_frame_end (gpointer data, GError **error);

void
blob_ingest_init (BlobIngest *self, BlobStore *blobs, GArray *entries)
{
  memset (self, 0, sizeof *self);
  self->blobs = blobs;
  self->entries = entries;
  sha256_init (&self->blob_sha);
  self->boundary_sha = self->blob_sha;
  self->references = g_byte_array_new ();
}

static void
drop_window (BlobIngest *self)
{
  g_clear_pointer (&self->window, commit_window_free);
  g_queue_clear_full (&self->before, g_free);
}

static void
drop_chunk (BlobIngest *self)
{
  g_clear_pointer (&self->writer, object_writer_free);
  self->chunk_fill = 0;
  self->stripe_fill = 0;
}

void
blob_ingest_clear (BlobIngest *self)
{
  drop_chunk (self);
  drop_window (self);
  g_clear_pointer (&self->references, g_byte_array_unref);
  g_clear_pointer (&self->plan, chunk_plan_free);
  g_clear_pointer (&self->encoder, chunk_encoder_free);
  g_clear_pointer (&self->parser, chunk_parser_free);
  g_clear_pointer (&self->referenced, chunk_reader_free);
  g_clear_pointer (&self->stripe, g_free);
}

void
blob_ingest_rewind (BlobIngest *self, const Sha256 *boundary_sha, guint64 boundary_bytes)
{
  drop_chunk (self);
  drop_window (self);
  g_byte_array_set_size (self->references, 0);
  g_clear_pointer (&self->parser, chunk_parser_free);
  self->blob_sha = *boundary_sha;
  self->boundary_sha = *boundary_sha;
  self->start_bytes = boundary_bytes;
}

typedef struct {
  guint n_entries;
  guint64 bytes;
  Sha256 sha;
} Boundary;

gboolean
blob_ingest_settle (Ctx *ctx, BlobIngest *self, GError **error)
{
  if (self->window == NULL)
    return TRUE;
  if (commit_window_drain (ctx, self->window, error))
    {
      g_queue_clear_full (&self->before, g_free);
      g_clear_pointer (&self->window, commit_window_free);
      return TRUE;
    }
  const Boundary *first = g_queue_peek_nth (&self->before, (guint) commit_window_n_stored (self->window));
  Boundary boundary = first != NULL ? *first
                                    : (Boundary){ self->entries->len, self->start_bytes, self->boundary_sha };
  g_array_set_size (self->entries, boundary.n_entries);
  blob_ingest_rewind (self, &boundary.sha, boundary.bytes);
  return FALSE;
}

/* Sends the object of a whole chunk on its way. What it adds to the blob counts from now on, and is sure once it is
 * stored. */
static gboolean
send_chunk (Ctx *ctx, BlobIngest *self, const char *key, gsize size, GError **error)
{
  Boundary before = { self->entries->len, self->start_bytes, self->boundary_sha };
  if (self->window == NULL)
    self->window = commit_window_new (MAX_UNDER_WAY, MAX_UNDER_WAY_BYTES);
  if (!commit_window_add (ctx, self->window, g_steal_pointer (&self->writer), size, key, OBJECT_COMMIT_LAZY, error))
    return FALSE;
  g_queue_push_tail (&self->before, g_memdup2 (&before, sizeof before));
  return TRUE;
}

gboolean
blob_ingest_has_open_chunk (const BlobIngest *self)
{
  return self->writer != NULL;
}

/* The header's place is kept free: what it says is known at the end. */
static gboolean
open_writer (Ctx *ctx, BlobIngest *self, GError **error)
{
  static const guint8 blank[CHUNK_HEADER_SIZE];
  blake3_init (&self->chunk_hash);
  self->chunk_fill = 0;
  self->stripe_fill = 0;
  self->chunk_encoded = 0;
  self->writer = object_store_create (ctx, blob_store_objects (self->blobs), error);
  return self->writer != NULL && object_writer_append (ctx, self->writer, blank, sizeof blank, error);
}

static gboolean
open_chunk (Ctx *ctx, BlobIngest *self, GError **error)
{
  guint unit_bytes;
  self->chunk_limit = chunk_plan_next (self->plan, self->start_bytes, &unit_bytes);
  if (self->encoder == NULL)
    self->encoder = chunk_encoder_new ();
  if (self->stripe == NULL)
    self->stripe = g_malloc (CHUNK_STRIPE_BYTES);
  chunk_encoder_begin (self->encoder, unit_bytes);
  return open_writer (ctx, self, error);
}

/* Adds decoded bytes to the blob and to the chunk: a stripe stays in the CPU's cache between the two. */
static void
hash_stripe (BlobIngest *self, const guint8 *decoded, gsize size)
{
  sha256_update (&self->blob_sha, decoded, size);
  blake3_update (&self->chunk_hash, decoded, size);
}

static gboolean
store_stripe (Ctx *ctx, BlobIngest *self, const guint8 *stored, gsize stored_size, const guint8 *decoded,
              gsize decoded_size, GError **error)
{
  hash_stripe (self, decoded, decoded_size);
  self->chunk_fill += decoded_size;
  self->chunk_encoded += (guint32) stored_size;
  return object_writer_append (ctx, self->writer, stored, stored_size, error);
}

static gboolean
encode_stripe (Ctx *ctx, BlobIngest *self, const guint8 *data, gsize size, GError **error)
{
  gsize stored_size;
  const guint8 *stored = chunk_encoder_stripe (self->encoder, data, size, &stored_size);
  self->encoding = chunk_encoder_encoding (self->encoder);
  return store_stripe (ctx, self, stored, stored_size, data, size, error);
}

static gboolean
flush_stripe (Ctx *ctx, BlobIngest *self, GError **error)
{
  gsize size = self->stripe_fill;
  self->stripe_fill = 0;
  return size == 0 || encode_stripe (ctx, self, self->stripe, size, error);
}

static char *
parked_key (const char *prefix, const guint8 digest[CHUNK_DIGEST_SIZE])
{
  char hex[CHUNK_HEX_SIZE];
  return g_strconcat (prefix, chunk_digest_hex (digest, hex), NULL);
}

/* Completes the object of the open chunk and puts it where chunks are, or below `prefix` when it is not NULL. */
static gboolean
commit_chunk (Ctx *ctx, BlobIngest *self, const char *prefix, RecipeEntry *out_entry, GError **error)
{
  guint8 bytes[CHUNK_HEADER_SIZE];
  ChunkHeader header = { self->encoding, (guint32) self->chunk_fill, self->chunk_encoded, { { 0 } } };
  blake3_peek (&self->chunk_hash, header.digest.bytes);
  chunk_header_write (&header, bytes);
  g_autofree char *key = prefix != NULL ? parked_key (prefix, header.digest.bytes) : chunk_key (header.digest.bytes);
  gboolean beside = prefix == NULL && object_store_is_far (blob_store_objects (self->blobs));
  if (!object_writer_patch (ctx, self->writer, 0, bytes, sizeof bytes, error)
      || !(beside ? send_chunk (ctx, self, key, CHUNK_HEADER_SIZE + self->chunk_encoded, error)
                  : object_writer_commit (ctx, self->writer, key, OBJECT_COMMIT_LAZY, error)))
    return FALSE;
  g_clear_pointer (&self->writer, object_writer_free);
  blob_store_stored_chunk (self->blobs, header.digest.bytes);
  *out_entry = (RecipeEntry){ .decoded_size = header.decoded_size, .encoded_size = header.encoded_size };
  memcpy (out_entry->digest, header.digest.bytes, CHUNK_DIGEST_SIZE);
  return TRUE;
}

static gboolean
add_entry (BlobIngest *self, const RecipeEntry *entry, GError **error)
{
  if (self->entries->len >= RECIPE_MAX_CHUNKS)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "SIZE_INVALID", "the blob has more than %u chunks",
                    RECIPE_MAX_CHUNKS);
  g_array_append_val (self->entries, *entry);
  self->start_bytes += entry->decoded_size;
  self->boundary_sha = self->blob_sha;
  return TRUE;
}

gboolean
blob_ingest_close_chunk (Ctx *ctx, BlobIngest *self, GError **error)
{
  RecipeEntry entry;
  if (self->writer == NULL)
    return TRUE;
  return flush_stripe (ctx, self, error) && commit_chunk (ctx, self, NULL, &entry, error)
         && add_entry (self, &entry, error);
}

gboolean
blob_ingest_park_chunk (Ctx *ctx, BlobIngest *self, const char *prefix, guint8 out_digest[32], GError **error)
{
  RecipeEntry entry;
  if (!flush_stripe (ctx, self, error) || !commit_chunk (ctx, self, prefix, &entry, error))
    return FALSE;
  memcpy (out_digest, entry.digest, sizeof entry.digest);
  return TRUE;
}

gboolean
blob_ingest_bytes (Ctx *ctx, BlobIngest *self, const guint8 *data, gsize size, GError **error)
{
  while (size > 0)
    {
      if (self->writer == NULL && !open_chunk (ctx, self, error))
        return FALSE;
      gsize chunk_left = self->chunk_limit - self->chunk_fill - self->stripe_fill;
      gsize n = MIN (MIN (size, chunk_left), CHUNK_STRIPE_BYTES - self->stripe_fill);
      gboolean ends_stripe = self->stripe_fill + n == CHUNK_STRIPE_BYTES || n == chunk_left;
      gboolean direct = ends_stripe && self->stripe_fill == 0;
      if (direct)
        {
          if (!encode_stripe (ctx, self, data, n, error))
            return FALSE;
        }
      else
        {
          memcpy (self->stripe + self->stripe_fill, data, n);
          self->stripe_fill += n;
          if (ends_stripe && !flush_stripe (ctx, self, error))
            return FALSE;
        }
      data += n;
      size -= n;
      if (self->chunk_fill == self->chunk_limit && !blob_ingest_close_chunk (ctx, self, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
on_frame_header (gpointer data, const ChunkHeader *header, GError **error)
{
  BlobIngest *self = data;
  self->frame = *header;
  self->encoding = header->encoding;
  return header->encoding == CHUNK_ENCODING_REF || open_writer (self->ctx, self, error);
}

static gboolean
on_frame_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded, gsize decoded_size,
                 GError **error)
{
  BlobIngest *self = data;
  return store_stripe (self->ctx, self, stored, stored_size, decoded, decoded_size, error);
}

static gboolean
has_digest_of_frame (const BlobIngest *self)
{
  guint8 actual[CHUNK_DIGEST_SIZE];
  blake3_peek (&self->chunk_hash, actual);
  return memcmp (actual, self->frame.digest.bytes, sizeof actual) == 0;
}

/* A reference: the chunk is read from the store, so the blob's digest covers its bytes too. */
static gboolean
hash_reference (BlobIngest *self, GError **error)
{
  ChunkReader *reader = self->referenced;
  blake3_init (&self->chunk_hash);
  for (gsize n = chunk_reader_stripe_size (reader); n > 0; n = chunk_reader_stripe_size (reader))
    {
      if (!ctx_check (self->ctx, error) || !chunk_reader_next (self->ctx, reader, self->stripe, error))
        return FALSE;
      hash_stripe (self, self->stripe, n);
    }
  return has_digest_of_frame (self)
         || am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: its bytes have another digest");
}

/* It may be one that this upload has just sent on its way. */
static gboolean
open_reference (BlobIngest *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (chunk_reader_open (self->ctx, self->referenced, self->frame.digest.bytes, &problem))
    return TRUE;
  if (am_error_is (problem, AM_ERROR_NOT_FOUND) && self->window != NULL)
    return commit_window_drain (self->ctx, self->window, error)
           && chunk_reader_open (self->ctx, self->referenced, self->frame.digest.bytes, error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
take_reference (BlobIngest *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (self->referenced == NULL)
    self->referenced = chunk_reader_new (blob_store_objects (self->blobs));
  if (self->stripe == NULL)
    self->stripe = g_malloc (CHUNK_STRIPE_BYTES);
  gboolean opened = open_reference (self, &problem);
  const ChunkHeader *header = chunk_reader_header (self->referenced);
  if (opened && header->decoded_size != self->frame.decoded_size)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID", "a reference claims another size");
  if (!opened || !hash_reference (self, &problem))
    {
      if (am_error_is (problem, AM_ERROR_NOT_FOUND) || am_error_is (problem, AM_ERROR_DATA_LOSS))
        return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "CHUNK_UNKNOWN",
                        "a referenced chunk cannot be used, send it whole: %s", problem->message);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  RecipeEntry entry = { .decoded_size = header->decoded_size, .encoded_size = header->encoded_size };
  memcpy (entry.digest, self->frame.digest.bytes, CHUNK_DIGEST_SIZE);
  g_byte_array_append (self->references, entry.digest, CHUNK_DIGEST_SIZE);
  return add_entry (self, &entry, error);
}

static gboolean
on_frame_end (gpointer data, GError **error)
{
  BlobIngest *self = data;
  RecipeEntry entry;
  if (self->frame.encoding == CHUNK_ENCODING_REF)
    return take_reference (self, error);
  if (!has_digest_of_frame (self))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "a chunk's bytes have another digest");
  return commit_chunk (self->ctx, self, NULL, &entry, error) && add_entry (self, &entry, error);
}

gboolean
blob_ingest_frames (Ctx *ctx, BlobIngest *self, const guint8 *data, gsize size, GError **error)
{
  static const ChunkParserEvents events = { on_frame_header, on_frame_stripe, on_frame_end };
  if (self->parser == NULL)
    self->parser = chunk_parser_new (&events, self);
  self->ctx = ctx;
  return chunk_parser_feed (self->parser, data, size, error);
}
