/* Turns a stream of bytes or of chunk frames into stored chunks, hashing the blob as it goes. The engine
 * under an upload session; private to storage/. Fixed memory; not thread-safe. */
#pragma once

#include "base/blake3.h"
#include "base/sha256.h"
#include "storage/blob_store.h"
#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"
#include "storage/chunk_reader.h"
#include "storage/commit_window.h"

typedef struct {
  BlobStore *blobs;
  GArray *entries;     /* RecipeEntry of whole chunks; borrowed from the session's state */
  Sha256 blob_sha;     /* over everything that went into a chunk, the open one included */
  guint64 start_bytes; /* decoded bytes in whole chunks: where the open chunk begins */
  Sha256 boundary_sha; /* over them */
  ChunkPlan *plan;     /* NULL until the first bytes told where to cut */
  ChunkEncoder *encoder;
  /* The open chunk. */
  ObjectWriter *writer;
  Blake3 chunk_hash;
  gsize chunk_limit, chunk_fill; /* decoded bytes; the fill counts what is in a stripe already encoded */
  guint32 chunk_encoded;
  ChunkEncoding encoding;
  guint8 *stripe;
  gsize stripe_fill;
  /* The frame that arrives. */
  ChunkParser *parser;
  ChunkHeader frame;
  ChunkReader *referenced;
  GByteArray *references; /* digests of chunks that were taken by reference and not pinned since */
  /* Of a far store: whole chunks on their way to it. */
  CommitWindow *window;
  GQueue before; /* where the blob stood before each of the window's */
  Ctx *ctx;      /* of the call in progress, for the parser's events */
} BlobIngest;

void blob_ingest_init (BlobIngest *self, BlobStore *blobs, GArray *entries);
void blob_ingest_clear (BlobIngest *self);
/* Raw bytes; a plan must be set. */
gboolean blob_ingest_bytes (Ctx *ctx, BlobIngest *self, const guint8 *data, gsize size, GError **error);
/* A piece of a stream of frames; no chunk may be open. */
gboolean blob_ingest_frames (Ctx *ctx, BlobIngest *self, const guint8 *data, gsize size, GError **error);
/* On a far store chunks go there beside the work on the next ones. Waits until all whole ones are stored. When that fails, goes back to those that are. */
gboolean blob_ingest_settle (Ctx *ctx, BlobIngest *self, GError **error);
gboolean blob_ingest_has_open_chunk (const BlobIngest *self);
/* Closes the open chunk, if any, at its present length. */
gboolean blob_ingest_close_chunk (Ctx *ctx, BlobIngest *self, GError **error);
/* Stores the open chunk as a frame under `prefix` and the hex digest of its bytes, and forgets it: the tail of a
 * saved session. */
gboolean blob_ingest_park_chunk (Ctx *ctx, BlobIngest *self, const char *prefix, guint8 out_digest[32],
                                 GError **error);
/* Drops what is open and goes on from a boundary. */
void blob_ingest_rewind (BlobIngest *self, const Sha256 *boundary_sha, guint64 boundary_bytes);
