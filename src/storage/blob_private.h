/* What the files of the blob store share. Private to storage/. */
#pragma once

#include "storage/blob_store.h"

/* The recipe of a blob that is not kept whole. NOT_FOUND (reason BLOB_UNKNOWN); DATA_LOSS names the object. */
Recipe *blob_store_read_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error);
