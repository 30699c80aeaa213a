/* BLAKE3 (the hash mode of its specification, 32 bytes of output): the identity of a chunk. It is a tree
 * of leaves of 1 KiB, so leaves are hashed side by side in the CPU's vector registers: 4 everywhere, 8
 * with AVX2, 16 with AVX-512, with one result. Fixed memory; a value; not thread-safe per state. */
#pragma once

#include <glib.h>

#define BLAKE3_SIZE 32
#define BLAKE3_LEAF_BYTES 1024
#define BLAKE3_MAX_DEPTH 54 /* of a tree over 2^64 bytes */

typedef struct {
  guint64 n_leaves; /* whole ones, hashed into `stack` */
  guint depth;
  /* Roots of the subtrees so far, largest first. The last two are joined only when more follows: the join
   * that ends the tree is another one. */
  guint32 stack[BLAKE3_MAX_DEPTH + 1][8];
  guint tail_bytes;
  guint8 tail[BLAKE3_LEAF_BYTES];
} Blake3;

void blake3_init (Blake3 *self);
/* Fastest in pieces of 16 KiB and more whose sizes are powers of two. */
void blake3_update (Blake3 *self, gconstpointer data, gsize size);
/* The hash so far; the state stays usable. */
void blake3_peek (const Blake3 *self, guint8 out[BLAKE3_SIZE]);
void blake3_of (gconstpointer data, gsize size, guint8 out[BLAKE3_SIZE]);
/* For tests: at most so many leaves side by side (1, 4, 8, 16; 0: what the CPU has). Returns what is in use. */
guint blake3_use_lanes (guint wanted);
