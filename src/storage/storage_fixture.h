/* What the tests of the store share: a store in a temporary directory, made-up bytes, short forms of calls that
 * must succeed. */
#pragma once

#include "storage/blob_store.h"
#include "storage/chunk_frame.h"
#include "storage/upload_session.h"

typedef struct {
  char *dir;
  ObjectStore *fs;
  ObjectStore *objects; /* the fault wrapper around it */
  BlobStore *blobs;     /* over the wrapper */
} StorageFixture;

void storage_fixture_set_up (StorageFixture *self, gconstpointer data);
/* The same over a far store. */
void storage_fixture_set_up_far (StorageFixture *self, gconstpointer data);
void storage_fixture_tear_down (StorageFixture *self, gconstpointer data);
#define STORAGE_TEST(name, func) \
  g_test_add (name, StorageFixture, NULL, storage_fixture_set_up, func, storage_fixture_tear_down)
/* Over a near store and over a far one. */
#define STORAGE_TEST_BOTH(name, func) \
  STORAGE_TEST (name, func);          \
  g_test_add (name "/far", StorageFixture, NULL, storage_fixture_set_up_far, func, storage_fixture_tear_down)

typedef enum {
  BYTES_RANDOM,
  BYTES_TEXT,
  BYTES_ZERO,
  BYTES_BF16, /* numbers as weights have them: exponents alike, mantissas not */
  BYTES_F32,
  BYTES_F8,
} BytesKind;

/* The same arguments give the same bytes. */
void fixture_fill (BytesKind kind, guint seed, guint8 *out, gsize size);
GBytes *fixture_bytes (BytesKind kind, guint seed, gsize size);
/* A safetensors file: a header of `header_bytes` (padded; 0: as long as need be), then tensors of these sizes. */
GBytes *fixture_safetensors (guint seed, const char *dtype, guint unit_bytes, const gsize *sizes, guint n_sizes,
                             gsize header_bytes);

void fixture_put (ObjectStore *objects, const char *key, const char *content);
/* The content, or NULL when there is none. */
char *fixture_get (ObjectStore *objects, const char *key);
/* Keys below `prefix`, joined by spaces, fetched in pages of `page`. */
char *fixture_list (ObjectStore *objects, const char *prefix, guint page);
guint fixture_count (ObjectStore *objects, const char *prefix);
/* Changes one byte of a stored object. */
void fixture_flip (const StorageFixture *self, const char *key, gsize offset, guint8 mask);
/* Makes every object below `prefix` look `hours` older than it is. */
void fixture_age (const StorageFixture *self, const char *prefix, guint hours);
char *fixture_path (const StorageFixture *self, const char *key);

Digest fixture_digest (GBytes *bytes, DigestAlgorithm algorithm);
/* What a chunk of these bytes is called. */
ChunkDigest fixture_chunk_digest (gconstpointer data, gsize size);
/* Puts a blob through an upload session. */
Digest fixture_upload (const StorageFixture *self, GBytes *bytes);
void fixture_assert_blob (const StorageFixture *self, const Digest *digest, GBytes *wanted);
void fixture_assert_error (GError **error, AmErrorCode code, const char *reason);
#define fixture_assert_ok(condition, error) \
  {                                         \
    gboolean fixture_ok = (condition);      \
    g_assert_no_error (error);              \
    g_assert_true (fixture_ok);             \
  }
/* Runs `func` in a child process; returns its exit status. */
int fixture_fork (int (*func) (gpointer data), gpointer data);
