/* What the files of the blob store share. Private to storage/. */
#pragma once

#include "storage/blob_store.h"
#include "storage/chunk_hint.h"

/* The recipe of a blob that is not kept whole. NOT_FOUND (reason BLOB_UNKNOWN); DATA_LOSS names the object. */
Recipe *blob_store_read_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error);
/* One that was read lately, from memory; or NULL. */
Recipe *blob_store_recall_recipe (BlobStore *self, const Digest *digest);

/* Of a far store, else NULL: what it surely lacks. */
ChunkHint *blob_store_hint (BlobStore *self);
/* A chunk was stored, or is on its way. */
void blob_store_stored_chunk (BlobStore *self, const guint8 digest[32]);
/* Whose an upload session is, as far as this process has seen it; or NULL. Caller frees. It may have ended since. */
char *blob_store_upload_owner (BlobStore *self, const char *id);
void blob_store_saw_upload (BlobStore *self, const char *id, const char *repository);
