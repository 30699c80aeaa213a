/* SHA-256 with a plain state that can be saved and loaded, over OpenSSL's block function. Values; not
 * thread-safe per state. Without the need to save one, base/digest.h has the general form. */
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
/* Big-endian, stable across machines and versions. */
void sha256_save (const Sha256 *self, guint8 out[SHA256_SAVED_SIZE]);
void sha256_load (Sha256 *self, const guint8 saved[SHA256_SAVED_SIZE]);
