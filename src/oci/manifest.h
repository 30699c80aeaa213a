/* Image manifests and indexes, OCI's and Docker's v2 (image-spec 1.1 manifest.md, image-index.md). Used by
 * dmcr/, registry/, publish/, delivery/ and garbage collection. A parsed manifest is immutable and then
 * thread-safe; its exact bytes are kept by whoever has them: they are what the digest is of. */
#pragma once

#include "oci/descriptor.h"
#include "oci/media_types.h"

#define MANIFEST_MAX_BYTES (4u << 20) /* distribution-spec 1.1 asks for at least so much */
#define MANIFEST_MAX_DESCRIPTORS 10000u

typedef enum { MANIFEST_IMAGE, MANIFEST_INDEX } ManifestKind;

typedef struct {
  ManifestKind kind;
  char *media_type;       /* never NULL */
  char *artifact_type;    /* or NULL */
  Descriptor *config;     /* image only, then never NULL */
  GPtrArray *layers;      /* Descriptor; empty for an index */
  GPtrArray *manifests;   /* Descriptor; empty for an image */
  Descriptor *subject;    /* or NULL */
  GPtrArray *annotations; /* Annotation; or NULL */
} Manifest;

/* `content_type` is what the bytes were sent as (parameters are ignored); NULL when they come without,
 * then the document's own mediaType or its shape tells. INVALID_ARGUMENT (reason MANIFEST_INVALID) with a
 * sentence; RESOURCE_EXHAUSTED (reason SIZE_INVALID) above MANIFEST_MAX_BYTES. A document that could be
 * read as image and as index, or has a member twice, is refused: two readers must not see two things. */
Manifest *manifest_parse (GBytes *bytes, const char *content_type, GError **error);
void manifest_free (Manifest *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Manifest, manifest_free)

/* TRUE for the four media types that manifest_parse takes. */
gboolean manifest_type_is_known (const char *media_type);
/* Value of the Accept header for a manifest of any kind. */
#define MANIFEST_ACCEPT OCI_MANIFEST ", " OCI_INDEX ", " DOCKER_MANIFEST ", " DOCKER_MANIFEST_LIST

typedef enum { MANIFEST_REF_CONFIG, MANIFEST_REF_LAYER, MANIFEST_REF_CHILD } ManifestRefRole;

typedef struct {
  const Descriptor *descriptor; /* the manifest's */
  ManifestRefRole role;         /* a child is a manifest, the others are blobs */
  gboolean may_be_absent;       /* foreign: has URLs of its own or may not be distributed */
} ManifestRef;

/* Everything the manifest needs: config, layers, children, in this order; not its subject, which may not
 * exist yet. Free with g_array_unref; the entries point into `self`. */
GArray *manifest_refs (const Manifest *self);

/* The descriptor that the referrers API shows for this manifest, as JSON: artifactType is the manifest's,
 * else its config's media type; all annotations are copied (distribution-spec 1.1 "Listing Referrers"). */
char *manifest_referrer_descriptor (const Manifest *self, const Digest *digest, guint64 size_bytes);
