/* A file that is put together from chunks in any order by several threads, while one more hashes it in the
 * order of its bytes, close behind the writers, so that what it reads is still in memory. Private to
 * delivery/. */
#pragma once

#include "base/ctx.h"
#include "storage/recipe.h"

typedef struct ChunkFile ChunkFile;

/* Starts hashing. Borrows `fd`, `recipe` and `name`. */
ChunkFile *chunk_file_new (Ctx *ctx, int fd, const Recipe *recipe, const char *name);
/* Stops hashing when it has not ended. */
void chunk_file_free (ChunkFile *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ChunkFile, chunk_file_free)

/* The chunk at `index` is right in the file already. Thread-safe, as is the next. */
void chunk_file_mark (ChunkFile *self, guint index);
/* Writes a verified chunk at its place and marks it. */
gboolean chunk_file_write (ChunkFile *self, guint64 offset_bytes, const guint8 *bytes, gsize size, GError **error);
gboolean chunk_file_has (ChunkFile *self, guint index);

/* Waits until every byte was hashed. All chunks must have been marked. */
gboolean chunk_file_finish (ChunkFile *self, Digest *out_digest, GError **error);
