/* Any bytes as a stream of chunk frames: refused with a reason, or each frame is as long as its header says, whatever
 * pieces it came in, and its bytes survive being encoded again. The first byte tells whether sums are put right first
 * (otherwise nearly nothing would get past them), and the length of the pieces. */
#include "storage/chunk_frame.h"

#include <string.h>

#include "storage/stripe_sum.h"
#include "storage/wire.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

#define SUM_OFFSET 48
#define MAX_DECODED_BYTES (16u << 20)

typedef struct {
  GByteArray *decoded; /* of all frames */
  GArray *ends;        /* guint64: how much was decoded at each frame's end */
  ChunkHeader header;
  guint32 decoded_left, stored_left;
} Heard;

static gboolean
hear_header (gpointer data, const ChunkHeader *header, GError **error)
{
  Heard *heard = data;
  g_assert_true (header->encoding <= CHUNK_ENCODING_REF);
  g_assert_true (header->decoded_size > 0 && header->decoded_size <= CHUNK_MAX_BYTES);
  g_assert_cmpuint (header->encoded_size, <=, CHUNK_MAX_ENCODED_BYTES);
  heard->header = *header;
  heard->decoded_left = header->encoding == CHUNK_ENCODING_REF ? 0 : header->decoded_size;
  heard->stored_left = header->encoded_size;
  return heard->decoded->len <= MAX_DECODED_BYTES || am_fail (error, AM_ERROR_ABORTED, "Enough", "enough");
}

static gboolean
hear_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded, gsize decoded_size,
             GError **error)
{
  Heard *heard = data;
  g_assert_cmpuint (decoded_size, ==, MIN (heard->decoded_left, CHUNK_STRIPE_BYTES));
  g_assert_cmpuint (stored_size, <=, heard->stored_left);
  heard->decoded_left -= (guint32) decoded_size;
  heard->stored_left -= (guint32) stored_size;
  g_byte_array_append (heard->decoded, decoded, (guint) decoded_size);
  return TRUE;
}

static gboolean
hear_end (gpointer data, GError **error)
{
  Heard *heard = data;
  guint64 end = heard->decoded->len;
  g_assert_cmpuint (heard->decoded_left + heard->stored_left, ==, 0);
  g_array_append_val (heard->ends, end);
  return TRUE;
}

static void
heard_init (Heard *self)
{
  memset (self, 0, sizeof *self);
  self->decoded = g_byte_array_new ();
  self->ends = g_array_new (FALSE, FALSE, sizeof (guint64));
}

static void
heard_clear (Heard *self)
{
  g_byte_array_unref (self->decoded);
  g_array_unref (self->ends);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Heard, heard_clear)

static gboolean
parse (const guint8 *bytes, gsize size, gsize piece, Heard *heard)
{
  static const ChunkParserEvents events = { hear_header, hear_stripe, hear_end };
  g_autoptr (ChunkParser) parser = chunk_parser_new (&events, heard);
  g_autoptr (GError) error = NULL;
  for (gsize n; size > 0; bytes += n, size -= n)
    {
      n = MIN (piece, size);
      g_autofree guint8 *copy = g_memdup2 (bytes, n); /* so that a read beyond is seen */
      if (chunk_parser_feed (parser, copy, n, &error))
        continue;
      g_assert_true (am_error_has_reason (error, "CHUNK_INVALID") || am_error_has_reason (error, "Enough"));
      return FALSE;
    }
  return chunk_parser_between_frames (parser);
}

/* Puts the sums of the frame at `bytes` right; its length, or 0 when it has none. */
static gsize
mend_frame (guint8 *bytes, gsize size, ChunkDecoder *decoder, guint8 *stripe)
{
  ChunkHeader header;
  if (size < CHUNK_HEADER_SIZE)
    return 0;
  wire_put_u64 (bytes + SUM_OFFSET, stripe_sum (bytes, SUM_OFFSET));
  if (!chunk_header_read (bytes, &header, NULL))
    return 0;
  gsize at = CHUNK_HEADER_SIZE, decoded_left = header.encoding == CHUNK_ENCODING_REF ? 0 : header.decoded_size;
  while (decoded_left > 0)
    {
      gsize decoded = MIN (decoded_left, CHUNK_STRIPE_BYTES), prefix = chunk_stripe_prefix_size (header.encoding);
      gsize stored = size - at < prefix ? 0 : chunk_stripe_stored_size (header.encoding, bytes + at, decoded);
      if (stored == 0 || stored > size - at)
        return 0;
      /* Decoding fills the stripe before it looks at the sum. */
      memset (stripe, 0, decoded);
      if (!chunk_decoder_stripe (decoder, header.encoding, bytes + at, stored, stripe, decoded, NULL))
        wire_put_u64 (bytes + at, stripe_sum (stripe, decoded));
      at += stored;
      decoded_left -= decoded;
    }
  /* And what the header says of it, so that ends are reached. */
  header.encoded_size = (guint32) (at - CHUNK_HEADER_SIZE);
  chunk_header_write (&header, bytes);
  return at;
}

static void
mend (guint8 *bytes, gsize size)
{
  static guint8 stripe[CHUNK_STRIPE_BYTES];
  static ChunkDecoder *decoder;
  gsize total = 0;
  if (decoder == NULL)
    decoder = chunk_decoder_new ();
  for (gsize n = 1; n > 0 && total < size; total += n)
    n = mend_frame (bytes + total, size - total, decoder, stripe);
}

static void
check_encoding_again (const guint8 *bytes, gsize size, guint unit_bytes)
{
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  g_auto (Heard) heard;
  ChunkDigest digest = { { 0 } };
  heard_init (&heard);
  chunk_encode (encoder, unit_bytes, bytes, size, &digest, frame);
  g_assert_true (parse (frame->data, frame->len, G_MAXSIZE, &heard));
  g_assert_cmpmem (heard.decoded->data, heard.decoded->len, bytes, size);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  if (size < 1)
    return 0;
  g_auto (Heard) whole, pieces;
  g_autofree guint8 *bytes = g_memdup2 (data + 1, size - 1);
  gsize n_bytes = size - 1, piece = 1u + (data[0] >> 1);
  if ((data[0] & 1) != 0)
    mend (bytes, n_bytes);
  heard_init (&whole);
  heard_init (&pieces);
  gboolean ok = parse (bytes, n_bytes, G_MAXSIZE, &whole);
  g_assert_cmpint (parse (bytes, n_bytes, piece, &pieces), ==, ok);
  g_assert_cmpmem (whole.decoded->data, whole.decoded->len, pieces.decoded->data, pieces.decoded->len);
  g_assert_cmpuint (whole.ends->len, ==, pieces.ends->len);
  gsize n = MIN (whole.decoded->len, CHUNK_STRIPE_BYTES + 3);
  if (n > 0)
    check_encoding_again (whole.decoded->data, n, data[0] % 9);
  return 0;
}
