/* Object store in a local directory: one file an object, written under `.tmp/`, renamed into place. */
#pragma once

#include "storage/object_store.h"

/* Creates `root` when it is missing and `create` is set, otherwise NOT_FOUND. A directory that is not
 * empty and is not a store, or a store of a newer format, gives FAILED_PRECONDITION. While the handle lives,
 * the process counts among those who have the store open (OBJECT_LOCK_ALONE); waits for one who has it alone.
 * Writing gives RESOURCE_EXHAUSTED (reason InsufficientStorage) on a full disk, PERMISSION_DENIED (reason
 * ReadOnlyStorage) where nothing may be written, UNAVAILABLE when the directory is gone. Leftovers of killed writers older than a day are
 * removed. */
ObjectStore *object_store_fs_new (const char *root, gboolean create, GError **error);
