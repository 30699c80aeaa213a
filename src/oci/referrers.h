/* The fallback for registries without the referrers API (distribution-spec 1.1, "Referrers Tag Schema"): an index of
 * a manifest's referrers, under a tag that is made of the manifest's digest. Used by registry/. Pure. */
#pragma once

#include "base/digest.h"
#include "base/error.h"

/* "sha256-<hex>"; of a SHA-512 digest the first 64 hex digits. Caller frees. */
char *referrers_tag (const Digest *subject);
/* `index` with one more entry, the JSON `descriptor` of `referrer`; what else is in it stays as it is. `index` NULL: a
 * new one. When the entry is there already, `*out_had` is TRUE and `index` comes back. Caller frees.
 * INVALID_ARGUMENT (reason MANIFEST_INVALID) when it is no index; RESOURCE_EXHAUSTED (reason SIZE_INVALID) when the
 * result would be larger than a manifest may be. */
GBytes *referrers_index_add (GBytes *index, const Digest *referrer, const char *descriptor, gboolean *out_had,
                             GError **error);
/* `index` without the entries of `referrer`. When there are none, `*out_had` is FALSE and `index` comes back. Caller
 * frees. INVALID_ARGUMENT as above. */
GBytes *referrers_index_remove (GBytes *index, const Digest *referrer, gboolean *out_had, GError **error);
