#include "storage/chunk_frame.h"

#include <xxhash.h>

#include "storage/wire.h"

#define MAGIC "AMCF"
#define VERSION 1
#define SUM_OFFSET 48

const char *
chunk_digest_hex (const guint8 digest[CHUNK_DIGEST_SIZE], char buffer[CHUNK_HEX_SIZE])
{
  static const char digits[] = "0123456789abcdef";
  for (guint i = 0; i < CHUNK_DIGEST_SIZE; i++)
    {
      buffer[2 * i] = digits[digest[i] >> 4];
      buffer[2 * i + 1] = digits[digest[i] & 15];
    }
  buffer[2 * CHUNK_DIGEST_SIZE] = '\0';
  return buffer;
}

gboolean
chunk_digest_parse_hex (const char *hex, guint8 out_digest[CHUNK_DIGEST_SIZE])
{
  guint8 digest[CHUNK_DIGEST_SIZE];
  if (strlen (hex) != CHUNK_HEX_SIZE - 1)
    return FALSE;
  for (guint i = 0; i < CHUNK_DIGEST_SIZE; i++)
    {
      const char *pair = hex + 2 * i;
      if (!g_ascii_isxdigit (pair[0]) || !g_ascii_isxdigit (pair[1]) || g_ascii_isupper (pair[0])
          || g_ascii_isupper (pair[1]))
        return FALSE;
      digest[i] = (guint8) (g_ascii_xdigit_value (pair[0]) << 4 | g_ascii_xdigit_value (pair[1]));
    }
  memcpy (out_digest, digest, sizeof digest);
  return TRUE;
}

void
chunk_header_write (const ChunkHeader *self, guint8 out[CHUNK_HEADER_SIZE])
{
  memcpy (out, MAGIC, 4);
  out[4] = VERSION;
  out[5] = (guint8) self->encoding;
  out[6] = out[7] = 0;
  wire_put_u32 (out + 8, self->decoded_size);
  wire_put_u32 (out + 12, self->encoded_size);
  memcpy (out + 16, self->digest.bytes, CHUNK_DIGEST_SIZE);
  wire_put_u64 (out + SUM_OFFSET, XXH3_64bits (out, SUM_OFFSET));
}

static const char *
header_problem (const guint8 *bytes, const ChunkHeader *header)
{
  guint32 n_stripes = (header->decoded_size + CHUNK_STRIPE_BYTES - 1) / CHUNK_STRIPE_BYTES;
  if (memcmp (bytes, MAGIC, 4) != 0)
    return "not a chunk frame";
  if (wire_get_u64 (bytes + SUM_OFFSET) != XXH3_64bits (bytes, SUM_OFFSET))
    return "the header's checksum is wrong";
  if (bytes[4] != VERSION || bytes[6] != 0 || bytes[7] != 0 || header->encoding > CHUNK_ENCODING_REF)
    return "unknown version or encoding";
  if (header->decoded_size == 0 || header->decoded_size > CHUNK_MAX_BYTES)
    return "the decoded size is out of bounds";
  if (header->encoding == CHUNK_ENCODING_REF)
    return header->encoded_size == 0 ? NULL : "a reference has a body";
  if (header->encoded_size > header->decoded_size + n_stripes * CHUNK_STRIPE_OVERHEAD
      || header->encoded_size <= n_stripes * 8)
    return "the encoded size is out of bounds";
  return NULL;
}

gboolean
chunk_header_read (const guint8 bytes[CHUNK_HEADER_SIZE], ChunkHeader *out_header, GError **error)
{
  ChunkHeader header = { .encoding = (ChunkEncoding) bytes[5],
                         .decoded_size = wire_get_u32 (bytes + 8),
                         .encoded_size = wire_get_u32 (bytes + 12) };
  memcpy (header.digest.bytes, bytes + 16, CHUNK_DIGEST_SIZE);
  const char *problem = header_problem (bytes, &header);
  if (problem != NULL)
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: %s", problem);
  *out_header = header;
  return TRUE;
}

gsize
chunk_frame_bound (gsize decoded_size)
{
  gsize n_stripes = (decoded_size + CHUNK_STRIPE_BYTES - 1) / CHUNK_STRIPE_BYTES;
  return CHUNK_HEADER_SIZE + decoded_size + n_stripes * CHUNK_STRIPE_OVERHEAD;
}

gsize
chunk_encode_into (ChunkEncoder *self, guint unit_bytes, const guint8 *data, gsize size, const ChunkDigest *digest,
                   guint8 *out)
{
  gsize end = CHUNK_HEADER_SIZE;
  chunk_encoder_begin (self, unit_bytes);
  for (gsize done = 0; done < size; done += CHUNK_STRIPE_BYTES)
    end += chunk_encoder_stripe_into (self, data + done, MIN (size - done, CHUNK_STRIPE_BYTES), out + end);
  ChunkHeader header = { chunk_encoder_encoding (self), (guint32) size, (guint32) (end - CHUNK_HEADER_SIZE),
                         *digest };
  chunk_header_write (&header, out);
  return end;
}

void
chunk_encode (ChunkEncoder *self, guint unit_bytes, const guint8 *data, gsize size, const ChunkDigest *digest,
              GByteArray *out)
{
  guint start = out->len;
  g_byte_array_set_size (out, (guint) (start + chunk_frame_bound (size)));
  gsize n = chunk_encode_into (self, unit_bytes, data, size, digest, out->data + start);
  g_byte_array_set_size (out, (guint) (start + n));
}

/* What the parser waits for next. */
typedef enum { WANT_HEADER, WANT_PREFIX, WANT_STRIPE } Want;

struct ChunkParser {
  const ChunkParserEvents *events;
  gpointer data;
  ChunkDecoder *decoder;
  ChunkHeader header;
  Want want;
  gsize wanted;         /* bytes of the current item, from its start */
  gsize have;           /* of them, in `pending` */
  guint32 decoded_left; /* of the frame */
  guint32 encoded_left;
  guint8 *pending;
  guint8 *decoded;
  guint8 *target; /* of the frame's decoded bytes, where the consumer named one */
};

ChunkParser *
chunk_parser_new (const ChunkParserEvents *events, gpointer data)
{
  ChunkParser *self = g_new0 (ChunkParser, 1);
  self->events = events;
  self->data = data;
  self->decoder = chunk_decoder_new ();
  self->wanted = CHUNK_HEADER_SIZE;
  self->pending = g_malloc (CHUNK_STRIPE_BYTES + CHUNK_STRIPE_OVERHEAD);
  self->decoded = g_malloc (CHUNK_STRIPE_BYTES);
  return self;
}

void
chunk_parser_free (ChunkParser *self)
{
  if (self == NULL)
    return;
  chunk_decoder_free (self->decoder);
  g_free (self->pending);
  g_free (self->decoded);
  g_free (self);
}

void
chunk_parser_decode_into (ChunkParser *self, guint8 *target)
{
  self->target = target;
}

gboolean
chunk_parser_between_frames (const ChunkParser *self)
{
  return self->want == WANT_HEADER && self->have == 0;
}

static gboolean
fail_invalid (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID", "bad chunk frame: %s", what);
}

/* After a header or a stripe: another stripe, or the end of the frame. */
static gboolean
expect_next (ChunkParser *self, GError **error)
{
  self->have = 0;
  if (self->decoded_left == 0 || self->header.encoding == CHUNK_ENCODING_REF)
    {
      if (self->encoded_left != 0)
        return fail_invalid (error, "bytes follow its last stripe");
      self->want = WANT_HEADER;
      self->wanted = CHUNK_HEADER_SIZE;
      return self->events->end (self->data, error);
    }
  self->want = WANT_PREFIX;
  self->wanted = chunk_stripe_prefix_size (self->header.encoding);
  return TRUE;
}

static gboolean
take_header (ChunkParser *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (!chunk_header_read (self->pending, &self->header, &problem))
    return fail_invalid (error, problem->message);
  self->decoded_left = self->header.decoded_size;
  self->encoded_left = self->header.encoded_size;
  self->target = NULL;
  return self->events->header (self->data, &self->header, error) && expect_next (self, error);
}

static gboolean
take_prefix (ChunkParser *self, GError **error)
{
  gsize decoded = MIN (self->decoded_left, CHUNK_STRIPE_BYTES);
  gsize stored = chunk_stripe_stored_size (self->header.encoding, self->pending, decoded);
  if (stored == 0 || stored > self->encoded_left)
    return fail_invalid (error, "its sizes disagree");
  self->want = WANT_STRIPE;
  self->wanted = stored;
  return TRUE;
}

static gboolean
take_stripe (ChunkParser *self, const guint8 *stored, GError **error)
{
  gsize decoded = MIN (self->decoded_left, CHUNK_STRIPE_BYTES);
  guint8 *out = self->target != NULL ? self->target + (self->header.decoded_size - self->decoded_left)
                                     : self->decoded;
  g_autoptr (GError) problem = NULL;
  if (!chunk_decoder_stripe (self->decoder, self->header.encoding, stored, self->wanted, out, decoded, &problem))
    return fail_invalid (error, problem->message);
  self->decoded_left -= (guint32) decoded;
  self->encoded_left -= (guint32) self->wanted;
  return self->events->stripe (self->data, stored, self->wanted, out, decoded, error) && expect_next (self, error);
}

gboolean
chunk_parser_feed (ChunkParser *self, const guint8 *bytes, gsize size, GError **error)
{
  while (size > 0 || self->have == self->wanted)
    {
      gsize n = MIN (size, self->wanted - self->have);
      memcpy (self->pending + self->have, bytes, n);
      self->have += n;
      bytes += n;
      size -= n;
      if (self->have < self->wanted)
        return TRUE;
      gboolean ok = self->want == WANT_HEADER   ? take_header (self, error)
                    : self->want == WANT_PREFIX ? take_prefix (self, error)
                                                : take_stripe (self, self->pending, error);
      if (!ok)
        return FALSE;
    }
  return TRUE;
}
