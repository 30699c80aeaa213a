/* SHA-256 with a plain state that can be saved and loaded, and the paired form that hashes one
 * buffer into two states (or two buffers into one state each) with interleaved rounds: SHA
 * instructions are bound by latency, so two cost what one costs. Falls back to OpenSSL's block
 * function where the CPU lacks the instructions. Values; not thread-safe per state. */
#pragma once

#include "base/digest.h"

#define SHA256_BLOCK 64
#define SHA256_SAVED_SIZE (8 * 4 + 8 + SHA256_BLOCK)

typedef struct {
  guint32 h[8];
  guint64 length; /* bytes hashed so far; length % 64 of them wait in `tail` */
  guint8 tail[SHA256_BLOCK];
} Sha256;

void sha256_init (Sha256 *self);
void sha256_update (Sha256 *self, gconstpointer data, gsize size);
/* The digest so far; the state stays usable. */
void sha256_peek (const Sha256 *self, Digest *out_digest);
/* Adds `a_data` to `a` and `b_data` to `b`, interleaved. The buffers may be the same. a != b. */
void sha256_update_pair (Sha256 *a, gconstpointer a_data, gsize a_size, Sha256 *b, gconstpointer b_data,
                         gsize b_size);
/* Big-endian, stable across machines and versions. */
void sha256_save (const Sha256 *self, guint8 out[SHA256_SAVED_SIZE]);
void sha256_load (Sha256 *self, const guint8 saved[SHA256_SAVED_SIZE]);
/* For tests: FALSE forces the fallback. Returns whether the CPU's instructions are in use. */
gboolean sha256_use_cpu_instructions (gboolean wanted);
