/* Unpacks an archive layer that somebody else made (tar, tar+gzip, tar+zstd) into a growing directory. Entries
 * carry their whole path; formats/archive.h says what is refused. */
#pragma once

#include "base/reader.h"
#include "delivery/growing_dir.h"
#include "oci/modelpack.h"
#include "oci/path_set.h"

/* `paths` are those of the artifact so far: two files of one name, or one in the way of another, are refused.
 * Adds each file's path to `written` (a set of char *, owned by it). */
gboolean archive_unpack (Ctx *ctx, Reader *archive, ModelpackCodec codec, guint64 max_total_bytes, GrowingDir *dir,
                         PathSet *paths, GHashTable *written, GError **error);
