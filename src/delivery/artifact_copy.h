/* Copies an artifact, of any kind, from one repository to another: an image manifest with its blobs, an index
 * with its children, on demand what refers to them. Streams; what the other side has does not move. */
#pragma once

#include "registry/transfer_events.h"
#include "registry/repository.h"
#include "storage/blob_store.h"

typedef struct {
  gboolean same_place; /* both in the local store or in one registry: blobs are mounted, not moved */
  gboolean referrers;  /* what refers to the manifests too: signatures, SBOMs, and what refers to those */
  BlobStore *local;    /* looked into before a chunk is fetched; or NULL */
  const TransferEvents *events;
} CopyOptions;

typedef struct {
  Digest digest;                               /* of the manifest or index that was named */
  guint n_manifests, n_blobs, n_mounted_blobs; /* of referrers too */
  guint n_referrers;
  guint n_missing_referrers; /* that the source lists but does not have */
  guint64 logical_bytes, moved_bytes;
} CopyResult;

/* `tag` NULL: by digest only. The tag is written last, and no manifest before what it names, so nothing is visible
 * before all is there. NOT_FOUND, DATA_LOSS (DigestMismatch), RESOURCE_EXHAUSTED (ManifestInvalid) when manifests
 * refer to one another too deep, and what the two sides say. */
gboolean artifact_copy (Ctx *ctx, Repository *from, const char *selector, Repository *to, const char *tag,
                        const CopyOptions *options, CopyResult *out_result, GError **error);
