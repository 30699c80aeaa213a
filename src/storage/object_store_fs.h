/* Object store in a local directory: one file an object, written under `.tmp/`, renamed into place. */
#pragma once

#include "storage/object_store.h"

/* Creates `root` when it is missing and `create` is set, otherwise NOT_FOUND. A directory that is not
 * empty and is not a store gives FAILED_PRECONDITION. Leftovers of killed writers older than a day are
 * removed. */
ObjectStore *object_store_fs_new (const char *root, gboolean create, GError **error);
