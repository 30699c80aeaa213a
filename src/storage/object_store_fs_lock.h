/* Locks of a directory store, on bytes of its marker file (open file description locks: they end with their
 * holder, upgrade in one step, and work over NFS). Byte 0: who has the store open; byte 1: commits. For
 * object_store_fs alone. Where a file system has no locks, nobody is ever held back and none can be had.
 * Thread-safe. */
#pragma once

#include "storage/object_store.h"

/* Counts this process among those who have the store open, until `*out_fd` is closed. Waits for somebody who
 * has it alone, then UNAVAILABLE (reason StoreBusy). */
gboolean fs_lock_share (const char *marker_path, int *out_fd, GError **error);
/* OBJECT_LOCK_ALONE; `shared_fd` is the one from fs_lock_share and must outlive the lock. */
ObjectLock *fs_lock_alone (int shared_fd, const char *marker_path, GError **error);
/* OBJECT_LOCK_COMMITS. */
ObjectLock *fs_lock_commits (Ctx *ctx, const char *marker_path, GError **error);
/* Waits until commits are allowed; they stay so until `*out_fd` (may be -1) is closed. */
gboolean fs_lock_enter_commit (Ctx *ctx, const char *marker_path, int *out_fd, GError **error);
