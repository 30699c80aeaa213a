/* Brings all files of an artifact into a growing directory: several at once, each verified and synced; archives that others
 * made are unpacked; what does not belong there goes, and the folders are synced. What an earlier run left right is kept.
 * Private to delivery/. */
#pragma once

#include "delivery/artifact.h"
#include "delivery/file_fetch.h"
#include "delivery/growing_dir.h"

/* `dir` must exist. `source->heavy` is not used. Adds to `counts`, also when it fails; `out_n_files` is set on success. */
gboolean artifact_fill (Ctx *ctx, const Artifact *artifact, const FetchSource *source, GrowingDir *dir,
                        FetchCounts *counts, guint *out_n_files, GError **error);
