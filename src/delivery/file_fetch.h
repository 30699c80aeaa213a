/* Brings one blob into one open file, verified: the blob's digest is computed over what the file holds. Goes on
 * from whatever right bytes the file has already. Memory is bounded whatever the size. */
#pragma once

#include "registry/transfer_events.h"
#include "registry/repository.h"
#include "storage/blob_store.h"

typedef struct {
  Repository *repository;
  BlobStore *local; /* chunks that lie here are not fetched; or NULL */
  const TransferEvents *events;
  GMutex *heavy; /* held while one file's chunks move in parallel: bounds memory across files */
} FetchSource;

typedef struct {
  guint64 kept_bytes;  /* were right in the file */
  guint64 local_bytes; /* came from the local store */
  guint64 moved_bytes; /* came over the wire, as they travelled */
} FetchCounts;

/* Fills `fd` (open for reading and writing) with the blob and syncs it. Adds to `counts` (zeroed by the caller).
 * DATA_LOSS (reason DigestMismatch) when what the other side gives is not the blob; the file is emptied then. */
gboolean file_fetch (Ctx *ctx, const FetchSource *source, const Digest *digest, guint64 size_bytes, int fd,
                     const char *name, FetchCounts *counts, GError **error);
