/* Which chunks a far store surely lacks, without asking it: short forms of the digests of all chunks that were listed
 * there or stored by this process (storage.md, "Writing"). No more than a hint: what it may have is asked of the store;
 * what another process stored since the listing counts as lacking, and is stored again, which is harmless. Private
 * to storage/. Thread-safe. */
#pragma once

#include "storage/object_store.h"

typedef struct ChunkHint ChunkHint;
ChunkHint *chunk_hint_new (void);
void chunk_hint_free (ChunkHint *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkHint, chunk_hint_free)
void chunk_hint_add (ChunkHint *self, const guint8 digest[32]);
/* FALSE also as long as the store has not been listed to the end, or has too many chunks. */
gboolean chunk_hint_surely_lacks (ChunkHint *self, const guint8 digest[32]);
/* Goes on with the listing by at most two requests, or begins a new one when the last is old. */
gboolean chunk_hint_refresh (Ctx *ctx, ChunkHint *self, ObjectStore *objects, GError **error);
