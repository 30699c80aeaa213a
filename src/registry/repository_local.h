/* The local store as a Repository (registry/repository.h). */
#pragma once

#include "registry/repository.h"
#include "storage/blob_store.h"

/* Borrows the blob store. INVALID_ARGUMENT (reason NAME_INVALID) for a bad name. */
Repository *repository_local_new (BlobStore *blobs, const char *name, GError **error);
