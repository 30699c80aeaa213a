/* BLAKE3's compression of LANES inputs side by side. blake3.c includes this once for each width, with
 * LANES and LANED(name) defined and the compiler's target set: hence no `#pragma once`. */

#if LANES == 1
typedef guint32 LANED (Words);
#else
typedef guint32 LANED (Words) __attribute__ ((vector_size (4 * LANES)));
#endif

#if LANES == 1
/* The sixteen words of each input's block: word j of all inputs in out[j]. */
PLAIN static inline void
LANED (load_block) (const guint8 *in, gsize stride, guint32 out[16])
{
  for (guint j = 0; j < 16; j++)
    {
      guint32 word;
      memcpy (&word, in + 4 * j, sizeof word);
      out[j] = GUINT32_FROM_LE (word);
    }
}
#else
/* Rows are inputs, columns words: exchanges what differs in bit `b` of row and column. */
#define SWAP_STAGE(b)                                                                         \
  for (guint i = 0; i < LANES; i++)                                                           \
    if ((i & (b)) == 0)                                                                       \
      {                                                                                       \
        LANED (Words) upper = rows[i], lower = rows[i | (b)];                                 \
        rows[i] = __builtin_shufflevector (upper, lower, LANED (EACH) (TAKE_UPPER, b));       \
        rows[i | (b)] = __builtin_shufflevector (upper, lower, LANED (EACH) (TAKE_LOWER, b)); \
      }

PLAIN static inline void
LANED (load_block) (const guint8 *in, gsize stride, LANED (Words) out[16])
{
#pragma GCC unroll 4
  for (guint first = 0; first < 16; first += LANES)
    {
      LANED (Words) *rows = out + first;
#pragma GCC unroll 16
      for (guint lane = 0; lane < LANES; lane++)
        memcpy (&rows[lane], in + lane * stride + 4 * first, sizeof rows[lane]);
#pragma GCC unroll 16
      SWAP_STAGE (1)
#pragma GCC unroll 16
      SWAP_STAGE (2)
#if LANES >= 8
#pragma GCC unroll 16
      SWAP_STAGE (4)
#endif
#if LANES >= 16
#pragma GCC unroll 16
      SWAP_STAGE (8)
#endif
    }
}
#undef SWAP_STAGE
#endif

/* Hashes `LANES` inputs that lie `stride` bytes apart, each of `n_blocks` blocks of 64 bytes. */
PLAIN static void
LANED (hash) (const Inputs *inputs, const guint8 *in, guint64 counter, guint32 (*out)[8])
{
  LANED (Words) h[8], m[16], counter_low, counter_high;
  for (guint i = 0; i < 8; i++)
    h[i] = (LANED (Words)){ 0 } + initial[i];
  for (guint lane = 0; lane < LANES; lane++)
    {
      guint64 own = counter + (inputs->are_leaves ? lane : 0);
      ((guint32 *) &counter_low)[lane] = (guint32) own;
      ((guint32 *) &counter_high)[lane] = (guint32) (own >> 32);
    }
  for (guint block = 0; block < inputs->n_blocks; block++)
    {
      guint32 flags = inputs->flags | (block == 0 ? inputs->first_flag : 0)
                      | (block + 1 == inputs->n_blocks ? inputs->last_flag : 0);
      guint32 size = block + 1 == inputs->n_blocks ? inputs->last_block_bytes : BLOCK_BYTES;
      LANED (load_block) (in + block * BLOCK_BYTES, inputs->stride, m);
      LANED (Words) v[16] = { h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7] };
      for (guint i = 0; i < 4; i++)
        v[8 + i] = (LANED (Words)){ 0 } + initial[i];
      v[12] = counter_low;
      v[13] = counter_high;
      v[14] = (LANED (Words)){ 0 } + size;
      v[15] = (LANED (Words)){ 0 } + flags;
      SEVEN_ROUNDS (v, m)
      for (guint i = 0; i < 8; i++)
        h[i] = v[i] ^ v[i + 8];
    }
  for (guint lane = 0; lane < LANES; lane++)
    for (guint i = 0; i < 8; i++)
      out[lane][i] = ((const guint32 *) &h[i])[lane];
}

#undef LANES
#undef LANED
