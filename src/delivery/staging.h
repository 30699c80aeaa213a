/* Where a pull grows until it is whole: `.<name>.partial-<short digest>` beside the target directory (a long name is
 * hashed), which then takes its place by one rename. Survives kill -9, so that the next pull goes on. A lock beside it keeps
 * two pulls into one directory apart. Not thread-safe. */
#pragma once

#include "base/digest.h"
#include "base/error.h"
#include "delivery/growing_dir.h"

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
GrowingDir *staging_dir (const Staging *self);    /* the growing directory, owned by it */

/* Makes the growing directory, or takes up the one that an earlier pull of the same artifact left. */
gboolean staging_begin (Staging *self, GError **error);
/* Puts the directory, synced, in its place, exchanged with what is there when the target is
 * full, and clears away what was there and what other artifacts left half-done. */
gboolean staging_publish (Staging *self, GError **error);
