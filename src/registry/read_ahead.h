/* Reads content in order on a thread of its own, a few blocks ahead of the consumer, and can hash it on the
 * way: so reading, hashing and sending overlap. Private to registry/. One consumer thread. */
#pragma once

#include "base/digest.h"
#include "base/error.h"
#include "base/reader.h"

#define READ_AHEAD_BLOCK_BYTES (1u << 20)

typedef struct ReadAhead ReadAhead;

/* Starts at `offset_bytes`. Borrows `content`; nobody else may read it until read_ahead_free. Every byte goes into
 * `hasher` (borrowed too; NULL: none), which is the caller's again when the end was seen. */
ReadAhead *read_ahead_new (Ctx *ctx, Reader *content, guint64 offset_bytes, Hasher *hasher);
/* The next block, valid until the next call: its size, 0 at the end, -1 with an error. */
gssize read_ahead_next (ReadAhead *self, const guint8 **out_block, GError **error);
void read_ahead_free (ReadAhead *self); /* stops reading first */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReadAhead, read_ahead_free)
