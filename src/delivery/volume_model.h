/* What a volume shows of the model that it is for: the directory `model`, which Pods mount, and the marker beside it. The model comes
 * and goes by renames to names that are not there, which every file system does at once; none is over a directory. Private to
 * delivery/. Blocks. */
#pragma once

#include "delivery/artifact.h"
#include "delivery/volume_work.h"
#include "registry/transfer_events.h"

#define VOLUME_MODEL_FOLDER "model"

typedef enum {
  VOLUME_EMPTY, /* no model, or an empty directory */
  VOLUME_WHOLE, /* exactly this artifact: names, sizes, digests */
  VOLUME_OTHER, /* something else, or a damaged one */
} VolumeState;

/* Reads every byte of what has the right names and sizes. An artifact with archive layers is known by its marker alone.
 * `*out_is_marked`: the marker names this artifact. */
gboolean volume_model_look (Ctx *ctx, const char *volume, const Artifact *artifact, const TransferEvents *events,
                            VolumeState *out_state, gboolean *out_is_marked, GError **error);

/* Where files grow: made by volume_model_begin. Caller frees. */
char *volume_model_growing_path (const VolumeWork *work);
/* Makes the growing directory; with `takes_back` the model that is shown becomes it, and is no longer shown. */
gboolean volume_model_begin (const char *volume, const VolumeWork *work, gboolean takes_back, GError **error);
/* Shows the growing directory, whose content is synced, as the model. ABORTED (reason VolumeBusy) when another model is shown. */
gboolean volume_model_publish (const char *volume, const VolumeWork *work, GError **error);
/* The last step. */
gboolean volume_model_mark (const char *volume, const VolumeWork *work, const Artifact *artifact, guint n_files,
                            GError **error);
