#include "base/sha256.h"

#include <string.h>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const guint32 initial_state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

void
sha256_init (Sha256 *self)
{
  memset (self, 0, sizeof *self);
  memcpy (self->h, initial_state, sizeof initial_state);
}

/* OpenSSL's block function, for CPUs without SHA instructions. */
static void
blocks_portable (guint32 h[8], const guint8 *data, gsize n_blocks)
{
  SHA256_CTX block_state = { .md_len = SHA256_DIGEST_LENGTH };
  memcpy (block_state.h, h, sizeof block_state.h);
  for (; n_blocks > 0; n_blocks--, data += SHA256_BLOCK)
    SHA256_Transform (&block_state, data);
  memcpy (h, block_state.h, sizeof block_state.h);
}

#if defined(__x86_64__)

static const guint32 round_constants[64] __attribute__ ((aligned (16))) = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define SHA_TARGET __attribute__ ((target ("sha,sse4.1,ssse3")))

/* The CPU keeps the state as (A B E F) and (C D G H). */
typedef struct {
  __m128i abef, cdgh;
} Lanes;

SHA_TARGET static inline Lanes
lanes_load (const guint32 h[8])
{
  __m128i dcba = _mm_shuffle_epi32 (_mm_loadu_si128 ((const __m128i *) &h[0]), 0xb1);
  __m128i hgfe = _mm_shuffle_epi32 (_mm_loadu_si128 ((const __m128i *) &h[4]), 0x1b);
  return (Lanes) { _mm_alignr_epi8 (dcba, hgfe, 8), _mm_blend_epi16 (hgfe, dcba, 0xf0) };
}

SHA_TARGET static inline void
lanes_store (Lanes lanes, guint32 h[8])
{
  __m128i feba = _mm_shuffle_epi32 (lanes.abef, 0x1b);
  __m128i dchg = _mm_shuffle_epi32 (lanes.cdgh, 0xb1);
  _mm_storeu_si128 ((__m128i *) &h[0], _mm_blend_epi16 (feba, dchg, 0xf0));
  _mm_storeu_si128 ((__m128i *) &h[4], _mm_alignr_epi8 (dchg, feba, 8));
}

SHA_TARGET static inline __m128i
load_words (const guint8 *data)
{
  const __m128i big_endian = _mm_set_epi64x (0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
  return _mm_shuffle_epi8 (_mm_loadu_si128 ((const __m128i *) data), big_endian);
}

/* Four rounds with the message words `w` (round group `group` of 16). */
#define FOUR_ROUNDS(lanes, w, group)                                                                     \
  {                                                                                                      \
    __m128i sum = _mm_add_epi32 (w, _mm_load_si128 ((const __m128i *) &round_constants[4 * (group)]));   \
    lanes.cdgh = _mm_sha256rnds2_epu32 (lanes.cdgh, lanes.abef, sum);                                    \
    lanes.abef = _mm_sha256rnds2_epu32 (lanes.abef, lanes.cdgh, _mm_shuffle_epi32 (sum, 0x0e));          \
  }

/* The next four message words from the sixteen before them. */
#define SCHEDULE(w0, w1, w2, w3)                                                                         \
  w0 = _mm_sha256msg2_epu32 (_mm_add_epi32 (_mm_sha256msg1_epu32 (w0, w1), _mm_alignr_epi8 (w3, w2, 4)), w3)

SHA_TARGET static void
blocks_cpu (guint32 h[8], const guint8 *data, gsize n_blocks)
{
  Lanes lanes = lanes_load (h);
  for (; n_blocks > 0; n_blocks--, data += SHA256_BLOCK)
    {
      Lanes before = lanes;
      __m128i w[4] = { load_words (data), load_words (data + 16), load_words (data + 32), load_words (data + 48) };
#pragma GCC unroll 16
      for (int group = 0; group < 16; group++)
        {
          if (group >= 4)
            SCHEDULE (w[group % 4], w[(group + 1) % 4], w[(group + 2) % 4], w[(group + 3) % 4]);
          FOUR_ROUNDS (lanes, w[group % 4], group);
        }
      lanes.abef = _mm_add_epi32 (lanes.abef, before.abef);
      lanes.cdgh = _mm_add_epi32 (lanes.cdgh, before.cdgh);
    }
  lanes_store (lanes, h);
}

/* The same for two independent streams: while one waits for its round, the other's runs. */
SHA_TARGET static void
blocks_cpu_pair (guint32 ha[8], const guint8 *a_data, guint32 hb[8], const guint8 *b_data, gsize n_blocks)
{
  Lanes a = lanes_load (ha);
  Lanes b = lanes_load (hb);
  for (; n_blocks > 0; n_blocks--, a_data += SHA256_BLOCK, b_data += SHA256_BLOCK)
    {
      Lanes a_before = a, b_before = b;
      __m128i v[4] = { load_words (a_data), load_words (a_data + 16), load_words (a_data + 32),
                       load_words (a_data + 48) };
      __m128i w[4] = { load_words (b_data), load_words (b_data + 16), load_words (b_data + 32),
                       load_words (b_data + 48) };
#pragma GCC unroll 16
      for (int group = 0; group < 16; group++)
        {
          if (group >= 4)
            {
              SCHEDULE (v[group % 4], v[(group + 1) % 4], v[(group + 2) % 4], v[(group + 3) % 4]);
              SCHEDULE (w[group % 4], w[(group + 1) % 4], w[(group + 2) % 4], w[(group + 3) % 4]);
            }
          FOUR_ROUNDS (a, v[group % 4], group);
          FOUR_ROUNDS (b, w[group % 4], group);
        }
      a.abef = _mm_add_epi32 (a.abef, a_before.abef);
      a.cdgh = _mm_add_epi32 (a.cdgh, a_before.cdgh);
      b.abef = _mm_add_epi32 (b.abef, b_before.abef);
      b.cdgh = _mm_add_epi32 (b.cdgh, b_before.cdgh);
    }
  lanes_store (a, ha);
  lanes_store (b, hb);
}

static gboolean
cpu_has_sha (void)
{
  unsigned a, b, c, d;
  return __get_cpuid_count (7, 0, &a, &b, &c, &d) && (b & (1u << 29)) != 0 && __builtin_cpu_supports ("sse4.1");
}

#else

static void
blocks_cpu (guint32 h[8], const guint8 *data, gsize n_blocks)
{
  blocks_portable (h, data, n_blocks);
}

static void
blocks_cpu_pair (guint32 ha[8], const guint8 *a_data, guint32 hb[8], const guint8 *b_data, gsize n_blocks)
{
  blocks_portable (ha, a_data, n_blocks);
  blocks_portable (hb, b_data, n_blocks);
}

static gboolean
cpu_has_sha (void)
{
  return FALSE;
}

#endif

static gint cpu_choice = -1; /* -1 not asked yet */

gboolean
sha256_use_cpu_instructions (gboolean wanted)
{
  g_atomic_int_set (&cpu_choice, wanted && cpu_has_sha ());
  return g_atomic_int_get (&cpu_choice) == 1;
}

static gboolean
use_cpu (void)
{
  gint choice = g_atomic_int_get (&cpu_choice);
  return choice < 0 ? sha256_use_cpu_instructions (TRUE) : choice == 1;
}

static void
run_blocks (Sha256 *self, const guint8 *data, gsize n_blocks)
{
  if (n_blocks == 0)
    return;
  if (use_cpu ())
    blocks_cpu (self->h, data, n_blocks);
  else
    blocks_portable (self->h, data, n_blocks);
}

/* Completes a partly filled block; returns how many bytes of `data` went into it. */
static gsize
fill_tail (Sha256 *self, const guint8 *data, gsize size)
{
  gsize filled = self->length % SHA256_BLOCK;
  if (filled == 0 || size == 0)
    return 0;
  gsize taken = MIN (size, SHA256_BLOCK - filled);
  memcpy (self->tail + filled, data, taken);
  self->length += taken;
  if (filled + taken == SHA256_BLOCK)
    run_blocks (self, self->tail, 1);
  return taken;
}

void
sha256_update (Sha256 *self, gconstpointer data, gsize size)
{
  const guint8 *next = data;
  gsize taken = fill_tail (self, next, size);
  next += taken;
  size -= taken;
  if (size == 0)
    return;
  gsize n_blocks = size / SHA256_BLOCK;
  run_blocks (self, next, n_blocks);
  self->length += size;
  memcpy (self->tail, next + n_blocks * SHA256_BLOCK, size % SHA256_BLOCK);
}

void
sha256_update_pair (Sha256 *a, gconstpointer a_data, gsize a_size, Sha256 *b, gconstpointer b_data, gsize b_size)
{
  const guint8 *a_next = a_data;
  const guint8 *b_next = b_data;
  gsize a_taken = fill_tail (a, a_next, a_size);
  gsize b_taken = fill_tail (b, b_next, b_size);
  a_next += a_taken;
  b_next += b_taken;
  a_size -= a_taken;
  b_size -= b_taken;
  gsize n_blocks = use_cpu () ? MIN (a_size, b_size) / SHA256_BLOCK : 0;
  if (n_blocks > 0)
    blocks_cpu_pair (a->h, a_next, b->h, b_next, n_blocks);
  gsize done = n_blocks * SHA256_BLOCK;
  a->length += done;
  b->length += done;
  sha256_update (a, a_next + done, a_size - done);
  sha256_update (b, b_next + done, b_size - done);
}

static void
put_u32 (guint8 *out, guint32 value)
{
  value = GUINT32_TO_BE (value);
  memcpy (out, &value, sizeof value);
}

static void
put_u64 (guint8 *out, guint64 value)
{
  value = GUINT64_TO_BE (value);
  memcpy (out, &value, sizeof value);
}

void
sha256_peek (const Sha256 *self, Digest *out_digest)
{
  Sha256 last = *self;
  guint8 padding[SHA256_BLOCK * 2] = { 0x80 };
  gsize filled = self->length % SHA256_BLOCK;
  gsize n = (filled < 56 ? 56 : 120) - filled;
  put_u64 (padding + n, self->length * 8);
  sha256_update (&last, padding, n + 8);
  memset (out_digest, 0, sizeof *out_digest);
  out_digest->algorithm = DIGEST_SHA256;
  for (guint i = 0; i < 8; i++)
    put_u32 (out_digest->bytes + 4 * i, last.h[i]);
}

void
sha256_save (const Sha256 *self, guint8 out[SHA256_SAVED_SIZE])
{
  for (guint i = 0; i < 8; i++)
    put_u32 (out + 4 * i, self->h[i]);
  put_u64 (out + 32, self->length);
  gsize filled = self->length % SHA256_BLOCK;
  memset (out + 40, 0, SHA256_BLOCK);
  memcpy (out + 40, self->tail, filled);
}

void
sha256_load (Sha256 *self, const guint8 saved[SHA256_SAVED_SIZE])
{
  for (guint i = 0; i < 8; i++)
    {
      guint32 word;
      memcpy (&word, saved + 4 * i, sizeof word);
      self->h[i] = GUINT32_FROM_BE (word);
    }
  guint64 length;
  memcpy (&length, saved + 32, sizeof length);
  self->length = GUINT64_FROM_BE (length);
  memcpy (self->tail, saved + 40, SHA256_BLOCK);
}
