/* The chunk frame: how one chunk (at most 8 MiB decoded) lies in the bucket and travels on the wire.
 *
 *   header, 56 bytes, little-endian: "AMCF", version 1, encoding, 2 zero bytes, u32 decoded size,
 *   u32 encoded size (of what follows the header), 32 bytes BLAKE3 of the decoded bytes, u64 XXH3-64
 *   of the 48 bytes before it; then one stripe for each 256 KiB of decoded bytes (the last is shorter):
 *   u64 XXH3-64 of the stripe's decoded bytes, one u32 for each plane (bit 31: stored raw; bit 30: in
 *   the code of rank_coder.h, otherwise zstd; bits 0-29: stored size), then the planes. Encoding none
 *   has no planes: the stripe's bytes follow the sum.
 *
 * Stripes keep encoding and decoding inside the CPU's cache, let a reader start in the middle of a
 * chunk, and let rot be caught before a byte leaves. Plane p of a w-byte encoding holds the bytes whose
 * index is p modulo w. A frame of encoding `ref` is a bare header with encoded size 0: it stands for a
 * chunk the other side has. (storage.md, "Chunks".) Encoder and parser are not thread-safe. */
#pragma once

#include "base/blake3.h"
#include "base/error.h"

#define CHUNK_MAX_BYTES (8u << 20)
#define CHUNK_STRIPE_BYTES (256u << 10)
#define CHUNK_HEADER_SIZE 56
#define CHUNK_DIGEST_SIZE BLAKE3_SIZE
#define CHUNK_HEX_SIZE (2 * CHUNK_DIGEST_SIZE + 1)
#define CHUNK_STRIPE_OVERHEAD (8 + 4 * 4)
/* No valid frame's payload is longer: a plane that does not shrink is stored raw. */
#define CHUNK_MAX_ENCODED_BYTES (CHUNK_MAX_BYTES + (CHUNK_MAX_BYTES / CHUNK_STRIPE_BYTES) * CHUNK_STRIPE_OVERHEAD)

typedef enum {
  CHUNK_ENCODING_NONE = 0,
  CHUNK_ENCODING_ZSTD = 1,
  CHUNK_ENCODING_SPLIT2 = 2,
  CHUNK_ENCODING_SPLIT4 = 3,
  CHUNK_ENCODING_REF = 4,
} ChunkEncoding;

/* BLAKE3 of the decoded bytes: what a chunk is known by. */
typedef struct {
  guint8 bytes[CHUNK_DIGEST_SIZE];
} ChunkDigest;

typedef struct {
  ChunkEncoding encoding;
  guint32 decoded_size;
  guint32 encoded_size;
  ChunkDigest digest;
} ChunkHeader;

/* Lower-case hex of a chunk's digest into `buffer`; returns it. */
const char *chunk_digest_hex (const guint8 digest[CHUNK_DIGEST_SIZE], char buffer[CHUNK_HEX_SIZE]);
/* The way back; FALSE for any other text. */
gboolean chunk_digest_parse_hex (const char *hex, guint8 out_digest[CHUNK_DIGEST_SIZE]);
void chunk_header_write (const ChunkHeader *self, guint8 out[CHUNK_HEADER_SIZE]);
/* DATA_LOSS (reason ChunkCorrupt) when anything is out of its bounds or the sum is wrong. */
gboolean chunk_header_read (const guint8 bytes[CHUNK_HEADER_SIZE], ChunkHeader *out_header, GError **error);

typedef struct ChunkEncoder ChunkEncoder;
ChunkEncoder *chunk_encoder_new (void);
void chunk_encoder_free (ChunkEncoder *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkEncoder, chunk_encoder_free)
/* Starts a chunk whose numbers are `unit_bytes` wide (0: unknown). */
void chunk_encoder_begin (ChunkEncoder *self, guint unit_bytes);
/* Encodes one stripe (CHUNK_STRIPE_BYTES, or less for the last). The first one, or what there is of it,
 * is probed to choose the encoding. The result is the encoder's until the next call. */
const guint8 *chunk_encoder_stripe (ChunkEncoder *self, const guint8 *data, gsize size, gsize *out_size);
/* The same into memory of CHUNK_STRIPE_OVERHEAD bytes more than the stripe; returns the stored size. */
gsize chunk_encoder_stripe_into (ChunkEncoder *self, const guint8 *data, gsize size, guint8 *out);
ChunkEncoding chunk_encoder_encoding (const ChunkEncoder *self);
/* No frame of so many decoded bytes is longer. */
gsize chunk_frame_bound (gsize decoded_size);
/* Whole chunk in memory: header and payload into memory of chunk_frame_bound() bytes; returns how many. */
gsize chunk_encode_into (ChunkEncoder *self, guint unit_bytes, const guint8 *data, gsize size,
                         const ChunkDigest *digest, guint8 *out);
/* The same appended to `out`. */
void chunk_encode (ChunkEncoder *self, guint unit_bytes, const guint8 *data, gsize size, const ChunkDigest *digest,
                   GByteArray *out);

/* How long a stripe's sum and plane sizes are. */
gsize chunk_stripe_prefix_size (ChunkEncoding encoding);
/* Whole stored size of the stripe whose prefix is given, or 0 when it cannot be true. */
gsize chunk_stripe_stored_size (ChunkEncoding encoding, const guint8 *prefix, gsize decoded_size);
typedef struct ChunkDecoder ChunkDecoder;
ChunkDecoder *chunk_decoder_new (void);
void chunk_decoder_free (ChunkDecoder *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkDecoder, chunk_decoder_free)
/* Decodes one stored stripe of exactly `decoded_size` bytes into `out` and checks its sum.
 * DATA_LOSS (reason ChunkCorrupt). */
gboolean chunk_decoder_stripe (ChunkDecoder *self, ChunkEncoding encoding, const guint8 *stored, gsize stored_size,
                               guint8 *out, gsize decoded_size, GError **error);

/* Takes a stream of frames in pieces of any size and hands on headers and decoded stripes. */
typedef struct {
  gboolean (*header) (gpointer data, const ChunkHeader *header, GError **error);
  /* `stored` is the stripe as it came; `decoded` what it means. */
  gboolean (*stripe) (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded,
                      gsize decoded_size, GError **error);
  gboolean (*end) (gpointer data, GError **error); /* of one frame; for `ref` right after the header */
} ChunkParserEvents;
typedef struct ChunkParser ChunkParser;
ChunkParser *chunk_parser_new (const ChunkParserEvents *events, gpointer data);
/* Errors of its own are INVALID_ARGUMENT (reason CHUNK_INVALID); those of events pass through. */
gboolean chunk_parser_feed (ChunkParser *self, const guint8 *bytes, gsize size, GError **error);
/* Within the event of a header: that frame's decoded bytes come to lie side by side in `target`, which holds them all
 * until the frame's end. */
void chunk_parser_decode_into (ChunkParser *self, guint8 *target);
gboolean chunk_parser_between_frames (const ChunkParser *self);
void chunk_parser_free (ChunkParser *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkParser, chunk_parser_free)
