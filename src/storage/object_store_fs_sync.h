/* Makes files of a directory store last. Only for object_store_fs.c. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

/* Syncs the files at `paths` (below `root`), then every directory from them up to `root`. Several at once: a disk
 * takes flushes that come together as one. NOT_FOUND without a file. */
gboolean fs_sync_paths (Ctx *ctx, const char *root, const char *const *paths, guint n_paths, GError **error);
