/* Names of things in a registry: repository names, tags, and what a person types to mean an artifact,
 * `[host[:port]/]name[:tag][@digest]` (distribution-spec 1.1 "Pulling manifests"; Docker's reference
 * grammar for the host rule). Used by registry/, dmcr/, cli/ and publish/. Values; not thread-safe. */
#pragma once

#include "base/digest.h"
#include "base/error.h"

#define REPOSITORY_NAME_MAX 255 /* with the host, distribution-spec 1.1 */
#define TAG_NAME_MAX 128
#define TAG_DEFAULT "latest"

/* `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/...)*`, at most 255 bytes.
 * INVALID_ARGUMENT (reason NAME_INVALID) says what is wrong with it. */
gboolean repository_name_check (const char *name, GError **error);
/* `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`. INVALID_ARGUMENT (reason TAG_INVALID). */
gboolean tag_name_check (const char *tag, GError **error);
/* "registry.example", "localhost:5000", "[::1]:5000"; the port is 1 to 65535.
 * INVALID_ARGUMENT (reason NAME_INVALID). */
gboolean registry_host_check (const char *host, GError **error);

typedef struct {
  char *host; /* "registry.example:5000"; NULL means the local store */
  char *name; /* "team/model" */
  char *tag;  /* NULL only when there is a digest and no tag was given */
  gboolean has_digest;
  Digest digest;
} Reference;

/* A first component with a dot or a port, or `localhost`, is a host; without one the reference means the
 * local store (there is no default registry). Neither tag nor digest means the tag `latest`.
 * INVALID_ARGUMENT with reason NAME_INVALID, TAG_INVALID or DIGEST_INVALID. */
Reference *reference_parse (const char *text, GError **error);
void reference_free (Reference *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Reference, reference_free)
/* What reference_parse reads; caller frees. */
char *reference_to_string (const Reference *self);
/* What to ask a registry for: the digest when there is one, otherwise the tag. Caller frees. */
char *reference_selector (const Reference *self);

/* What follows /manifests/ in a URL: a digest (it has a colon) or a tag. `*out_is_digest` tells which;
 * `out_digest` is filled for a digest. INVALID_ARGUMENT with reason DIGEST_INVALID or TAG_INVALID. */
gboolean reference_selector_parse (const char *text, gboolean *out_is_digest, Digest *out_digest, GError **error);
