/* What belongs to a repository: links to layers, manifests, tags and referrers, in the layout of
 * docker/registry/v2 (storage.md, dmcr-registry.md "Bucket layout"). Names are validated by the caller
 * (oci/reference.h). Thread-safe. */
#pragma once

#include "base/digest.h"
#include "storage/object_store.h"

#define REPOSITORIES_PREFIX "docker/registry/v2/repositories/"
#define REPOSITORY_MAX_TAGS 100000u

gboolean layer_link_put (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                         GError **error);
gboolean layer_link_exists (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                            gboolean *out_exists, GError **error);
/* The same for somebody who may be going to name the blob in a manifest: a link that is not young any more is renewed,
 * so that collection keeps the blob meanwhile (storage/collect.h). Where nothing can be written it stays as it is. */
gboolean layer_link_claim (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                           gboolean *out_exists, GError **error);
gboolean layer_link_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                            GError **error);

gboolean manifest_link_put (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                            GError **error);
gboolean manifest_link_exists (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                               gboolean *out_exists, GError **error);
gboolean manifest_link_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                               GError **error);
/* Digests of all manifests of a repository, as GPtrArray of Digest with g_free. */
GPtrArray *manifest_link_list (Ctx *ctx, ObjectStore *objects, const char *repository, GError **error);

gboolean tag_put (Ctx *ctx, ObjectStore *objects, const char *repository, const char *tag, const Digest *digest,
                  GError **error);
/* NOT_FOUND (reason MANIFEST_UNKNOWN). */
gboolean tag_get (Ctx *ctx, ObjectStore *objects, const char *repository, const char *tag, Digest *out_digest,
                  GError **error);
gboolean tag_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const char *tag, GError **error);
/* All tags in byte order (char * with g_free). */
GPtrArray *tag_list (Ctx *ctx, ObjectStore *objects, const char *repository, GError **error);
/* TRUE in *out_exists when the repository has any link. */
gboolean repository_exists (Ctx *ctx, ObjectStore *objects, const char *repository, gboolean *out_exists,
                            GError **error);
/* Names of all repositories in byte order. */
GPtrArray *repository_list (Ctx *ctx, ObjectStore *objects, GError **error);

/* `descriptor` is the referrer's own JSON, as the referrers API shows it. */
gboolean referrer_put (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *subject,
                       const Digest *referrer, const char *descriptor, GError **error);
gboolean referrer_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *subject,
                          const Digest *referrer, GError **error);
/* Sees one referrer's descriptor, borrowed; sets `*goes_on` to FALSE when it has seen enough. */
typedef gboolean (*TakeReferrer) (const Digest *referrer, GBytes *descriptor, gpointer data, gboolean *goes_on,
                                  GError **error);
/* Calls `take` for the subject's referrers behind `after` (NULL: all), ordered by digest, one descriptor in memory at
 * a time. */
gboolean referrer_walk (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *subject,
                        const Digest *after, TakeReferrer take, gpointer data, GError **error);
