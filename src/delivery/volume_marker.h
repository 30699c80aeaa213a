/* The marker of a volume that holds a model: `.ai-models-materialized.json` beside it, written last (modelpack.md,
 * "Materialization"). Users of the volume can write it too: it is read as foreign. Pure; a value belongs to one thread. */
#pragma once

#include "base/json.h"

#define VOLUME_MARKER ".ai-models-materialized.json"
#define VOLUME_MARKER_MAX_BYTES 8192u

typedef struct {
  char *version;    /* "v1" */
  char *digest;     /* of the artifact, "sha256:..." */
  char *media_type; /* or NULL */
  char *model_path; /* "model" */
  char *ready_at;   /* RFC 3339; or NULL */
  guint64 size_bytes, n_files;
} VolumeMarker;

/* Caller frees. */
char *volume_marker_format (const VolumeMarker *self, gsize *out_size);
/* INVALID_ARGUMENT for what is none, RESOURCE_EXHAUSTED for one that is too long. */
gboolean volume_marker_parse (gconstpointer text, gsize size, VolumeMarker *out_marker, GError **error);
void volume_marker_clear (VolumeMarker *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (VolumeMarker, volume_marker_clear)
