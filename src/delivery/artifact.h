/* A model artifact found in a repository: the image manifest that a reference leads to, through an index when
 * need be, and the files it names. Immutable once resolved, then thread-safe. */
#pragma once

#include "oci/modelpack.h"
#include "registry/repository.h"

typedef struct {
  GBytes *bytes; /* of the manifest */
  char *media_type;
  Digest digest;
  Manifest *manifest; /* an image manifest */
  Modelpack *model;
  guint64 total_bytes; /* sum of its layers */
} Artifact;

/* NOT_FOUND names what is missing; INVALID_ARGUMENT (ManifestInvalid, PathInvalid, NotAModel) for something
 * that is no model; FAILED_PRECONDITION (Ambiguous) lists the choices of an index. */
Artifact *artifact_resolve (Ctx *ctx, Repository *repository, const char *selector, GError **error);
void artifact_free (Artifact *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Artifact, artifact_free)
