/* Whether copies get on: a Job that runs and moves nothing (its namespace may not reach the registry) shall not keep others
 * waiting for its turn. By what the registry counted of each, as often as it was asked. Pure; not thread-safe. Used by
 * controllers/materialize_turns.c. */
#pragma once

#include <glib.h>

typedef struct CopyPace CopyPace;

CopyPace *copy_pace_new (void);
void copy_pace_free (CopyPace *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CopyPace, copy_pace_free)

/* The copy of that id had moved so many bytes at `now_us`, of any clock that does not jump. */
void copy_pace_note (CopyPace *self, const char *id, guint64 n_bytes, gint64 now_us);
/* For how long, in seconds, it is known to have moved nothing: between the first and the last time that it was asked for and the
 * number was the same. 0 for one that is not known: a registry that does not answer makes nobody slow. */
gint64 copy_pace_still_s (const CopyPace *self, const char *id);
/* Forgets all that were not asked for since `then_us`. */
void copy_pace_forget (CopyPace *self, gint64 then_us);
