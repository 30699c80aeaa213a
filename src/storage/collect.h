/* Frees what nothing refers to: tag or digest link -> manifest -> children, config, layers -> recipes ->
 * chunks (storage.md, "Collection"). This form needs the store to itself and is for the local commands. */
#pragma once

#include "storage/blob_store.h"

typedef struct {
  guint64 freed_bytes;
  guint n_blobs, n_chunks, n_links, n_sessions; /* removed */
} StoreCollectStats;

/* Removes unreferenced blobs, recipes and chunks that are older than `grace_ms`, and upload sessions that are
 * dead; what live sessions hold stays, and so does a blob with a layer link younger than a session lives: a
 * push may be about to name it. Nothing is removed before everything was marked.
 * UNAVAILABLE (reason StoreBusy) while another process has the store open; DATA_LOSS names a manifest or
 * recipe that cannot be read: what it needs is unknown, so nothing is removed. */
gboolean store_collect (Ctx *ctx, BlobStore *blobs, gint64 grace_ms, StoreCollectStats *out_stats, GError **error);
