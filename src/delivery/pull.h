/* Brings the files of an artifact into a directory, which appears whole or not at all. Interrupted at any
 * moment, also by kill -9, the next pull goes on from what is right on disk. Every byte is verified against
 * the manifest (modelpack.md, "Materialization"). */
#pragma once

#include "delivery/artifact.h"
#include "registry/transfer_events.h"
#include "storage/blob_store.h"

typedef struct {
  const char *directory;
  gboolean force;   /* replace a directory that holds something else */
  BlobStore *local; /* what lies here is not fetched; or NULL */
  const TransferEvents *events;
} PullOptions;

typedef struct {
  char *directory;    /* absolute */
  gboolean was_there; /* the directory held exactly this already */
  guint n_files;
  guint64 logical_bytes;
  guint64 kept_bytes, local_bytes, moved_bytes;
} PullResult;

void pull_result_clear (PullResult *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PullResult, pull_result_clear)

/* Blocks until done. FAILED_PRECONDITION (reason DirectoryInUse) when the directory holds something else and
 * `force` is not set; RESOURCE_EXHAUSTED (InsufficientStorage) before anything is written; DATA_LOSS names the
 * file. `out_result` is cleared by the caller. */
gboolean pull_artifact (Ctx *ctx, Repository *repository, const Artifact *artifact, const PullOptions *options,
                        PullResult *out_result, GError **error);
