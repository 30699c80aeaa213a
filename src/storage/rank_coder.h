/* Coding of a plane of bytes that are a sign and seven bits of exponent, as the upper bytes of floating-point weights
 * are: nearly all exponents are one of a few neighbours, each rarer than the one before by half or more, so a unary
 * code of an exponent's rank is within 1.5 % of its entropy. Its bits are kept by rank and not by symbol, which lets
 * the CPU code 64 symbols at once: many times faster than Huffman's.
 *
 *   7 bytes: the exponents by rank, then a zero byte; 7 x u32, little-endian: the number of escapes and the bits of
 *   levels 6 to 1; then, each from a byte of its own: the escapes (one byte for each symbol of no rank, its exponent),
 *   the levels 6 to 0, the signs. Level k has one bit for each symbol that is of no rank below k: whether it is of
 *   rank k. Bits fill bytes from the lowest.
 *
 * Used by chunk_codec.c. Thread-safe. */
#pragma once

#include <glib.h>

#define RANK_COUNT 7
#define RANK_PLANE_MAX_BYTES (256u << 10)
/* For rank_encode: room to work in. */
#define RANK_SCRATCH_BYTES (2 * RANK_PLANE_MAX_BYTES)

/* Stored size of a plane of at most RANK_PLANE_MAX_BYTES; 0 when it would be larger than `room`, which is smaller
 * than the plane. */
gsize rank_encode (const guint8 *plane, gsize size, guint8 *out, gsize room, guint8 *scratch);
/* FALSE when these bytes are no coded plane of `size` bytes; `plane` is scrap then. */
gboolean rank_decode (const guint8 *stored, gsize stored_size, guint8 *plane, gsize size);

/* How fast this CPU can do it. */
typedef enum { RANK_PORTABLE, RANK_AVX2, RANK_AVX512 } RankSpeed;
RankSpeed rank_coder_speed (void);
/* For tests: no faster than that from here on. Returns the speed. */
RankSpeed rank_coder_limit (RankSpeed limit);
