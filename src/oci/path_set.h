/* The target paths of one artifact's files: each safe, none twice, none in the way of another, also not
 * where a file system folds case or Unicode forms (formats-oci-modelpack.md 6). Used where an artifact is
 * read or built. Not thread-safe. */
#pragma once

#include "base/error.h"

typedef struct PathSet PathSet;

PathSet *path_set_new (void);
void path_set_free (PathSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PathSet, path_set_free)
/* Adds a file, or with `is_folder` a folder that other paths may lie below. INVALID_ARGUMENT (reason
 * PathInvalid) when the path is unsafe, differs from an earlier one in case or Unicode form at most, or a
 * file would have to be a folder too. */
gboolean path_set_add (PathSet *self, const char *path, gboolean is_folder, GError **error);
