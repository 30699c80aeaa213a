/* Manifests, tags and referrers of the repositories of one blob store: what it takes to accept a manifest,
 * what it means to remove one (distribution-spec 1.1 "Pushing Manifests", "Deleting", "Listing Referrers";
 * formats-oci-modelpack.md 4.2). Used by dmcr/ and by the local Repository. Thread-safe; every step may be
 * repeated after a crash. Repository names are validated by the caller. */
#pragma once

#include "oci/manifest.h"
#include "storage/blob_store.h"

typedef struct {
  GBytes *bytes;                /* kept exactly */
  const char *media_type;       /* what it was sent as; NULL: what the document says */
  const Digest *expected;       /* the digest of the URL: must agree, and chooses the algorithm; NULL: SHA-256 */
  const char *const *tags;      /* NULL-terminated; NULL: by digest only */
  gboolean allow_sparse_index;  /* children of an index may be missing */
  gboolean allow_missing_blobs; /* anything may: the operator asked for it */
} ManifestPut;

typedef struct {
  Digest digest;
  gboolean has_subject;
  Digest subject; /* for the OCI-Subject header */
} ManifestPutResult;

/* Checks that everything the manifest needs is in the repository and has the size it tells, then stores it
 * and makes it visible: revision, bytes, referrer entry, tags, in this order, durable on return.
 * INVALID_ARGUMENT: reasons MANIFEST_INVALID, DIGEST_INVALID, TAG_INVALID, SIZE_INVALID,
 * MANIFEST_BLOB_UNKNOWN. RESOURCE_EXHAUSTED above 4 MiB. */
gboolean manifest_store_put (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestPut *put,
                             ManifestPutResult *out_result, GError **error);
/* By tag or digest text. `out_media_type` (caller frees) and `out_digest` may be NULL.
 * NOT_FOUND (reason MANIFEST_UNKNOWN, or NAME_UNKNOWN when there is no such repository); INVALID_ARGUMENT for
 * text that is neither; DATA_LOSS. */
GBytes *manifest_store_get (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference,
                            char **out_media_type, Digest *out_digest, GError **error);
/* A tag is untagged and the manifest stays. A digest removes the manifest from the repository with every tag
 * that names it and its entry with its subject; bytes go at the next collection.
 * NOT_FOUND as above. */
gboolean manifest_store_remove (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference,
                                GError **error);
/* An index of the manifests whose subject is `subject`, empty when there is none, at most 4 MiB: `*out_next`
 * (caller frees; NULL when complete) is then to be given as `after` for the next page: INVALID_ARGUMENT (reason
 * DIGEST_INVALID) when it is no digest. With `artifact_type` only those of that type. */
GBytes *manifest_store_referrers (Ctx *ctx, BlobStore *blobs, const char *repository, const Digest *subject,
                                  const char *artifact_type, const char *after, char **out_next, GError **error);
