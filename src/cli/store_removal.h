/* Removes a model from the local store so that its space can come free: the tag, then the manifest unless
 * something else still names it, then what only that manifest named. Used by `rm`. */
#pragma once

#include "registry/repository.h"
#include "storage/blob_store.h"

/* `tag` NULL: by digest. `out_n_removed` counts manifests. NOT_FOUND (reason MANIFEST_UNKNOWN). */
gboolean store_remove (Ctx *ctx, BlobStore *blobs, Repository *repository, const char *tag, const Digest *digest,
                       guint *out_n_removed, GError **error);
