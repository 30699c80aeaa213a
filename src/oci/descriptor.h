/* A content descriptor: what a manifest says about one blob or manifest it names (image-spec 1.1,
 * descriptor.md). Used by oci/manifest.h and all that read or write manifests. Immutable once parsed,
 * then thread-safe. */
#pragma once

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"

#define DESCRIPTOR_MAX_SIZE_BYTES ((guint64) G_MAXINT64)

typedef struct {
  char *key, *value;
} Annotation;

typedef struct {
  char *media_type; /* never NULL */
  Digest digest;
  guint64 size_bytes;
  char *artifact_type;     /* or NULL */
  GPtrArray *urls;         /* char *; or NULL */
  GPtrArray *annotations;  /* Annotation, in the document's order; or NULL */
  GBytes *data;            /* decoded inline content, already checked against digest and size; or NULL */
  char *os, *architecture; /* of `platform`; or NULL */
} Descriptor;

Descriptor *descriptor_new (const char *media_type, const Digest *digest, guint64 size_bytes);
void descriptor_free (Descriptor *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Descriptor, descriptor_free)

/* INVALID_ARGUMENT (reason MANIFEST_INVALID, or DIGEST_INVALID for the digest) names the member. */
Descriptor *descriptor_parse (yyjson_val *object, GError **error);
/* A new object of `doc`, its keys sorted, absent members left out. Strings are copied. */
yyjson_mut_val *descriptor_write (yyjson_mut_doc *doc, const Descriptor *self);

/* NULL when absent. */
const char *descriptor_annotation (const Descriptor *self, const char *key);
void descriptor_annotate (Descriptor *self, const char *key, const char *value);

/* A string-to-string object; NULL without an error when `object` is NULL or null. */
gboolean annotations_parse (yyjson_val *object, GPtrArray **out_annotations, GError **error);
/* In the order they are in; NULL `annotations` gives NULL. */
yyjson_mut_val *annotations_write (yyjson_mut_doc *doc, GPtrArray *annotations);
const char *annotations_get (GPtrArray *annotations, const char *key);

/* FALSE with INVALID_ARGUMENT (MANIFEST_INVALID) when a key occurs twice: two readers could then
 * understand one document differently. */
gboolean json_keys_are_unique (yyjson_val *object, GError **error);
