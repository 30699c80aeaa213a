/* Where a pull grows until it is whole: `.<name>.partial-<short digest>` beside the target directory (a long name is
 * hashed), which then takes its place by one rename. Survives kill -9, so that the next pull goes on. A lock beside it keeps
 * two pulls into one directory apart. Not thread-safe, but for staging_open_file. */
#pragma once

#include "base/digest.h"
#include "base/error.h"

typedef struct Staging Staging;

typedef enum {
  TARGET_ABSENT,
  TARGET_EMPTY,
  TARGET_FULL, /* a directory with something in it */
} TargetState;

/* Takes the lock of `directory`, whose parent must exist; nothing is created yet. FAILED_PRECONDITION when
 * another pull holds it (reason DirectoryBusy), or when it is a file or the current directory. */
Staging *staging_new (const char *directory, const Digest *artifact, GError **error);
/* Releases the lock; what grew so far stays. */
void staging_free (Staging *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Staging, staging_free)

TargetState staging_target_state (const Staging *self);
const char *staging_target (const Staging *self); /* absolute */
const char *staging_path (const Staging *self);   /* the growing directory */

/* Makes the growing directory, or takes up the one that an earlier pull of the same artifact left. */
gboolean staging_begin (Staging *self, GError **error);
/* RESOURCE_EXHAUSTED (reason InsufficientStorage) when the file system has less than what is missing. */
gboolean staging_check_space (Staging *self, guint64 total_bytes, GError **error);
/* Opens or creates a file for reading and writing, with the folders above it. Never follows a link. */
int staging_open_file (Staging *self, const char *path, GError **error);
/* Forgets a file. Missing is fine. */
gboolean staging_remove_file (Staging *self, const char *path, GError **error);
/* Removes whatever is not among `paths` (a set of char *): leftovers of a run that was killed. */
gboolean staging_keep_only (Staging *self, GHashTable *paths, GError **error);
/* Syncs the folders, then puts the directory in its place, exchanged with what is there when the target is
 * full, and clears away what was there and what other artifacts left half-done. */
gboolean staging_publish (Staging *self, GError **error);
