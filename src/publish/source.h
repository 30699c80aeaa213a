/* The files of a model as they lie on this machine: a single file, a directory or an archive. The content of
 * an archive tells that it is one; it is unpacked while its files are read (archive_source.h). */
#pragma once

#include "publish/model_source.h"

#define LOCAL_SOURCE_MAX_FILES 100000u
#define LOCAL_SOURCE_MAX_DEPTH 32u

/* Lists what is at `path`. Links to files are followed (a hub's cache is made of them), links to directories
 * are not; other special files are refused. NOT_FOUND, INVALID_ARGUMENT (FileRejected
 * for unsafe names, and what archive_list says), RESOURCE_EXHAUSTED above the limits. */
ModelSource *local_source_open (Ctx *ctx, const char *path, GError **error);
