/* Commits that go on beside the work that makes the next object: a few at once, each on a thread of its own. What of
 * them is sure is known in order: an object counts once all that were added before it are stored too. Private to
 * storage/. Not thread-safe; used by one upload. */
#pragma once

#include "storage/object_store.h"

typedef struct CommitWindow CommitWindow;
/* At most `max_under_way` at once, and of these at most `max_bytes` in memory. */
CommitWindow *commit_window_new (guint max_under_way, gsize max_bytes);
/* Drops what is under way: it may come to be or not. */
void commit_window_free (CommitWindow *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CommitWindow, commit_window_free)
/* Takes the writer over, of an object of `size` bytes, waits until there is room, and commits it to `key`. Fails with the error of the first commit that
 * failed, and from then on always; or with that of `ctx`, which bounds the waiting alone. */
gboolean commit_window_add (Ctx *ctx, CommitWindow *self, ObjectWriter *writer, gsize size, const char *key,
                            ObjectCommitFlags flags, GError **error);
/* How many, counted from the first, are stored. */
guint64 commit_window_n_stored (CommitWindow *self);
/* Waits until all are stored. Errors as those of add. */
gboolean commit_window_drain (Ctx *ctx, CommitWindow *self, GError **error);
