/* For the tests of what moves blobs: a store in a temporary folder, content to move, and sinks that remember.
 * Test code only. */
#pragma once

#include "registry/repository.h"
#include "storage/blob_store.h"

typedef struct {
  char *root;
  ObjectStore *objects;
  BlobStore *blobs;
} StoreFixture;

void store_fixture_init (StoreFixture *self);
void store_fixture_clear (StoreFixture *self); /* removes the folder */
/* Number of objects below a prefix that ends with '/'. */
guint store_fixture_count (StoreFixture *self, const char *prefix);

/* A safetensors file of `n_tensors` bf16 tensors of `tensor_bytes` each that looks trained; `seed` names the model,
 * tensors whose index is in `changed` (a bit each) come from another one. */
GBytes *fixture_model (guint n_tensors, gsize tensor_bytes, guint seed, guint64 changed);
/* Bytes nothing can shrink. */
GBytes *fixture_noise (gsize size, guint seed);
void fixture_digest (GBytes *bytes, Digest *out_digest);
/* A small manifest for these blobs: config, then layers; "" as its annotation unless `note` is given. */
GBytes *fixture_manifest (GBytes *config, GBytes *layer, const Digest *subject, const char *note);

/* A BlobSink that appends to a GByteArray. */
gboolean fixture_append (Ctx *ctx, gpointer byte_array, gconstpointer bytes, gsize size, GError **error);

/* A ChunkSink that writes into `bytes` (as large as the blob) and counts. */
typedef struct {
  GMutex lock;
  GByteArray *bytes;
  guint n_chunks, n_again; /* delivered; of them twice */
  GHashTable *seen;
} ChunkCollector;
void chunk_collector_init (ChunkCollector *self, gsize size);
void chunk_collector_clear (ChunkCollector *self);
gboolean chunk_collector_take (Ctx *ctx, gpointer self, guint64 offset_bytes, const guint8 *bytes, gsize size,
                               GError **error);

/* A TransferProgress into a FixtureProgress; thread-safe. */
typedef struct {
  gsize logical, moved; /* atomic */
} FixtureProgress;
void fixture_progress (guint64 logical_bytes, guint64 moved_bytes, gpointer data);

/* A Reader over `bytes` that calls `before` with each read's offset. */
Reader *fixture_watched_reader (GBytes *bytes,
                                gboolean (*before) (guint64 offset_bytes, gpointer data, GError **error),
                                gpointer data);
