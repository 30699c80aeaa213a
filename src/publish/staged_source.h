/* A file that a user uploaded into the staging store as a source: GGUF as it is, or an archive (archive_source.h), told by its
 * content. Read by ranges; no copy is made. */
#pragma once

#include "publish/model_source.h"
#include "storage/object_store.h"

/* `name` is what the user called the file. The store must outlive the source. Blocks. Errors: NOT_FOUND (reason UploadGone) when there
 * is no such object, the store's, and those of archive_source_open. */
ModelSource *staged_source_open (Ctx *ctx, ObjectStore *store, const char *key, const char *name, GError **error);
