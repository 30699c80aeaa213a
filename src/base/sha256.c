#include "base/sha256.h"

#include <string.h>

/* The state of the EVP interface cannot be saved; that of this older one is a plain structure. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

static const guint32 initial_state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

void
sha256_init (Sha256 *self)
{
  memset (self, 0, sizeof *self);
  memcpy (self->h, initial_state, sizeof initial_state);
}

static void
to_openssl (const Sha256 *self, SHA256_CTX *out)
{
  guint64 bits = self->length * 8;
  memset (out, 0, sizeof *out);
  memcpy (out->h, self->h, sizeof self->h);
  memcpy (out->data, self->tail, sizeof self->tail);
  out->Nl = (guint32) bits;
  out->Nh = (guint32) (bits >> 32);
  out->num = self->length % SHA256_BLOCK;
  out->md_len = SHA256_DIGEST_LENGTH;
}

void
sha256_update (Sha256 *self, gconstpointer data, gsize size)
{
  SHA256_CTX state;
  to_openssl (self, &state);
  SHA256_Update (&state, data, size);
  memcpy (self->h, state.h, sizeof self->h);
  memcpy (self->tail, state.data, sizeof self->tail);
  self->length += size;
}

void
sha256_peek (const Sha256 *self, Digest *out_digest)
{
  SHA256_CTX state;
  to_openssl (self, &state);
  memset (out_digest, 0, sizeof *out_digest);
  out_digest->algorithm = DIGEST_SHA256;
  SHA256_Final (out_digest->bytes, &state);
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
