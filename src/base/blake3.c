#include "base/blake3.h"

#include <string.h>

#define BLOCK_BYTES 64u
#define MAX_SUBTREE_LEAVES 256u

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const guint32 initial[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

/* What a run of equal inputs looks like. */
typedef struct {
  gsize stride; /* bytes from one to the next */
  guint n_blocks;
  guint last_block_bytes;
  guint32 flags, first_flag, last_flag;
  gboolean are_leaves; /* each has the number of its leaf for a counter */
} Inputs;

static const Inputs whole_leaves = { .stride = BLAKE3_LEAF_BYTES,
                                     .n_blocks = BLAKE3_LEAF_BYTES / BLOCK_BYTES,
                                     .last_block_bytes = BLOCK_BYTES,
                                     .first_flag = CHUNK_START,
                                     .last_flag = CHUNK_END,
                                     .are_leaves = TRUE };
static const Inputs parents = { .stride = BLOCK_BYTES,
                                .n_blocks = 1,
                                .last_block_bytes = BLOCK_BYTES,
                                .flags = PARENT };

/* The lanes are arithmetic on local vectors, some thousand operations in a row: under the sanitizers their compilation
 * takes minutes, and AddressSanitizer's own stack is aligned too little for the widest (GCC 12). */
#define PLAIN __attribute__ ((no_sanitize ("address", "undefined")))

#define ROTATE(x, n) (((x) >> (n)) | ((x) << (32 - (n))))
#define MIX(v, a, b, c, d, x, y)   \
  v[a] = v[a] + v[b] + (x);        \
  v[d] = ROTATE (v[d] ^ v[a], 16); \
  v[c] = v[c] + v[d];              \
  v[b] = ROTATE (v[b] ^ v[c], 12); \
  v[a] = v[a] + v[b] + (y);        \
  v[d] = ROTATE (v[d] ^ v[a], 8);  \
  v[c] = v[c] + v[d];              \
  v[b] = ROTATE (v[b] ^ v[c], 7);

#define ROUND(v, m, a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q) \
  MIX (v, 0, 4, 8, 12, m[a], m[b])                                  \
  MIX (v, 1, 5, 9, 13, m[c], m[d])                                  \
  MIX (v, 2, 6, 10, 14, m[e], m[f])                                 \
  MIX (v, 3, 7, 11, 15, m[g], m[h])                                 \
  MIX (v, 0, 5, 10, 15, m[i], m[j])                                 \
  MIX (v, 1, 6, 11, 12, m[k], m[l])                                 \
  MIX (v, 2, 7, 8, 13, m[n], m[o])                                  \
  MIX (v, 3, 4, 9, 14, m[p], m[q])

/* Each row is the one before it, permuted. */
#define SEVEN_ROUNDS(v, m)                                           \
  ROUND (v, m, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) \
  ROUND (v, m, 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8) \
  ROUND (v, m, 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1) \
  ROUND (v, m, 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6) \
  ROUND (v, m, 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4) \
  ROUND (v, m, 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7) \
  ROUND (v, m, 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)

/* Where element k of a row comes from when rows that differ in bit b exchange halves. */
#define TAKE_UPPER(k, b, n) (((k) & (b)) == 0 ? (k) : (n) + ((k) ^ (b)))
#define TAKE_LOWER(k, b, n) (((k) & (b)) == 0 ? ((k) ^ (b)) : (n) + (k))
#define FOUR(take, k, b, n) take (k, b, n), take (k + 1, b, n), take (k + 2, b, n), take (k + 3, b, n)

#define LANES 1
#define LANED(name) name##_1
#include "base/blake3_lanes.h"

#define EACH_4(take, b) FOUR (take, 0, b, 4)
#define LANES 4
#define LANED(name) name##_4
#include "base/blake3_lanes.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define PRAGMA(text) _Pragma (#text)
#define PRAGMA_TARGET(name) PRAGMA (clang attribute push (__attribute__ ((target (name))), apply_to = function))
#define END_TARGET PRAGMA (clang attribute pop)
#else
#define PRAGMA(text) _Pragma (#text)
#define PRAGMA_TARGET(name) PRAGMA (GCC push_options) PRAGMA (GCC target (name))
#define END_TARGET PRAGMA (GCC pop_options)
#endif

PRAGMA_TARGET ("avx2")
#define EACH_8(take, b) FOUR (take, 0, b, 8), FOUR (take, 4, b, 8)
#define LANES 8
#define LANED(name) name##_8
#include "base/blake3_lanes.h"
END_TARGET

PRAGMA_TARGET ("avx512f")
#define EACH_16(take, b) FOUR (take, 0, b, 16), FOUR (take, 4, b, 16), FOUR (take, 8, b, 16), FOUR (take, 12, b, 16)
#define LANES 16
#define LANED(name) name##_16
#include "base/blake3_lanes.h"
END_TARGET
#endif

/* Widest first. */
static const struct {
  guint lanes;
  void (*hash) (const Inputs *inputs, const guint8 *in, guint64 counter, guint32 (*out)[8]);
} widths[] = {
#if defined(__x86_64__)
  { 16, hash_16 },
  { 8, hash_8 },
#endif
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
  { 4, hash_4 },
#endif
  { 1, hash_1 },
};

static gint most_lanes; /* 0: not asked yet */

static guint
lanes_of_cpu (void)
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports ("avx512f"))
    return 16;
  if (__builtin_cpu_supports ("avx2"))
    return 8;
#endif
  return 4;
}

guint
blake3_use_lanes (guint wanted)
{
  guint available = lanes_of_cpu ();
  g_atomic_int_set (&most_lanes, wanted == 0 ? available : MIN (wanted, available));
  return g_atomic_int_get (&most_lanes);
}

/* Hashes `n` inputs, as many at a time as there are. */
static void
hash_many (const Inputs *inputs, const guint8 *in, guint n, guint64 counter, guint32 (*out)[8])
{
  guint most = g_atomic_int_get (&most_lanes);
  if (most == 0)
    most = blake3_use_lanes (0);
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    for (guint lanes = widths[i].lanes; lanes <= most && n >= lanes; n -= lanes)
      {
        widths[i].hash (inputs, in, counter, out);
        in += lanes * inputs->stride;
        counter += inputs->are_leaves ? lanes : 0;
        out += lanes;
      }
}

static void
join (const guint32 left[8], const guint32 right[8], guint32 root_flag, guint32 out[8])
{
  guint32 pair[16];
  Inputs inputs = parents;
  inputs.flags |= root_flag;
  for (guint i = 0; i < 8; i++)
    {
      pair[i] = GUINT32_TO_LE (left[i]);
      pair[8 + i] = GUINT32_TO_LE (right[i]);
    }
  hash_1 (&inputs, (const guint8 *) pair, 0, (guint32 (*)[8]) out);
}

/* A leaf of at most BLAKE3_LEAF_BYTES; a short last block is filled with zeros. */
static void
hash_leaf (const guint8 *data, guint size, guint64 counter, guint32 root_flag, guint32 out[8])
{
  guint8 padded[BLAKE3_LEAF_BYTES] = { 0 };
  Inputs inputs = whole_leaves;
  memcpy (padded, data, size);
  inputs.n_blocks = MAX (1, (size + BLOCK_BYTES - 1) / BLOCK_BYTES);
  inputs.last_block_bytes = size - (inputs.n_blocks - 1) * BLOCK_BYTES;
  inputs.last_flag |= root_flag;
  hash_1 (&inputs, padded, counter, (guint32 (*)[8]) out);
}

/* Joins what is complete before leaf `next_leaf`, and puts a subtree that begins there on the stack. */
static void
push (Blake3 *self, guint64 next_leaf, const guint32 root[8])
{
  for (guint wanted = (guint) __builtin_popcountll (next_leaf); self->depth > wanted; self->depth--)
    join (self->stack[self->depth - 2], self->stack[self->depth - 1], 0, self->stack[self->depth - 2]);
  memcpy (self->stack[self->depth++], root, sizeof self->stack[0]);
}

/* `n` whole leaves, a power of two that divides the number of those before them. */
static void
add_subtree (Blake3 *self, const guint8 *data, guint n)
{
  guint32 level[MAX_SUBTREE_LEAVES][8];
  guint64 start = self->n_leaves;
  hash_many (&whole_leaves, data, n, start, level);
  guint width = n;
  for (; width > 2; width /= 2)
    {
      guint32 above[MAX_SUBTREE_LEAVES / 2][8];
#if G_BYTE_ORDER != G_LITTLE_ENDIAN
      for (guint i = 0; i < width * 8; i++)
        level[0][i] = GUINT32_TO_LE (level[0][i]);
#endif
      hash_many (&parents, (const guint8 *) level, width / 2, 0, above);
      memcpy (level, above, width / 2 * sizeof level[0]);
    }
  push (self, start, level[0]);
  if (width == 2)
    push (self, start + n / 2, level[1]);
  self->n_leaves += n;
}

void
blake3_init (Blake3 *self)
{
  self->n_leaves = 0;
  self->depth = 0;
  self->tail_bytes = 0;
}

static gsize
fill_tail (Blake3 *self, const guint8 *data, gsize size)
{
  gsize n = MIN (size, BLAKE3_LEAF_BYTES - self->tail_bytes);
  memcpy (self->tail + self->tail_bytes, data, n);
  self->tail_bytes += (guint) n;
  return n;
}

/* The largest power of two of leaves that may be hashed as one subtree. */
static guint
subtree_leaves (const Blake3 *self, gsize size)
{
  guint n = MAX_SUBTREE_LEAVES;
  while (n > size / BLAKE3_LEAF_BYTES || (self->n_leaves & (n - 1)) != 0)
    n /= 2;
  return n;
}

void
blake3_update (Blake3 *self, gconstpointer data, gsize size)
{
  const guint8 *next = data;
  if (self->tail_bytes > 0)
    {
      gsize taken = fill_tail (self, next, size);
      next += taken;
      size -= taken;
      if (size == 0)
        return;
      add_subtree (self, self->tail, 1);
      self->tail_bytes = 0;
    }
  /* A last leaf stays in the tail: alone, it would be the root. */
  while (size > BLAKE3_LEAF_BYTES)
    {
      guint n = subtree_leaves (self, size);
      add_subtree (self, next, n);
      next += n * BLAKE3_LEAF_BYTES;
      size -= n * BLAKE3_LEAF_BYTES;
    }
  if (size > 0)
    fill_tail (self, next, size);
}

void
blake3_peek (const Blake3 *self, guint8 out[BLAKE3_SIZE])
{
  guint32 words[8];
  Blake3 last = *self;
  if (last.n_leaves == 0)
    hash_leaf (last.tail, last.tail_bytes, 0, ROOT, words);
  else
    {
      if (last.tail_bytes > 0)
        {
          hash_leaf (last.tail, last.tail_bytes, last.n_leaves, 0, words);
          push (&last, last.n_leaves, words);
        }
      for (; last.depth > 1; last.depth--)
        join (last.stack[last.depth - 2], last.stack[last.depth - 1], last.depth == 2 ? ROOT : 0,
              last.stack[last.depth - 2]);
      memcpy (words, last.stack[0], sizeof words);
    }
  for (guint i = 0; i < 8; i++)
    {
      guint32 word = GUINT32_TO_LE (words[i]);
      memcpy (out + 4 * i, &word, sizeof word);
    }
}

void
blake3_of (gconstpointer data, gsize size, guint8 out[BLAKE3_SIZE])
{
  Blake3 state;
  blake3_init (&state);
  blake3_update (&state, data, size);
  blake3_peek (&state, out);
}
