#include "storage/chunk_reader.h"

#include <string.h>

#include "storage/blob_store.h"

struct ChunkReader {
  ObjectStore *objects;
  ChunkDecoder *decoder;
  guint8 *stored; /* a stripe as stored, and the prefix behind it */
  Reader *object;
  char *key;
  ChunkHeader header;
  guint64 next;        /* offset in the object of the next stripe's prefix */
  guint32 decoded;     /* bytes handed out or skipped */
  gboolean has_prefix; /* `stored` begins with the next stripe's prefix already */
};

char *
chunk_key (const guint8 digest[CHUNK_DIGEST_SIZE])
{
  char hex[CHUNK_HEX_SIZE];
  chunk_digest_hex (digest, hex);
  return g_strdup_printf (CHUNKS_PREFIX "%.2s/%s", hex, hex);
}

ChunkReader *
chunk_reader_new (ObjectStore *objects)
{
  ChunkReader *self = g_new0 (ChunkReader, 1);
  self->objects = objects;
  self->decoder = chunk_decoder_new ();
  self->stored = g_malloc (CHUNK_STRIPE_BYTES + 2 * CHUNK_STRIPE_OVERHEAD);
  return self;
}

void
chunk_reader_free (ChunkReader *self)
{
  if (self == NULL)
    return;
  reader_free (self->object);
  chunk_decoder_free (self->decoder);
  g_free (self->stored);
  g_free (self->key);
  g_free (self);
}

/* Errors of the store name the object themselves. Returns FALSE. */
static gboolean
name_object (const char *key, GError **error)
{
  if (error != NULL && am_error_has_reason (*error, "ChunkCorrupt"))
    g_prefix_error (error, "object %s: ", key);
  return FALSE;
}

static gboolean
fail_corrupt (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: %s", what);
}

static gboolean
read_header (Ctx *ctx, Reader *object, const guint8 digest[32], ChunkHeader *out_header, GError **error)
{
  guint8 bytes[CHUNK_HEADER_SIZE];
  if (object->size_bytes < sizeof bytes)
    return fail_corrupt (error, "it is cut short");
  if (!reader_read_at (ctx, object, 0, bytes, sizeof bytes, error) || !chunk_header_read (bytes, out_header, error))
    return FALSE;
  if (memcmp (out_header->digest.bytes, digest, CHUNK_DIGEST_SIZE) != 0 || out_header->encoding == CHUNK_ENCODING_REF)
    return fail_corrupt (error, "its name is another's");
  return object->size_bytes == CHUNK_HEADER_SIZE + (guint64) out_header->encoded_size
         || fail_corrupt (error, "its length is wrong");
}

typedef Reader *(*OpenObject) (Ctx *ctx, ObjectStore *objects, const char *key, GError **error);

static Reader *
open_header (Ctx *ctx, ObjectStore *objects, const char *key, GError **error)
{
  return object_store_open_head (ctx, objects, key, CHUNK_HEADER_SIZE, error);
}

static Reader *
open_object (Ctx *ctx, ObjectStore *objects, OpenObject open, const guint8 digest[32], ChunkHeader *out_header,
             GError **error)
{
  g_autofree char *key = chunk_key (digest);
  g_autoptr (GError) problem = NULL;
  g_autoptr (Reader) object = open (ctx, objects, key, &problem);
  if (object == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "CHUNK_UNKNOWN", "chunk object %s is missing", key);
  if (object != NULL && read_header (ctx, object, digest, out_header, &problem))
    return g_steal_pointer (&object);
  g_propagate_error (error, g_steal_pointer (&problem));
  name_object (key, error);
  return NULL;
}

Reader *
chunk_object_open (Ctx *ctx, ObjectStore *objects, const guint8 digest[32], ChunkHeader *out_header, GError **error)
{
  return open_object (ctx, objects, object_store_open, digest, out_header, error);
}

gboolean
chunk_object_check (Ctx *ctx, ObjectStore *objects, const guint8 digest[32], ChunkHeader *out_header, GError **error)
{
  g_autoptr (Reader) object = open_object (ctx, objects, open_header, digest, out_header, error);
  return object != NULL;
}

void
chunk_reader_take (ChunkReader *self, const guint8 digest[32], Reader *frame, const ChunkHeader *header)
{
  reader_free (self->object);
  g_free (self->key);
  self->key = chunk_key (digest);
  self->next = CHUNK_HEADER_SIZE;
  self->decoded = 0;
  self->has_prefix = FALSE;
  self->header = *header;
  self->object = frame;
}

gboolean
chunk_reader_open (Ctx *ctx, ChunkReader *self, const guint8 digest[32], GError **error)
{
  ChunkHeader header = { 0 };
  g_clear_pointer (&self->object, reader_free); /* before another takes its memory */
  Reader *frame = chunk_object_open (ctx, self->objects, digest, &header, error);
  chunk_reader_take (self, digest, frame, &header);
  return frame != NULL;
}

const ChunkHeader *
chunk_reader_header (const ChunkReader *self)
{
  return &self->header;
}

gsize
chunk_reader_stripe_size (const ChunkReader *self)
{
  return MIN (CHUNK_STRIPE_BYTES, self->header.decoded_size - self->decoded);
}

/* Whole stored size of the next stripe, whose prefix it makes sure to have; 0 with an error. */
static gsize
next_stored_size (Ctx *ctx, ChunkReader *self, GError **error)
{
  gsize prefix = chunk_stripe_prefix_size (self->header.encoding);
  guint64 left = self->object->size_bytes - self->next;
  if (left < prefix)
    return fail_corrupt (error, "its stripes are cut short");
  if (!self->has_prefix && !reader_read_at (ctx, self->object, self->next, self->stored, prefix, error))
    return 0;
  self->has_prefix = TRUE;
  gsize stored = chunk_stripe_stored_size (self->header.encoding, self->stored, chunk_reader_stripe_size (self));
  if (stored == 0 || stored > left)
    return fail_corrupt (error, "its sizes disagree");
  /* The last stripe ends where the object does. */
  if (self->decoded + chunk_reader_stripe_size (self) == self->header.decoded_size && stored != left)
    return fail_corrupt (error, "bytes follow its last stripe");
  return stored;
}

static gboolean
read_stripe (Ctx *ctx, ChunkReader *self, guint8 *out, GError **error)
{
  gsize prefix = chunk_stripe_prefix_size (self->header.encoding);
  gsize decoded = chunk_reader_stripe_size (self);
  gsize stored = next_stored_size (ctx, self, error);
  if (stored == 0)
    return FALSE;
  /* The prefix behind comes with it: one read for each stripe. */
  gsize more = self->next + stored + prefix <= self->object->size_bytes ? prefix : 0;
  if (!reader_read_at (ctx, self->object, self->next + prefix, self->stored + prefix, stored - prefix + more, error)
      || !chunk_decoder_stripe (self->decoder, self->header.encoding, self->stored, stored, out, decoded, error))
    return FALSE;
  memmove (self->stored, self->stored + stored, more);
  self->has_prefix = more > 0;
  self->next += stored;
  self->decoded += (guint32) decoded;
  return TRUE;
}

gboolean
chunk_reader_next (Ctx *ctx, ChunkReader *self, guint8 *out, GError **error)
{
  return read_stripe (ctx, self, out, error) || name_object (self->key, error);
}

gboolean
chunk_reader_skip (Ctx *ctx, ChunkReader *self, GError **error)
{
  gsize stored = next_stored_size (ctx, self, error);
  if (stored == 0)
    return name_object (self->key, error);
  self->decoded += (guint32) chunk_reader_stripe_size (self);
  self->next += stored;
  self->has_prefix = FALSE;
  return TRUE;
}
