#include "storage/rank_kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_TARGET __attribute__ ((target ("avx2,bmi,bmi2,popcnt")))
#define AVX512_TARGET __attribute__ ((target ("avx512f,avx512bw,avx512vbmi2,bmi,bmi2,popcnt")))
#define UNARY_LEVELS _Pragma ("GCC unroll 8") for (guint k = 1; k < RANK_COUNT; k++)

static inline guint64
load_u64 (const guint8 *bytes)
{
  guint64 value;
  memcpy (&value, bytes, sizeof value);
  return value;
}

static inline void
store_u64 (guint8 *bytes, guint64 value)
{
  memcpy (bytes, &value, sizeof value);
}

/* 64 bits from bit `at` on. */
static inline guint64
peek_bits (const guint8 *bytes, gsize at)
{
  const guint8 *first = bytes + at / 8;
  guint shift = at % 8;
  return load_u64 (first) >> shift | (guint64) first[8] << 1 << (63 - shift);
}

/* A level on its way out: `word` holds the bits behind the last whole 64. */
typedef struct {
  guint8 *next;
  guint64 word;
  guint filled;
} Pen;

/* Writes up to 64 bits without a branch. */
static inline void
pen_write (Pen *self, guint64 bits, guint n)
{
  guint64 word = self->word | bits << self->filled;
  guint64 over = bits >> 1 >> (63 - self->filled);
  guint total = self->filled + n;
  store_u64 (self->next, word);
  self->word = total >= 64 ? over : word;
  self->next += total >= 64 ? 8 : 0;
  self->filled = total % 64;
}

static inline void
pens_begin (const RankEncoding *self, Pen pens[RANK_COUNT])
{
  for (guint k = 1; k < RANK_COUNT; k++)
    pens[k] = (Pen){ self->levels[k].bytes, 0, 0 };
}

static inline void
pens_end (RankEncoding *self, const Pen pens[RANK_COUNT], gsize n_groups)
{
  self->signs.n = self->levels[0].n = 64 * n_groups;
  for (guint k = 1; k < RANK_COUNT; k++)
    {
      store_u64 (pens[k].next, pens[k].word);
      self->levels[k].n = 8 * (gsize) (pens[k].next - self->levels[k].bytes) + pens[k].filled;
    }
}

static inline void
take_up (RankDecoding *self, const gsize at[RANK_COUNT], gsize n_groups, gsize n_escapes)
{
  self->levels[0].at = 64 * n_groups;
  for (guint k = 1; k < RANK_COUNT; k++)
    self->levels[k].at = at[k];
  self->escapes_at = n_escapes;
}

AVX512_TARGET void
rank_encode_avx512 (RankEncoding *self, const guint8 *plane, gsize n_groups)
{
  const __m512i exponent = _mm512_set1_epi8 (0x7f);
  guint8 ranks[RANK_COUNT]; /* a copy that no store can change */
  Pen pens[RANK_COUNT];
  memcpy (ranks, self->ranks, sizeof ranks);
  pens_begin (self, pens);
  for (gsize i = 0; i < n_groups; i++)
    {
      __m512i v = _mm512_loadu_si512 (plane + 64 * i);
      __m512i e = _mm512_and_si512 (v, exponent);
      guint64 match = _mm512_cmpeq_epi8_mask (e, _mm512_set1_epi8 ((char) ranks[0])), left = ~match;
      store_u64 (self->signs.bytes + 8 * i, _mm512_movepi8_mask (v));
      store_u64 (self->levels[0].bytes + 8 * i, match);
      UNARY_LEVELS
      {
        match = _mm512_cmpeq_epi8_mask (e, _mm512_set1_epi8 ((char) ranks[k]));
        pen_write (&pens[k], _pext_u64 (match, left), (guint) _mm_popcnt_u64 (left));
        left &= ~match;
      }
      if (left == 0)
        continue;
      _mm512_storeu_si512 (self->escapes + self->n_escapes, _mm512_maskz_compress_epi8 (left, e));
      self->n_escapes += (gsize) _mm_popcnt_u64 (left);
      if (self->n_escapes > self->max_escapes)
        {
          self->is_full = TRUE;
          return;
        }
    }
  pens_end (self, pens, n_groups);
}

AVX512_TARGET gboolean
rank_decode_avx512 (RankDecoding *self, guint8 *plane, gsize n_groups)
{
  const __m512i sign = _mm512_set1_epi8 ((char) 0x80);
  guint8 ranks[RANK_COUNT]; /* a copy that no store can change */
  gsize at[RANK_COUNT] = { 0 }, n_escapes = 0;
  memcpy (ranks, self->ranks, sizeof ranks);
  for (gsize i = 0; i < n_groups; i++)
    {
      guint64 match = load_u64 (self->levels[0].bytes + 8 * i), left = ~match;
      __m512i v = _mm512_set1_epi8 ((char) ranks[0]);
      UNARY_LEVELS
      {
        match = _pdep_u64 (peek_bits (self->levels[k].bytes, at[k]), left);
        at[k] += (gsize) _mm_popcnt_u64 (left);
        left ^= match;
        v = _mm512_mask_set1_epi8 (v, match, (char) ranks[k]);
      }
      v = _mm512_mask_expand_epi8 (v, left, _mm512_loadu_si512 (self->escapes + n_escapes));
      n_escapes += (gsize) _mm_popcnt_u64 (left);
      v = _mm512_or_si512 (v, _mm512_maskz_mov_epi8 (load_u64 (self->signs + 8 * i), sign));
      _mm512_storeu_si512 (plane + 64 * i, v);
      if (n_escapes > self->n_escapes)
        return FALSE;
    }
  take_up (self, at, n_groups, n_escapes);
  return TRUE;
}

AVX2_TARGET static inline guint64
equal_mask (__m256i low, __m256i high, __m256i what)
{
  guint32 a = (guint32) _mm256_movemask_epi8 (_mm256_cmpeq_epi8 (low, what));
  guint32 b = (guint32) _mm256_movemask_epi8 (_mm256_cmpeq_epi8 (high, what));
  return a | (guint64) b << 32;
}

AVX2_TARGET void
rank_encode_avx2 (RankEncoding *self, const guint8 *plane, gsize n_groups)
{
  const __m256i exponent = _mm256_set1_epi8 (0x7f);
  Pen pens[RANK_COUNT];
  pens_begin (self, pens);
  for (gsize i = 0; i < n_groups; i++)
    {
      __m256i a = _mm256_loadu_si256 ((const __m256i *) (plane + 64 * i));
      __m256i b = _mm256_loadu_si256 ((const __m256i *) (plane + 64 * i + 32));
      __m256i ea = _mm256_and_si256 (a, exponent), eb = _mm256_and_si256 (b, exponent);
      guint64 match = equal_mask (ea, eb, _mm256_set1_epi8 ((char) self->ranks[0])), left = ~match;
      store_u64 (self->signs.bytes + 8 * i,
                 (guint32) _mm256_movemask_epi8 (a) | (guint64) (guint32) _mm256_movemask_epi8 (b) << 32);
      store_u64 (self->levels[0].bytes + 8 * i, match);
      UNARY_LEVELS
      {
        match = equal_mask (ea, eb, _mm256_set1_epi8 ((char) self->ranks[k]));
        pen_write (&pens[k], _pext_u64 (match, left), (guint) _mm_popcnt_u64 (left));
        left &= ~match;
      }
      for (; left != 0 && self->n_escapes <= self->max_escapes; left &= left - 1)
        self->escapes[self->n_escapes++] = plane[64 * i + (gsize) __builtin_ctzll (left)] & 0x7f;
      if (self->n_escapes > self->max_escapes)
        {
          self->is_full = TRUE;
          return;
        }
    }
  pens_end (self, pens, n_groups);
}

/* 32 bytes that are `value` where the mask has its bits. */
AVX2_TARGET static inline __m256i
spread (guint32 mask, __m256i value)
{
  const __m256i byte_of = _mm256_setr_epi64x (0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
  const __m256i bit_of = _mm256_set1_epi64x ((gint64) 0x8040201008040201ull);
  __m256i bits = _mm256_and_si256 (_mm256_shuffle_epi8 (_mm256_set1_epi32 ((gint32) mask), byte_of), bit_of);
  return _mm256_and_si256 (_mm256_cmpeq_epi8 (bits, bit_of), value);
}

/* From three bits of each rank and the signs. */
AVX2_TARGET static inline __m256i
join_ranks (__m256i table, guint32 one, guint32 two, guint32 four, guint32 signs)
{
  __m256i rank = _mm256_or_si256 (
    spread (one, _mm256_set1_epi8 (1)),
    _mm256_or_si256 (spread (two, _mm256_set1_epi8 (2)), spread (four, _mm256_set1_epi8 (4))));
  return _mm256_or_si256 (_mm256_shuffle_epi8 (table, rank), spread (signs, _mm256_set1_epi8 ((char) 0x80)));
}

AVX2_TARGET gboolean
rank_decode_avx2 (RankDecoding *self, guint8 *plane, gsize n_groups)
{
  guint8 ranks[16] = { 0 }; /* the last, of escapes, is zero */
  memcpy (ranks, self->ranks, RANK_COUNT);
  const __m256i table = _mm256_broadcastsi128_si256 (_mm_loadu_si128 ((const __m128i *) ranks));
  gsize at[RANK_COUNT] = { 0 }, n_escapes = 0;
  for (gsize i = 0; i < n_groups; i++)
    {
      guint64 match = load_u64 (self->levels[0].bytes + 8 * i), left = ~match;
      guint64 one = 0, two = 0, four = 0, signs = load_u64 (self->signs + 8 * i);
      UNARY_LEVELS
      {
        match = _pdep_u64 (peek_bits (self->levels[k].bytes, at[k]), left);
        at[k] += (gsize) _mm_popcnt_u64 (left);
        left ^= match;
        one |= (k & 1) != 0 ? match : 0;
        two |= (k & 2) != 0 ? match : 0;
        four |= (k & 4) != 0 ? match : 0;
      }
      one |= left;
      two |= left;
      four |= left;
      _mm256_storeu_si256 ((__m256i *) (plane + 64 * i),
                           join_ranks (table, (guint32) one, (guint32) two, (guint32) four, (guint32) signs));
      _mm256_storeu_si256 ((__m256i *) (plane + 64 * i + 32),
                           join_ranks (table, (guint32) (one >> 32), (guint32) (two >> 32), (guint32) (four >> 32),
                                       (guint32) (signs >> 32)));
      for (; left != 0 && n_escapes < self->n_escapes; left &= left - 1)
        plane[64 * i + (gsize) __builtin_ctzll (left)] |= self->escapes[n_escapes++];
      if (left != 0)
        return FALSE;
    }
  take_up (self, at, n_groups, n_escapes);
  return TRUE;
}
#else
void
rank_encode_avx2 (RankEncoding *self, const guint8 *plane, gsize n_groups)
{
}

void
rank_encode_avx512 (RankEncoding *self, const guint8 *plane, gsize n_groups)
{
}

gboolean
rank_decode_avx2 (RankDecoding *self, guint8 *plane, gsize n_groups)
{
  return FALSE;
}

gboolean
rank_decode_avx512 (RankDecoding *self, guint8 *plane, gsize n_groups)
{
  return FALSE;
}
#endif
