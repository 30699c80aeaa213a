/* Opens the chunks of a recipe. Where they are read one after the other, those that follow are on their way from a far
 * store already. Not thread-safe. */
#pragma once

#include "storage/blob_store.h"
#include "storage/chunk_frame.h"

typedef struct ChunkAhead ChunkAhead;
/* Borrows the store and the recipe. `first` is where reading in order is going to begin, G_MAXUINT where it is not
 * known; nothing at or behind `end` is read ahead. Up to `n_ahead` frames beside the one in use are in memory. */
ChunkAhead *chunk_ahead_new (BlobStore *blobs, const Recipe *recipe, guint first, guint end, guint n_ahead);
void chunk_ahead_free (ChunkAhead *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkAhead, chunk_ahead_free)
/* A chunk's frame as it is stored, its header checked against its digest: DATA_LOSS when it is damaged, NOT_FOUND (reason
 * CHUNK_UNKNOWN) when it is missing. The caller frees it. */
Reader *chunk_ahead_open (Ctx *ctx, ChunkAhead *self, guint entry, ChunkHeader *out_header, GError **error);
