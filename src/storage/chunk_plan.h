/* Where a blob is cut: boundaries follow tensors, so that unchanged tensors land in identical chunks in
 * every file that has them (storage.md, "Chunks"). One piece of code for server and publisher; depends on
 * the blob's bytes alone. Not thread-safe. */
#pragma once

#include "formats/tensor_layout.h"

/* A blob of at most this many bytes is kept whole, without chunks. */
#define BLOB_WHOLE_MAX_BYTES (1u << 20)
/* A tensor at least this large is cut from its own start; smaller neighbours share a chunk. */
#define CHUNK_LARGE_TENSOR_BYTES (256u << 10)
/* Longest weight-file header that is waited for before cutting blindly. */
#define CHUNK_PLAN_HEADER_LIMIT_BYTES (32u << 20)

typedef struct ChunkPlan ChunkPlan;
/* Looks at a blob's first bytes. NULL: not enough yet, come back with `*out_needed_bytes` or with
 * `is_whole` when there are no more. */
ChunkPlan *chunk_plan_probe (const guint8 *prefix, gsize size, gboolean is_whole, gsize *out_needed_bytes);
/* Takes the layout over; NULL cuts blindly. */
ChunkPlan *chunk_plan_new (TensorLayout *layout);
/* The chunk that starts at `offset_bytes`: at most how long it is (the blob's end may come first) and
 * how wide its numbers are (0 unknown). Offsets ascend between calls. */
gsize chunk_plan_next (ChunkPlan *self, guint64 offset_bytes, guint *out_unit_bytes);
void chunk_plan_free (ChunkPlan *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkPlan, chunk_plan_free)
