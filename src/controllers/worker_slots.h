/* How many workers may run, and whose turn is next: publication-pipeline.md, "Worker", Concurrency. Counts Pods by name: those
 * the informer knows, and those just started that it does not know yet. Thread-safe. */
#pragma once

#include <glib.h>

typedef struct WorkerSlots WorkerSlots;

WorkerSlots *worker_slots_new (guint max_workers);
void worker_slots_free (WorkerSlots *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (WorkerSlots, worker_slots_free)

/* Takes a slot for a Pod that is going to be made; TRUE also when it has one. FALSE: all are taken. */
gboolean worker_slots_claim (WorkerSlots *self, const char *pod);
/* A Pod runs or is going to, or does not (any more). */
void worker_slots_set (WorkerSlots *self, const char *pod, gboolean is_active);
guint worker_slots_active (WorkerSlots *self);

/* Stands at the end of the line, unless it stands in it. */
void worker_slots_wait (WorkerSlots *self, const char *key);
/* Leaves the line, and gives back a turn that was not used. */
void worker_slots_leave (WorkerSlots *self, const char *key);
/* The first in line when there is a slot for it beyond those of the ones that were called before; caller frees. NULL:
 * nobody. */
char *worker_slots_call (WorkerSlots *self);
