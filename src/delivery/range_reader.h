/* Random access to a blob of a repository as a Reader, block by block, with a small cache. Two uses: headers
 * of model files (small blocks), and the content of a blob on its way into another repository (large blocks, by
 * chunks where they are offered, so that what is at hand does not travel). Not thread-safe. */
#pragma once

#include "registry/repository.h"
#include "storage/blob_store.h"

/* For reading here and there. Borrows `repository`. */
Reader *range_reader_new (Repository *repository, const Digest *digest, guint64 size_bytes);

/* For reading in order from begin to end. `local` (or NULL) is looked into first. Blocks: asks for the recipe.
 * NULL with an error of that. */
Reader *copy_reader_new (Ctx *ctx, Repository *repository, const Digest *digest, guint64 size_bytes, BlobStore *local,
                         GError **error);
