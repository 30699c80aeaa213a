/* A content digest as OCI writes it, "sha256:<64 lower hex>" or "sha512:<128 lower hex>"
 * (image-spec 1.1, descriptor.md). A plain value: copy it, no ownership. */
#pragma once

#include <glib.h>

typedef enum { DIGEST_SHA256, DIGEST_SHA512 } DigestAlgorithm;

#define DIGEST_MAX_BYTES 64
#define DIGEST_STRING_SIZE 136 /* "sha512:" + 128 + NUL */

typedef struct {
  DigestAlgorithm algorithm;
  guint8 bytes[DIGEST_MAX_BYTES];
} Digest;

/* INVALID_ARGUMENT (reason DIGEST_INVALID) on anything but the two algorithms in lower-case hex. */
gboolean digest_parse (const char *text, Digest *out_digest, GError **error);
/* Writes the text form into `buffer` and returns it. */
const char *digest_format (const Digest *self, char buffer[DIGEST_STRING_SIZE]);
char *digest_to_string (const Digest *self); /* caller frees */
gboolean digest_equal (const Digest *a, const Digest *b);
/* The same in a time that tells nothing about where they differ: for digests of secrets. */
gboolean digest_equal_secret (const Digest *a, const Digest *b);
guint digest_hash (gconstpointer digest); /* for GHashTable, with digest_equal_func */
gboolean digest_equal_func (gconstpointer a, gconstpointer b);
const char *digest_algorithm_name (DigestAlgorithm algorithm);
gsize digest_algorithm_size (DigestAlgorithm algorithm);
/* Lower-case hex of the digest's bytes into `buffer` (at least 2 x size + 1); returns it. */
const char *digest_hex (const Digest *self, char *buffer);

/* One-shot. */
void digest_of (DigestAlgorithm algorithm, gconstpointer data, gsize size, Digest *out_digest);

/* Streaming hash of either algorithm (OpenSSL). Not thread-safe. SHA-256 states that
 * can be saved are in base/sha256.h. */
typedef struct Hasher Hasher;
Hasher *hasher_new (DigestAlgorithm algorithm);
void hasher_update (Hasher *self, gconstpointer data, gsize size);
void hasher_finish (Hasher *self, Digest *out_digest);
void hasher_free (Hasher *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Hasher, hasher_free)
