/* A directory in which the files of an artifact grow before it is seen at its place. Every path is looked up anew from the
 * directory's own, so who lost the directory (it was renamed) can do no harm in it. Private to delivery/. Thread-safe. */
#pragma once

#include "base/error.h"

typedef struct GrowingDir GrowingDir;

/* Bytes on disk below a directory; what cannot be looked at counts as nothing. */
guint64 growing_dir_measure (const char *path);
/* Creates nothing. `shown` is what messages call the place of the finished directory. */
GrowingDir *growing_dir_new (const char *path, const char *shown);
void growing_dir_free (GrowingDir *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GrowingDir, growing_dir_free)

const char *growing_dir_path (const GrowingDir *self);
/* RESOURCE_EXHAUSTED (reason InsufficientStorage) when the file system has less than what is missing. */
gboolean growing_dir_check_space (GrowingDir *self, guint64 total_bytes, GError **error);
/* Puts before an error of no space how much is missing and how much is free. */
void growing_dir_tell_space (GrowingDir *self, guint64 total_bytes, GError *full);
/* Opens or creates a file for reading and writing, with the folders above it. Never follows a link. -1: an error. */
int growing_dir_open_file (GrowingDir *self, const char *path, GError **error);
/* Removes whatever is not a regular file among `paths` (a set of char *), or a folder of one: leftovers of a run that was
 * killed, and what others put in the way. */
gboolean growing_dir_keep_only (GrowingDir *self, GHashTable *paths, GError **error);
/* Syncs the folders; files are synced by who wrote them. */
gboolean growing_dir_sync (GrowingDir *self, GError **error);
