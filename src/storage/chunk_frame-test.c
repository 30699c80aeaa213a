/* Chunk frames: whatever goes in comes out, whatever was changed on the way is noticed. */
#include "storage/chunk_frame.h"

#include <string.h>
#include <xxhash.h>

#include "storage/storage_fixture.h"
#include "storage/wire.h"

#define STRIPE ((gsize) CHUNK_STRIPE_BYTES)

/* What a parser said. */
typedef struct {
  GByteArray *decoded;
  GByteArray *stored;
  ChunkHeader header;
  guint n_headers, n_ends;
  const char *fail_in; /* this event refuses */
  ChunkParser *parser;
  guint8 *target; /* for the first frame's bytes */
} Heard;

static gboolean
refuse (const Heard *heard, const char *event, GError **error)
{
  return g_strcmp0 (heard->fail_in, event) != 0
         || am_fail (error, AM_ERROR_ABORTED, "Refused", "the %s was refused", event);
}

static gboolean
hear_header (gpointer data, const ChunkHeader *header, GError **error)
{
  Heard *heard = data;
  g_assert_cmpuint (heard->n_headers++, ==, heard->n_ends);
  heard->header = *header;
  if (heard->target != NULL && heard->n_headers == 1)
    chunk_parser_decode_into (heard->parser, heard->target);
  return refuse (heard, "header", error);
}

static gboolean
hear_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded, gsize decoded_size,
             GError **error)
{
  Heard *heard = data;
  g_assert_cmpuint (decoded_size, >, 0);
  g_assert_cmpuint (decoded_size, <=, STRIPE);
  g_byte_array_append (heard->stored, stored, (guint) stored_size);
  g_byte_array_append (heard->decoded, decoded, (guint) decoded_size);
  return refuse (heard, "stripe", error);
}

static gboolean
hear_end (gpointer data, GError **error)
{
  Heard *heard = data;
  heard->n_ends++;
  return refuse (heard, "end", error);
}

static const ChunkParserEvents events = { hear_header, hear_stripe, hear_end };

static void
heard_init (Heard *self)
{
  memset (self, 0, sizeof *self);
  self->decoded = g_byte_array_new ();
  self->stored = g_byte_array_new ();
}

static void
heard_clear (Heard *self)
{
  g_byte_array_unref (self->decoded);
  g_byte_array_unref (self->stored);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Heard, heard_clear)

/* Feeds pieces of `piece` bytes, each from memory of its own. */
static gboolean
parse (const guint8 *bytes, gsize size, gsize piece, Heard *heard, gboolean *out_between, GError **error)
{
  g_autoptr (ChunkParser) parser = chunk_parser_new (&events, heard);
  heard->parser = parser;
  for (gsize n; size > 0; bytes += n, size -= n)
    {
      n = MIN (piece, size);
      g_autofree guint8 *copy = g_memdup2 (bytes, n);
      if (!chunk_parser_feed (parser, copy, n, error))
        return FALSE;
    }
  *out_between = chunk_parser_between_frames (parser);
  return TRUE;
}

static void
append_frame (ChunkEncoder *encoder, guint unit_bytes, const guint8 *data, gsize size, GByteArray *out)
{
  ChunkDigest digest = fixture_chunk_digest (data, size);
  chunk_encode (encoder, unit_bytes, data, size, &digest, out);
}

static GByteArray *
frame_of (BytesKind kind, guint unit_bytes, gsize size)
{
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  g_autoptr (GBytes) bytes = fixture_bytes (kind, 1, size);
  GByteArray *out = g_byte_array_new ();
  append_frame (encoder, unit_bytes, g_bytes_get_data (bytes, NULL), size, out);
  return out;
}

static void
append_ref (GByteArray *out, guint decoded_size)
{
  guint8 bytes[CHUNK_HEADER_SIZE];
  ChunkDigest digest = fixture_chunk_digest ("ref", 3);
  chunk_header_write (&(ChunkHeader){ CHUNK_ENCODING_REF, decoded_size, 0, digest }, bytes);
  g_byte_array_append (out, bytes, sizeof bytes);
}

static void
check_roundtrip (ChunkEncoder *encoder, BytesKind kind, guint unit_bytes, gsize size, guint *encodings)
{
  g_autoptr (GBytes) bytes = fixture_bytes (kind, (guint) size, size);
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  g_auto (Heard) heard;
  gboolean between = FALSE;
  ChunkDigest digest = fixture_chunk_digest (g_bytes_get_data (bytes, NULL), size);
  heard_init (&heard);
  append_frame (encoder, unit_bytes, g_bytes_get_data (bytes, NULL), size, frame);
  fixture_assert_ok (parse (frame->data, frame->len, 100000, &heard, &between, &error), error);
  g_assert_true (between);
  g_assert_cmpuint (heard.n_ends, ==, 1);
  g_assert_cmpuint (heard.header.decoded_size, ==, size);
  g_assert_cmpuint (heard.header.encoded_size, ==, frame->len - CHUNK_HEADER_SIZE);
  g_assert_cmpmem (&heard.header.digest, sizeof digest, &digest, sizeof digest);
  g_assert_cmpmem (heard.decoded->data, heard.decoded->len, g_bytes_get_data (bytes, NULL), size);
  g_assert_cmpmem (heard.stored->data, heard.stored->len, frame->data + CHUNK_HEADER_SIZE,
                   frame->len - CHUNK_HEADER_SIZE);
  /* What cannot shrink costs the sums, and 16 bytes a stripe when only the first one looked as if it could. */
  g_assert_cmpuint (heard.header.encoded_size, <=, size + (size + STRIPE - 1) / STRIPE * CHUNK_STRIPE_OVERHEAD);
  if (kind == BYTES_RANDOM)
    g_assert_cmpuint (heard.header.encoded_size, <=, size + (size + STRIPE - 1) / STRIPE * 8 + 16);
  *encodings |= 1u << heard.header.encoding;
}

/* Every encoding, at every edge of a stripe; one encoder for all, as sessions use it. */
static void
test_roundtrip (void)
{
  static const gsize sizes[] = { 1,          2,
                                 3,          4,
                                 5,          7,
                                 8,          9,
                                 31,         63,
                                 64,         65,
                                 66,         127,
                                 129,        1000,
                                 32767,      32768,
                                 32771,      STRIPE - 65,
                                 STRIPE - 3, STRIPE - 2,
                                 STRIPE - 1, STRIPE,
                                 STRIPE + 1, STRIPE + 2,
                                 STRIPE + 3, 2 * STRIPE - 1,
                                 2 * STRIPE, 2 * STRIPE + 1 };
  static const guint units[] = { 0, 1, 2, 4, 8 };
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  guint encodings = 0;
  for (guint kind = BYTES_RANDOM; kind <= BYTES_F8; kind++)
    for (gsize u = 0; u < G_N_ELEMENTS (units); u++)
      for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
        check_roundtrip (encoder, (BytesKind) kind, units[u], sizes[i], &encodings);
  g_assert_cmpuint (encodings, ==,
                    1u << CHUNK_ENCODING_NONE | 1u << CHUNK_ENCODING_ZSTD | 1u << CHUNK_ENCODING_SPLIT2
                      | 1u << CHUNK_ENCODING_SPLIT4);
}

static void
test_largest (void)
{
  static const struct {
    BytesKind kind;
    guint unit_bytes;
  } rows[] = { { BYTES_RANDOM, 0 }, { BYTES_ZERO, 1 }, { BYTES_BF16, 2 }, { BYTES_F32, 4 } };
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  guint encodings = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    for (gsize less = 0; less < 2; less++)
      check_roundtrip (encoder, rows[i].kind, rows[i].unit_bytes, CHUNK_MAX_BYTES - less, &encodings);
}

/* The first stripe looks compressible and the others are not: they are stored as they are, not longer. */
static void
test_misleading_start (void)
{
  static const guint units[] = { 0, 1, 2, 4, 8 };
  for (gsize u = 0; u < G_N_ELEMENTS (units); u++)
    {
      g_autofree guint8 *data = g_malloc0 (3 * STRIPE);
      g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
      g_autoptr (GByteArray) frame = g_byte_array_new ();
      g_autoptr (GError) error = NULL;
      g_auto (Heard) heard;
      gboolean between = FALSE;
      heard_init (&heard);
      fixture_fill (BYTES_RANDOM, 1, data + STRIPE, 2 * STRIPE);
      append_frame (encoder, units[u], data, 3 * STRIPE, frame);
      g_assert_cmpuint (frame->len, <, 2 * STRIPE + 3 * CHUNK_STRIPE_OVERHEAD + STRIPE / 8);
      fixture_assert_ok (parse (frame->data, frame->len, 777, &heard, &between, &error), error);
      g_assert_cmpmem (heard.decoded->data, heard.decoded->len, data, 3 * STRIPE);
    }
}

static void
resum (guint8 *header)
{
  wire_put_u64 (header + 48, XXH3_64bits (header, 48));
}

static void
test_header_bounds (void)
{
  static const struct {
    guint encoding;
    guint decoded, encoded;
    gboolean good;
  } rows[] = {
    { 0, 1, 9, TRUE },
    { 0, 1, 8, FALSE },
    { 0, 0, 9, FALSE },
    { 0, 0, 0, FALSE },
    { 1, CHUNK_MAX_BYTES, 300, TRUE },
    { 1, CHUNK_MAX_BYTES + 1, 300, FALSE },
    { 1, G_MAXUINT32, 300, FALSE },
    { 1, CHUNK_MAX_BYTES, 32 * 8, FALSE },
    { 1, CHUNK_MAX_BYTES, 32 * 8 + 1, TRUE },
    { 2, 100, 100 + CHUNK_STRIPE_OVERHEAD, TRUE },
    { 2, 100, 101 + CHUNK_STRIPE_OVERHEAD, FALSE },
    { 2, CHUNK_STRIPE_BYTES + 1, CHUNK_STRIPE_BYTES + 1 + 2 * CHUNK_STRIPE_OVERHEAD, TRUE },
    { 2, CHUNK_STRIPE_BYTES + 1, CHUNK_STRIPE_BYTES + 2 + 2 * CHUNK_STRIPE_OVERHEAD, FALSE },
    { 3, CHUNK_MAX_BYTES, CHUNK_MAX_ENCODED_BYTES, TRUE },
    { 3, CHUNK_MAX_BYTES, CHUNK_MAX_ENCODED_BYTES + 1, FALSE },
    { 3, 100, G_MAXUINT32, FALSE },
    { 4, 1, 0, TRUE },
    { 4, CHUNK_MAX_BYTES, 0, TRUE },
    { 4, CHUNK_MAX_BYTES + 1, 0, FALSE },
    { 4, 0, 0, FALSE },
    { 4, 1, 1, FALSE },
    { 4, 1, 9, FALSE },
    { 5, 100, 100, FALSE },
    { 255, 100, 100, FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint8 bytes[CHUNK_HEADER_SIZE];
      g_autoptr (GError) error = NULL;
      ChunkHeader header = { (ChunkEncoding) rows[i].encoding, rows[i].decoded, rows[i].encoded,
                             fixture_chunk_digest ("x", 1) };
      ChunkHeader read = { 0 };
      chunk_header_write (&header, bytes);
      gboolean good = chunk_header_read (bytes, &read, &error);
      g_test_message ("row %zu", i);
      g_assert_cmpint (good, ==, rows[i].good);
      if (!good)
        {
          fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
          g_assert_cmpuint (read.decoded_size, ==, 0);
          continue;
        }
      g_assert_cmpuint (read.encoding, ==, rows[i].encoding);
      g_assert_cmpuint (read.decoded_size, ==, rows[i].decoded);
      g_assert_cmpuint (read.encoded_size, ==, rows[i].encoded);
      g_assert_cmpmem (&read.digest, sizeof read.digest, &header.digest, sizeof header.digest);
    }
}

/* Other versions and what is reserved, with a sum that is right. */
static void
test_header_version (void)
{
  static const struct {
    guint at;
    guint8 value;
  } rows[] = { { 0, 'B' }, { 3, 'G' }, { 4, 0 }, { 4, 2 }, { 4, 255 }, { 6, 1 }, { 7, 128 } };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint8 bytes[CHUNK_HEADER_SIZE];
      g_autoptr (GError) error = NULL;
      ChunkHeader header = { CHUNK_ENCODING_NONE, 1, 9, fixture_chunk_digest ("x", 1) };
      chunk_header_write (&header, bytes);
      bytes[rows[i].at] = rows[i].value;
      resum (bytes);
      g_assert_false (chunk_header_read (bytes, &header, &error));
      fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
    }
}

static const struct {
  BytesKind kind;
  guint unit_bytes;
  ChunkEncoding encoding;
} one_of_each[] = {
  { BYTES_RANDOM, 0, CHUNK_ENCODING_NONE },
  { BYTES_TEXT, 0, CHUNK_ENCODING_ZSTD },
  { BYTES_BF16, 2, CHUNK_ENCODING_SPLIT2 },
  { BYTES_F32, 4, CHUNK_ENCODING_SPLIT4 },
};

/* A flip is refused, or it was in one of the few bits of zstd's that change nothing. */
static gboolean
flip_is_harmless (GByteArray *frame, gsize bit, const GByteArray *plain)
{
  g_autoptr (GError) error = NULL;
  g_auto (Heard) heard;
  gboolean between = FALSE;
  heard_init (&heard);
  frame->data[bit / 8] = (guint8) (frame->data[bit / 8] ^ 1u << bit % 8);
  gboolean ok = parse (frame->data, frame->len, G_MAXSIZE, &heard, &between, &error);
  frame->data[bit / 8] = (guint8) (frame->data[bit / 8] ^ 1u << bit % 8);
  if (ok && between)
    {
      g_assert_cmpuint (bit / 8, >, CHUNK_HEADER_SIZE);
      g_assert_cmpmem (heard.decoded->data, heard.decoded->len, plain->data, plain->len);
      return TRUE;
    }
  if (!ok)
    fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID");
  g_assert_cmpuint (heard.n_ends, ==, 0);
  return FALSE;
}

static void
test_every_flip (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (one_of_each); i++)
    {
      g_autoptr (GByteArray) frame = frame_of (one_of_each[i].kind, one_of_each[i].unit_bytes, 1003);
      g_autoptr (GError) error = NULL;
      g_auto (Heard) plain;
      gboolean between = FALSE;
      guint n_harmless = 0;
      heard_init (&plain);
      fixture_assert_ok (parse (frame->data, frame->len, G_MAXSIZE, &plain, &between, &error), error);
      g_assert_cmpint (plain.header.encoding, ==, one_of_each[i].encoding);
      for (gsize bit = 0; bit < 8 * (gsize) frame->len; bit++)
        n_harmless += flip_is_harmless (frame, bit, plain.decoded);
      g_test_message ("encoding %u: %u of %u flips change nothing", plain.header.encoding, n_harmless,
                      8 * frame->len);
      g_assert_cmpuint (100 * n_harmless, <=, plain.header.encoding == CHUNK_ENCODING_NONE ? 0 : 8 * frame->len);
    }
}

/* A frame's bytes come to lie where its header's event says, the next frame's do not. */
static void
test_decode_into (void)
{
  gsize size = 3 * STRIPE + 77;
  g_autoptr (GByteArray) frames = frame_of (BYTES_BF16, 2, size);
  g_autoptr (GByteArray) second = frame_of (BYTES_BF16, 4, 1000);
  g_autofree guint8 *target = g_malloc0 (size);
  g_autoptr (GError) error = NULL;
  g_auto (Heard) heard;
  gboolean between = FALSE;
  heard_init (&heard);
  heard.target = target;
  g_byte_array_append (frames, second->data, second->len);
  fixture_assert_ok (parse (frames->data, frames->len, 100000, &heard, &between, &error), error);
  g_assert_cmpuint (heard.decoded->len, ==, size + 1000);
  g_assert_cmpmem (target, size, heard.decoded->data, size);
}

/* Cut at any byte: no end is told, no error either, and the parser knows that it is inside. */
static void
test_every_cut (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (one_of_each); i++)
    {
      g_autoptr (GByteArray) frame = frame_of (one_of_each[i].kind, one_of_each[i].unit_bytes, 603);
      for (gsize size = 0; size <= frame->len; size++)
        {
          g_autoptr (GError) error = NULL;
          g_auto (Heard) heard;
          gboolean between = FALSE;
          heard_init (&heard);
          fixture_assert_ok (parse (frame->data, size, G_MAXSIZE, &heard, &between, &error), error);
          g_assert_cmpint (between, ==, size == 0 || size == frame->len);
          g_assert_cmpuint (heard.n_ends, ==, size == frame->len);
          g_assert_cmpuint (heard.n_headers, ==, size >= CHUNK_HEADER_SIZE);
        }
    }
}

/* A stream of frames and references, in pieces of every awkward size. */
static void
test_pieces (void)
{
  static const gsize pieces[] = { 1, 2, 3, 7, 8, 55, 56, 57, 63, 64, 4099, 65536, STRIPE, STRIPE + 8, G_MAXSIZE };
  g_autoptr (GByteArray) stream = g_byte_array_new ();
  g_autoptr (GByteArray) plain = g_byte_array_new ();
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  append_ref (stream, 5);
  for (gsize i = 0; i < G_N_ELEMENTS (one_of_each); i++)
    {
      gsize size = i == 1 ? 17 : 2 * STRIPE + 4 * i + 1;
      g_autoptr (GBytes) bytes = fixture_bytes (one_of_each[i].kind, 2, size);
      append_frame (encoder, one_of_each[i].unit_bytes, g_bytes_get_data (bytes, NULL), size, stream);
      append_ref (stream, CHUNK_MAX_BYTES);
      g_byte_array_append (plain, g_bytes_get_data (bytes, NULL), (guint) size);
    }
  append_ref (stream, 1);
  for (gsize i = 0; i < G_N_ELEMENTS (pieces); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (Heard) heard;
      gboolean between = FALSE;
      heard_init (&heard);
      fixture_assert_ok (parse (stream->data, stream->len, pieces[i], &heard, &between, &error), error);
      g_assert_true (between);
      g_assert_cmpuint (heard.n_ends, ==, 10);
      g_assert_cmpmem (heard.decoded->data, heard.decoded->len, plain->data, plain->len);
    }
}

static void
expect_refused (const GByteArray *stream, const char *part)
{
  static const gsize pieces[] = { 1, 100, G_MAXSIZE };
  for (gsize i = 0; i < G_N_ELEMENTS (pieces); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (Heard) heard;
      gboolean between = FALSE;
      heard_init (&heard);
      g_assert_false (parse (stream->data, stream->len, pieces[i], &heard, &between, &error));
      g_assert_nonnull (strstr (error->message, part));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID");
      g_assert_cmpuint (heard.n_ends, ==, 0);
    }
}

/* A header that says other sizes than its stripes have; `pad` zeros follow. */
static void
check_lie (const GByteArray *frame, gint decoded, gint encoded, guint pad, const char *part)
{
  g_autoptr (GByteArray) lie = g_byte_array_new ();
  ChunkHeader header;
  g_byte_array_append (lie, frame->data, frame->len);
  g_assert_true (chunk_header_read (frame->data, &header, NULL));
  header.decoded_size = (guint32) ((gint) header.decoded_size + decoded);
  header.encoded_size = (guint32) ((gint) header.encoded_size + encoded);
  chunk_header_write (&header, lie->data);
  gsize end = lie->len;
  g_byte_array_set_size (lie, lie->len + pad);
  memset (lie->data + end, 0, pad);
  expect_refused (lie, part);
}

static void
test_lies_of_the_header (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (one_of_each); i++)
    {
      g_autoptr (GByteArray) frame = frame_of (one_of_each[i].kind, one_of_each[i].unit_bytes, 8192);
      g_autoptr (GByteArray) two = frame_of (one_of_each[i].kind, one_of_each[i].unit_bytes, STRIPE + 8);
      check_lie (frame, 0, 1, 1, "follow");
      check_lie (frame, 0, -1, 0, "disagree");
      check_lie (frame, 4, 4, 4, "");
      check_lie (frame, -4, -4, 0, "");
      check_lie (two, 0, -1, 0, "disagree");
      check_lie (two, 4, 4, 4, "");
      check_lie (two, -8, 0, 0, "follow");
      check_lie (frame, STRIPE, 100, 200, "");
    }
}

/* Plane sizes that cannot be true. */
static void
test_lies_of_the_planes (void)
{
  static const struct {
    guint32 word;
    const char *part;
  } rows[] = {
    { 0, "disagree" },    /* no bytes */
    { 1003, "disagree" }, /* coded and not smaller */
    { 0x7fffffff, "disagree" },
    { 0x80000000u, "disagree" },        /* raw and of no size */
    { 0x80000000u | 1002, "disagree" }, /* raw and of another size */
    { 0x80000000u | 1004, "disagree" },
    { 0xffffffffu, "disagree" },
    { 1002, "disagree" }, /* more than the frame has */
    { 5, "cannot be read" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GByteArray) frame = frame_of (BYTES_TEXT, 0, 1003);
      wire_put_u32 (frame->data + CHUNK_HEADER_SIZE + 8, rows[i].word);
      g_test_message ("word %x", rows[i].word);
      expect_refused (frame, rows[i].part);
    }
}

/* What stripes are asked directly, as readers of stored objects do. */
static void
test_stripe_sizes (void)
{
  guint8 prefix[8 + 16] = { 0 };
  g_assert_cmpuint (chunk_stripe_prefix_size (CHUNK_ENCODING_NONE), ==, 8);
  g_assert_cmpuint (chunk_stripe_prefix_size (CHUNK_ENCODING_ZSTD), ==, 12);
  g_assert_cmpuint (chunk_stripe_prefix_size (CHUNK_ENCODING_SPLIT2), ==, 16);
  g_assert_cmpuint (chunk_stripe_prefix_size (CHUNK_ENCODING_SPLIT4), ==, 24);
  g_assert_cmpuint (chunk_stripe_stored_size (CHUNK_ENCODING_NONE, prefix, 1000), ==, 1008);
  g_assert_cmpuint (chunk_stripe_stored_size (CHUNK_ENCODING_SPLIT2, prefix, 1000), ==, 0);
  /* One byte in two planes: the second is empty, and raw. */
  wire_put_u32 (prefix + 8, 0x80000001u);
  wire_put_u32 (prefix + 12, 0x80000000u);
  g_assert_cmpuint (chunk_stripe_stored_size (CHUNK_ENCODING_SPLIT2, prefix, 1), ==, 17);
  wire_put_u32 (prefix + 12, 1);
  g_assert_cmpuint (chunk_stripe_stored_size (CHUNK_ENCODING_SPLIT2, prefix, 1), ==, 0);
}

/* The stored stripe shorter than its own prefix, or than what the prefix says. */
static void
test_stripe_cut (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (one_of_each); i++)
    {
      g_autoptr (GByteArray) frame = frame_of (one_of_each[i].kind, one_of_each[i].unit_bytes, 600);
      g_autoptr (ChunkDecoder) decoder = chunk_decoder_new ();
      guint8 out[600];
      gsize whole = frame->len - CHUNK_HEADER_SIZE;
      for (gsize n = 0; n <= whole; n++)
        {
          g_autoptr (GError) error = NULL;
          g_autofree guint8 *copy = g_memdup2 (frame->data + CHUNK_HEADER_SIZE, n);
          g_assert_cmpint (chunk_decoder_stripe (decoder, one_of_each[i].encoding, copy, n, out, sizeof out, &error),
                           ==, n == whole);
          if (n < whole)
            fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
        }
    }
}

static void
test_refusing_events (void)
{
  static const char *const names[] = { "header", "stripe", "end" };
  g_autoptr (GByteArray) frame = frame_of (BYTES_TEXT, 0, 1000);
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (Heard) heard;
      gboolean between = FALSE;
      heard_init (&heard);
      heard.fail_in = names[i];
      g_assert_false (parse (frame->data, frame->len, 10, &heard, &between, &error));
      fixture_assert_error (&error, AM_ERROR_ABORTED, "Refused");
    }
}

static void
test_garbage_behind (void)
{
  g_autoptr (GByteArray) frame = frame_of (BYTES_TEXT, 0, 1000);
  g_autoptr (GError) error = NULL;
  g_auto (Heard) heard;
  gboolean between = FALSE;
  heard_init (&heard);
  for (guint i = 0; i < CHUNK_HEADER_SIZE; i++)
    g_byte_array_append (frame, (const guint8 *) "g", 1);
  g_assert_false (parse (frame->data, frame->len, 10, &heard, &between, &error));
  fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID");
  g_assert_cmpuint (heard.n_ends, ==, 1);
}

static void
test_hex (void)
{
  static const struct {
    const char *text;
    gboolean is_good;
  } rows[] = {
    { "00112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f0", TRUE },
    { "00112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f", FALSE },
    { "00112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f0a", FALSE },
    { "00112233445566778899AABBCCDDEEFF0f1e2d3c4b5a69788796a5b4c3d2e1f0", FALSE },
    { "0g112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f0", FALSE },
    { "g0112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f0", FALSE },
    { "", FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint8 digest[CHUNK_DIGEST_SIZE] = { 0x5a };
      char back[CHUNK_HEX_SIZE];
      g_assert_cmpint (chunk_digest_parse_hex (rows[i].text, digest), ==, rows[i].is_good);
      if (rows[i].is_good)
        g_assert_cmpstr (chunk_digest_hex (digest, back), ==, rows[i].text);
      else
        g_assert_cmpuint (digest[0], ==, 0x5a);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/chunk-frame/hex", test_hex);
  g_test_add_func ("/chunk-frame/roundtrip", test_roundtrip);
  g_test_add_func ("/chunk-frame/largest", test_largest);
  g_test_add_func ("/chunk-frame/misleading-start", test_misleading_start);
  g_test_add_func ("/chunk-frame/header-bounds", test_header_bounds);
  g_test_add_func ("/chunk-frame/header-version", test_header_version);
  g_test_add_func ("/chunk-frame/every-flip", test_every_flip);
  g_test_add_func ("/chunk-frame/decode-into", test_decode_into);
  g_test_add_func ("/chunk-frame/every-cut", test_every_cut);
  g_test_add_func ("/chunk-frame/pieces", test_pieces);
  g_test_add_func ("/chunk-frame/lies-of-the-header", test_lies_of_the_header);
  g_test_add_func ("/chunk-frame/lies-of-the-planes", test_lies_of_the_planes);
  g_test_add_func ("/chunk-frame/stripe-sizes", test_stripe_sizes);
  g_test_add_func ("/chunk-frame/stripe-cut", test_stripe_cut);
  g_test_add_func ("/chunk-frame/refusing-events", test_refusing_events);
  g_test_add_func ("/chunk-frame/garbage-behind", test_garbage_behind);
  return g_test_run ();
}
