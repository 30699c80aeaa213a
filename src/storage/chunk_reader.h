/* Reads stored chunks stripe by stripe. Errors name the object. One reader serves many chunks, one after another.
 * Private to storage/. Not thread-safe. */
#pragma once

#include "storage/chunk_frame.h"
#include "storage/object_store.h"

typedef struct ChunkReader ChunkReader;
/* Borrows the object store. */
ChunkReader *chunk_reader_new (ObjectStore *objects);
void chunk_reader_free (ChunkReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkReader, chunk_reader_free)
/* Turns to another chunk. Its header is checked against the digest, its length against the header: DATA_LOSS
 * (reason ChunkCorrupt); NOT_FOUND (reason CHUNK_UNKNOWN). */
gboolean chunk_reader_open (Ctx *ctx, ChunkReader *self, const guint8 digest[32], GError **error);
/* Turns to a chunk whose frame, opened and checked so, is taken over. */
void chunk_reader_take (ChunkReader *self, const guint8 digest[32], Reader *frame, const ChunkHeader *header);
const ChunkHeader *chunk_reader_header (const ChunkReader *self);
/* Decoded bytes of the next stripe; 0 at the end. */
gsize chunk_reader_stripe_size (const ChunkReader *self);
/* Decodes it into `out` and checks its sum. DATA_LOSS (reason ChunkCorrupt). */
gboolean chunk_reader_next (Ctx *ctx, ChunkReader *self, guint8 *out, GError **error);
/* Passes it by unseen. */
gboolean chunk_reader_skip (Ctx *ctx, ChunkReader *self, GError **error);

/* What chunk_reader_open checks; the open frame is the caller's. */
Reader *chunk_object_open (Ctx *ctx, ObjectStore *objects, const guint8 digest[32], ChunkHeader *out_header,
                           GError **error);
/* The same checks, without bringing the frame here. */
gboolean chunk_object_check (Ctx *ctx, ObjectStore *objects, const guint8 digest[32], ChunkHeader *out_header,
                             GError **error);
