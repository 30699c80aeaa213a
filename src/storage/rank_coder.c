#include "storage/rank_coder.h"

#include <string.h>

#include "storage/rank_kernels.h"
#include "storage/wire.h"

#define SAMPLE_PIECES 8u
#define SAMPLE_PIECE_BYTES 512u
#define HEADER_BYTES (8 + 4 * RANK_COUNT)
/* Below that the fast kernels could read behind a plane's end. */
#define FAST_MIN_BYTES 1024u

static gint chosen = -1; /* RankSpeed, or -1: not asked yet */

static RankSpeed
speed_of_cpu (void)
{
#if defined(__x86_64__)
  /* All that the targets of rank_kernels.c name. */
  if (!__builtin_cpu_supports ("bmi") || !__builtin_cpu_supports ("bmi2") || !__builtin_cpu_supports ("popcnt"))
    return RANK_PORTABLE;
  if (__builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512bw")
      && __builtin_cpu_supports ("avx512vbmi2"))
    return RANK_AVX512;
  if (__builtin_cpu_supports ("avx2"))
    return RANK_AVX2;
#endif
  return RANK_PORTABLE;
}

RankSpeed
rank_coder_limit (RankSpeed limit)
{
  g_atomic_int_set (&chosen, (gint) MIN (limit, speed_of_cpu ()));
  return (RankSpeed) g_atomic_int_get (&chosen);
}

RankSpeed
rank_coder_speed (void)
{
  gint speed = g_atomic_int_get (&chosen);
  return speed < 0 ? rank_coder_limit (RANK_AVX512) : (RankSpeed) speed;
}

/* The most frequent exponents of a sample, in falling order. */
static void
find_ranks (const guint8 *plane, gsize size, guint8 ranks[RANK_COUNT])
{
  guint counts[128] = { 0 };
  gsize step = size / SAMPLE_PIECES;
  if (step <= SAMPLE_PIECE_BYTES)
    for (gsize i = 0; i < size; i++)
      counts[plane[i] & 0x7f]++;
  else
    for (gsize piece = 0; piece < SAMPLE_PIECES; piece++)
      for (gsize i = 0; i < SAMPLE_PIECE_BYTES; i++)
        counts[plane[piece * step + i] & 0x7f]++;
  for (guint rank = 0; rank < RANK_COUNT; rank++)
    {
      guint best = 0;
      for (guint i = 1; i < 128; i++)
        best = counts[i] > counts[best] ? i : best;
      while (counts[best] == 0 && memchr (ranks, (int) best, rank) != NULL)
        best++; /* what does not occur still needs places of its own */
      ranks[rank] = (guint8) best;
      counts[best] = 0;
    }
}

static void
put_bit (RankBits *bits, guint bit)
{
  guint8 *byte = bits->bytes + bits->n / 8;
  *byte = (guint8) ((bits->n % 8 == 0 ? 0 : *byte) | bit << bits->n % 8);
  bits->n++;
}

/* Symbols one after the other. */
static void
encode_rest (RankEncoding *self, const guint8 *plane, gsize size)
{
  for (gsize i = 0; i < size; i++)
    {
      guint rank = 0;
      put_bit (&self->signs, plane[i] >> 7);
      for (; rank < RANK_COUNT && self->ranks[rank] != (plane[i] & 0x7f); rank++)
        put_bit (&self->levels[rank], 0);
      if (rank < RANK_COUNT)
        put_bit (&self->levels[rank], 1);
      else if (self->n_escapes < self->max_escapes)
        self->escapes[self->n_escapes++] = plane[i] & 0x7f;
      else
        self->is_full = TRUE;
    }
}

/* Whole groups of symbols; returns how many symbols were done. */
static gsize
encode_groups (RankEncoding *self, const guint8 *plane, gsize size)
{
  gsize n_groups = size / 64;
  switch (rank_coder_speed ())
    {
    case RANK_AVX512: rank_encode_avx512 (self, plane, n_groups); break;
    case RANK_AVX2: rank_encode_avx2 (self, plane, n_groups); break;
    case RANK_PORTABLE: rank_encode_portable (self, plane, n_groups); break;
    }
  return 64 * n_groups;
}

static guint8 *
append (guint8 *out, const guint8 *bytes, gsize size)
{
  memcpy (out, bytes, size);
  return out + size;
}

static gsize
bytes_of (gsize n_bits)
{
  return (n_bits + 7) / 8;
}

static gsize
assemble (const RankEncoding *self, guint8 *out, gsize room)
{
  gsize total = HEADER_BYTES + self->n_escapes + bytes_of (self->signs.n);
  for (guint k = 0; k < RANK_COUNT; k++)
    total += bytes_of (self->levels[k].n);
  if (total > room)
    return 0;
  memcpy (out, self->ranks, RANK_COUNT);
  out[RANK_COUNT] = 0;
  wire_put_u32 (out + 8, (guint32) self->n_escapes);
  for (guint k = RANK_COUNT - 1; k > 0; k--)
    wire_put_u32 (out + 8 + 4 * (RANK_COUNT - k), (guint32) self->levels[k].n);
  guint8 *next = append (out + HEADER_BYTES, self->escapes, self->n_escapes);
  for (guint k = RANK_COUNT; k > 0; k--)
    next = append (next, self->levels[k - 1].bytes, bytes_of (self->levels[k - 1].n));
  append (next, self->signs.bytes, bytes_of (self->signs.n));
  return total;
}

gsize
rank_encode (const guint8 *plane, gsize size, guint8 *out, gsize room, guint8 *scratch)
{
  gsize stride = RANK_PLANE_MAX_BYTES / 8 + RANK_SLACK_BYTES;
  RankEncoding self = { .escapes = scratch + (RANK_COUNT + 1) * stride, .max_escapes = size / 16 };
  g_assert (size <= RANK_PLANE_MAX_BYTES);
  if (size < 64)
    return 0;
  for (guint k = 0; k < RANK_COUNT; k++)
    self.levels[k].bytes = scratch + k * stride;
  self.signs.bytes = scratch + RANK_COUNT * stride;
  find_ranks (plane, size, self.ranks);
  gsize done = encode_groups (&self, plane, size);
  encode_rest (&self, plane + done, size - done);
  return self.is_full ? 0 : assemble (&self, out, room);
}

/* Where each part lies; FALSE when that cannot be. Levels only get smaller: see rank_kernels.h for why it matters. */
static gboolean
open_parts (const guint8 *stored, gsize stored_size, gsize size, RankDecoding *out)
{
  gsize total = HEADER_BYTES;
  if (stored_size < HEADER_BYTES || stored[RANK_COUNT] != 0)
    return FALSE;
  memcpy (out->ranks, stored, RANK_COUNT);
  out->n_escapes = wire_get_u32 (stored + 8);
  out->escapes = stored + total;
  total += out->n_escapes;
  out->levels[0].end = size;
  for (guint k = 1; k < RANK_COUNT; k++)
    {
      out->levels[k].end = wire_get_u32 (stored + 8 + 4 * (RANK_COUNT - k));
      if (out->levels[k].end > out->levels[k - 1].end)
        return FALSE;
    }
  if (out->n_escapes > out->levels[RANK_COUNT - 1].end)
    return FALSE;
  for (guint k = RANK_COUNT; k > 0; k--)
    {
      out->levels[k - 1].bytes = stored + total;
      total += bytes_of (out->levels[k - 1].end);
    }
  out->signs = stored + total;
  for (guint k = 0; k < RANK_COUNT; k++)
    if (out->ranks[k] > 0x7f)
      return FALSE;
  return total + bytes_of (size) == stored_size;
}

static guint
get_bit (const guint8 *bytes, gsize index)
{
  return bytes[index / 8] >> index % 8 & 1;
}

static gboolean
decode_rest (RankDecoding *self, guint8 *plane, gsize done, gsize size)
{
  for (gsize i = done; i < size; i++)
    {
      guint rank = 0, found = 0;
      for (; rank < RANK_COUNT && found == 0; rank += 1 - found)
        {
          RankLevel *level = &self->levels[rank];
          if (level->at >= level->end)
            return FALSE;
          found = get_bit (level->bytes, level->at++);
        }
      if (found == 0 && self->escapes_at >= self->n_escapes)
        return FALSE;
      plane[i] = found != 0 ? self->ranks[rank] : self->escapes[self->escapes_at++];
      plane[i] |= (guint8) (get_bit (self->signs, i) << 7);
    }
  return TRUE;
}

/* Nothing may be left over, and each escape must have its highest bit free for the sign. */
static gboolean
is_used_up (const RankDecoding *self)
{
  guint8 all = 0;
  for (guint k = 0; k < RANK_COUNT; k++)
    if (self->levels[k].at != self->levels[k].end)
      return FALSE;
  for (gsize i = 0; i < self->n_escapes; i++)
    all |= self->escapes[i];
  return self->escapes_at == self->n_escapes && all <= 0x7f;
}

gboolean
rank_decode (const guint8 *stored, gsize stored_size, guint8 *plane, gsize size)
{
  RankDecoding self = { 0 };
  gsize n_groups = size >= FAST_MIN_BYTES ? size / 64 : 0;
  gboolean good = TRUE;
  if (!open_parts (stored, stored_size, size, &self))
    return FALSE;
  switch (rank_coder_speed ())
    {
    case RANK_AVX512: good = rank_decode_avx512 (&self, plane, n_groups); break;
    case RANK_AVX2: good = rank_decode_avx2 (&self, plane, n_groups); break;
    case RANK_PORTABLE: good = rank_decode_portable (&self, plane, n_groups); break;
    }
  return good && decode_rest (&self, plane, 64 * n_groups, size) && is_used_up (&self);
}
