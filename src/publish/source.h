/* The files of a model as they lie on this machine: a single file, a directory or an archive. The content of
 * an archive tells that it is one. Not thread-safe; readers it gives out are independent of one another. */
#pragma once

#include "base/reader.h"
#include "domain/file_selection.h"

typedef struct LocalSource LocalSource;

#define LOCAL_SOURCE_MAX_FILES 100000u
#define LOCAL_SOURCE_MAX_DEPTH 32u

/* Lists what is at `path`. Links to files are followed (a hub's cache is made of them), links to directories
 * are not; other special files are refused. Nothing is unpacked yet. NOT_FOUND, INVALID_ARGUMENT
 * (FileRejected for unsafe names, and what archive_list says), RESOURCE_EXHAUSTED above the limits. */
LocalSource *local_source_open (Ctx *ctx, const char *path, GError **error);
void local_source_free (LocalSource *self); /* also removes what was unpacked */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LocalSource, local_source_free)
const SourceFile *local_source_files (const LocalSource *self, gsize *out_n_files);

/* Makes the files named in `wanted` (a set of paths) readable: for an archive it unpacks them into a
 * temporary directory, after looking whether there is room. Nothing to do otherwise. */
gboolean local_source_prepare (Ctx *ctx, LocalSource *self, GHashTable *wanted, GError **error);
Reader *local_source_reader (LocalSource *self, const char *path, GError **error);
