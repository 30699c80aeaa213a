/* Accepting, reading and removing manifests of a repository over a blob store: what dmcr/ and the local
 * Repository share. A manifest is visible only after all it needs is there. Thread-safe. */
#pragma once

#include "oci/manifest.h"
#include "storage/blob_store.h"

typedef struct {
  const char *reference;   /* tag or digest text; NULL: by digest only */
  GPtrArray *more_tags;    /* char *; or NULL */
  const char *media_type;  /* as sent; NULL: from the document */
  gboolean sparse_index;   /* children of an index may be missing */
} ManifestPut;

/* Checks, stores, links and tags. MANIFEST_INVALID, MANIFEST_BLOB_UNKNOWN (names the missing blob),
 * DIGEST_INVALID when `reference` is another digest. `out_subject` (may be NULL) gets has-subject. */
gboolean manifest_store_put (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestPut *put,
                             GBytes *bytes, Digest *out_digest, gboolean *out_has_subject, Digest *out_subject,
                             GError **error);
/* Digest of a tag or digest text that the repository has. NOT_FOUND: NAME_UNKNOWN or MANIFEST_UNKNOWN. */
gboolean manifest_store_resolve (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference,
                                 Digest *out_digest, GError **error);
/* Bytes (their digest verified) and media type of a manifest of the repository. */
GBytes *manifest_store_get (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference,
                            char **out_media_type, Digest *out_digest, GError **error);
/* A tag is untagged. A digest loses its link, the tags that point at it and its entry as a referrer. */
gboolean manifest_store_remove (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference,
                                GError **error);
