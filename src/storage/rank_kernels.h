/* The fast halves of rank_coder.c: whole groups of 64 symbols. Only for it. */
#pragma once

#include "storage/rank_coder.h"

/* Kernels write so much behind the bits they made. */
#define RANK_SLACK_BYTES 64

typedef struct {
  guint8 *bytes;
  gsize n; /* bits so far */
} RankBits;

typedef struct {
  guint8 ranks[RANK_COUNT];
  RankBits levels[RANK_COUNT], signs;
  guint8 *escapes;
  gsize n_escapes, max_escapes;
  gboolean is_full; /* more escapes than that */
} RankEncoding;

typedef struct {
  const guint8 *bytes;
  gsize at, end; /* bits */
} RankLevel;

/* Behind the escapes and the levels 6 to 1 lie level 0 and the signs, `size` bits each. A group takes at most 64 bits
 * of a level, so in a plane of 1 KiB and more no level runs over the end of the stored bytes, whatever they are; a
 * kernel that takes more escapes than there are gives up at once. */
typedef struct {
  guint8 ranks[RANK_COUNT];
  RankLevel levels[RANK_COUNT];
  const guint8 *signs;
  const guint8 *escapes;
  gsize escapes_at, n_escapes;
} RankDecoding;

void rank_encode_portable (RankEncoding *self, const guint8 *plane, gsize n_groups);
void rank_encode_avx2 (RankEncoding *self, const guint8 *plane, gsize n_groups);
void rank_encode_avx512 (RankEncoding *self, const guint8 *plane, gsize n_groups);
/* FALSE: there are fewer escapes than symbols that want one. */
gboolean rank_decode_portable (RankDecoding *self, guint8 *plane, gsize n_groups);
gboolean rank_decode_avx2 (RankDecoding *self, guint8 *plane, gsize n_groups);
gboolean rank_decode_avx512 (RankDecoding *self, guint8 *plane, gsize n_groups);
