/* Content-addressed bytes, whole or chunked, over an object store; not aware of repositories.
 * Used by dmcr/ and by the local commands. Thread-safe. Keys: storage.md, "Objects in the bucket". */
#pragma once

#include "storage/object_store.h"
#include "storage/recipe.h"

typedef struct BlobStore BlobStore;
/* Borrows the object store. */
BlobStore *blob_store_new (ObjectStore *objects);
void blob_store_free (BlobStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BlobStore, blob_store_free)
ObjectStore *blob_store_objects (BlobStore *self);

#define BLOBS_PREFIX "docker/registry/v2/blobs/"
#define CHUNKS_PREFIX "_ai_models/chunks/"
char *blob_data_key (const Digest *digest);
char *blob_recipe_key (const Digest *digest);
char *chunk_key (const guint8 digest[32]);

typedef struct {
  guint64 size_bytes;   /* logical */
  guint64 stored_bytes; /* of the object, or of all its chunks' frames (shared ones count in full) */
  guint n_chunks;       /* 0: kept whole */
} BlobInfo;
/* NOT_FOUND (reason BLOB_UNKNOWN). */
gboolean blob_store_stat (Ctx *ctx, BlobStore *self, const Digest *digest, BlobInfo *out_info, GError **error);
/* Keeps a blob whole: manifests, configs, small files. Durable and visible on return. The digest is
 * computed here and must agree: DIGEST_INVALID. At most 4 MiB. */
gboolean blob_store_put_whole (Ctx *ctx, BlobStore *self, const Digest *digest, GBytes *bytes, GError **error);
/* Whole content of a blob of at most `limit_bytes`, its digest verified (DATA_LOSS). */
GBytes *blob_store_get (Ctx *ctx, BlobStore *self, const Digest *digest, gsize limit_bytes, GError **error);
/* NULL without an error when the blob is kept whole; NOT_FOUND when there is none. */
Recipe *blob_store_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error);
/* Writes the recipe after the chunks it names were looked at (DATA_LOSS, or NOT_FOUND with reason CHUNK_UNKNOWN)
 * and synced. On a far store the caller vouches for them. */
gboolean blob_store_put_recipe (Ctx *ctx, BlobStore *self, const Recipe *recipe, GError **error);

/* Reads decoded bytes in order. Each stripe's sum is checked before its bytes are handed out
 * (DATA_LOSS); the digest is for the reader to check. Not thread-safe. */
typedef struct BlobReader BlobReader;
BlobReader *blob_store_open (Ctx *ctx, BlobStore *self, const Digest *digest, guint64 offset_bytes, GError **error);
guint64 blob_reader_size (const BlobReader *self); /* of the whole blob */
/* Up to `size` bytes, at least one; 0 at the end; -1 with an error, and then for ever until a seek succeeds.
 * Fast for 256 KiB and more. */
gssize blob_reader_read (Ctx *ctx, BlobReader *self, guint8 *buffer, gsize size, GError **error);
/* Goes on from another offset. OUT_OF_RANGE beyond the end. */
gboolean blob_reader_seek (Ctx *ctx, BlobReader *self, guint64 offset_bytes, GError **error);
void blob_reader_free (BlobReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BlobReader, blob_reader_free)
/* The same as a random-access Reader for the parsers of formats/. */
Reader *blob_store_open_reader (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error);

/* Decodes a chunk into `out` (CHUNK_MAX_BYTES) and verifies its digest. Returns its size or -1. */
gssize blob_store_read_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], guint8 *out, GError **error);
/* The question of the wire's /known: is there an object of that name. */
gboolean blob_store_has_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], gboolean *out_has, GError **error);

/* Rereads a blob, every stored byte of it: each chunk's digest, and the blob's. DATA_LOSS names the
 * first damaged object; `on_bytes` (may be NULL) hears of progress. */
gboolean blob_store_verify (Ctx *ctx, BlobStore *self, const Digest *digest,
                            void (*on_bytes) (guint64 n_bytes, gpointer data), gpointer data, GError **error);
