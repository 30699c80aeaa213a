#include "base/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/error.h"

static const struct {
  const char *name;
  gsize size;
} algorithms[] = {
  [DIGEST_SHA256] = { "sha256", 32 },
  [DIGEST_SHA512] = { "sha512", 64 },
};

static int
hex_value (char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static gboolean
parse_hex (const char *hex, gsize size, guint8 *out)
{
  for (gsize i = 0; i < size; i++)
    {
      int high = hex_value (hex[2 * i]);
      int low = high < 0 ? -1 : hex_value (hex[2 * i + 1]);
      if (low < 0)
        return FALSE;
      out[i] = (guint8) (high << 4 | low);
    }
  return hex[2 * size] == '\0';
}

gboolean
digest_parse (const char *text, Digest *out_digest, GError **error)
{
  for (guint i = 0; text != NULL && i < G_N_ELEMENTS (algorithms); i++)
    {
      gsize n = strlen (algorithms[i].name);
      Digest parsed = { .algorithm = (DigestAlgorithm) i };
      if (strncmp (text, algorithms[i].name, n) == 0 && text[n] == ':'
          && parse_hex (text + n + 1, algorithms[i].size, parsed.bytes))
        {
          *out_digest = parsed;
          return TRUE;
        }
    }
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID",
                  "\"%.150s\" is not a digest: expected sha256:<64 hex> or sha512:<128 hex> in lower case",
                  text != NULL ? text : "");
}

const char *
digest_hex (const Digest *self, char *buffer)
{
  static const char digits[] = "0123456789abcdef";
  gsize size = algorithms[self->algorithm].size;
  for (gsize i = 0; i < size; i++)
    {
      buffer[2 * i] = digits[self->bytes[i] >> 4];
      buffer[2 * i + 1] = digits[self->bytes[i] & 15];
    }
  buffer[2 * size] = '\0';
  return buffer;
}

const char *
digest_format (const Digest *self, char buffer[DIGEST_STRING_SIZE])
{
  gsize n = strlen (algorithms[self->algorithm].name);
  memcpy (buffer, algorithms[self->algorithm].name, n);
  buffer[n] = ':';
  digest_hex (self, buffer + n + 1);
  return buffer;
}

char *
digest_to_string (const Digest *self)
{
  char buffer[DIGEST_STRING_SIZE];
  return g_strdup (digest_format (self, buffer));
}

gboolean
digest_equal (const Digest *a, const Digest *b)
{
  return a->algorithm == b->algorithm && memcmp (a->bytes, b->bytes, algorithms[a->algorithm].size) == 0;
}

gboolean
digest_equal_secret (const Digest *a, const Digest *b)
{
  return a->algorithm == b->algorithm && CRYPTO_memcmp (a->bytes, b->bytes, algorithms[a->algorithm].size) == 0;
}

guint
digest_hash (gconstpointer digest)
{
  const Digest *self = digest;
  guint value;
  memcpy (&value, self->bytes, sizeof value);
  return value;
}

gboolean
digest_equal_func (gconstpointer a, gconstpointer b)
{
  return digest_equal (a, b);
}

const char *
digest_algorithm_name (DigestAlgorithm algorithm)
{
  return algorithms[algorithm].name;
}

gsize
digest_algorithm_size (DigestAlgorithm algorithm)
{
  return algorithms[algorithm].size;
}

/* Fetched once: a lookup by name costs more than hashing a small manifest. */
static const EVP_MD *
algorithm_md (DigestAlgorithm algorithm)
{
  static gsize once;
  static const EVP_MD *mds[2];
  if (g_once_init_enter (&once))
    {
      mds[DIGEST_SHA256] = EVP_MD_fetch (NULL, "SHA256", NULL);
      mds[DIGEST_SHA512] = EVP_MD_fetch (NULL, "SHA512", NULL);
      g_once_init_leave (&once, 1);
    }
  return mds[algorithm];
}

struct Hasher {
  EVP_MD_CTX *md;
  DigestAlgorithm algorithm;
};

Hasher *
hasher_new (DigestAlgorithm algorithm)
{
  Hasher *self = g_new0 (Hasher, 1);
  self->algorithm = algorithm;
  self->md = EVP_MD_CTX_new ();
  if (self->md == NULL || EVP_DigestInit_ex (self->md, algorithm_md (algorithm), NULL) != 1)
    g_error ("OpenSSL offers no %s", algorithms[algorithm].name);
  return self;
}

void
hasher_update (Hasher *self, gconstpointer data, gsize size)
{
  EVP_DigestUpdate (self->md, data, size);
}

void
hasher_finish (Hasher *self, Digest *out_digest)
{
  memset (out_digest, 0, sizeof *out_digest);
  out_digest->algorithm = self->algorithm;
  EVP_DigestFinal_ex (self->md, out_digest->bytes, NULL);
}

void
hasher_free (Hasher *self)
{
  if (self == NULL)
    return;
  EVP_MD_CTX_free (self->md);
  g_free (self);
}

void
digest_of (DigestAlgorithm algorithm, gconstpointer data, gsize size, Digest *out_digest)
{
  g_autoptr (Hasher) hasher = hasher_new (algorithm);
  hasher_update (hasher, data, size);
  hasher_finish (hasher, out_digest);
}
