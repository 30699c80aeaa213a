/* The files of a model as they lie on this machine: a single file, a directory or an archive. The content of
 * an archive tells that it is one; it is unpacked into a temporary directory when its files are asked for. */
#pragma once

#include "publish/model_source.h"

#define LOCAL_SOURCE_MAX_FILES 100000u
#define LOCAL_SOURCE_MAX_DEPTH 32u

/* Lists what is at `path`. Links to files are followed (a hub's cache is made of them), links to directories
 * are not; other special files are refused. Nothing is unpacked yet. NOT_FOUND, INVALID_ARGUMENT
 * (FileRejected for unsafe names, and what archive_list says), RESOURCE_EXHAUSTED above the limits; when unpacking,
 * RESOURCE_EXHAUSTED (InsufficientStorage) where there is no room. */
ModelSource *local_source_open (Ctx *ctx, const char *path, GError **error);
