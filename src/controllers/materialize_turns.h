/* Which models are copied now and which next, when fewer Jobs may run than are wanted: domain/materialize_queue.h over the caches
 * and what was started and is not in them yet. And how far a Job is. For the leader. Thread-safe. */
#pragma once

#include "controllers/delivery_caches.h"

typedef struct MaterializeTurns MaterializeTurns;

/* The workload of that key waits for a turn that has come: look at it. On any thread. */
typedef void (*MaterializeWake) (const char *key, gpointer data);

/* Borrows the caches, and listens to them. */
MaterializeTurns *materialize_turns_new (DeliveryCaches *caches, MaterializeWake wake, gpointer data);
void materialize_turns_free (MaterializeTurns *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (MaterializeTurns, materialize_turns_free)

/* Before a leader starts the first Job: what an earlier leader started may not be in the caches yet. Blocks; errors of
 * kube_client_list. */
gboolean materialize_turns_begin (Ctx *term, MaterializeTurns *self, GError **error);
/* A bound claim, in whose Job the workload of `key` is interested, waits for its turn; whether it has come. Who does not ask
 * again within a minute waits no more. */
gboolean materialize_turns_ask (MaterializeTurns *self, const KubeObject *claim, const char *key);
/* Takes the turn: a Job is about to be made. FALSE: it is another's. */
gboolean materialize_turns_take (MaterializeTurns *self, const KubeObject *claim);
/* No Job was made. Other namespaces come first then. */
void materialize_turns_give_back (MaterializeTurns *self, const KubeObject *claim);
/* From here to materialize_turns_open no turn of the claim of that name is taken. FALSE, and nothing is closed: a Job of it is about to
 * be made, or is made and not in the caches yet. */
gboolean materialize_turns_close (MaterializeTurns *self, const char *namespace, const char *claim);
void materialize_turns_open (MaterializeTurns *self, const char *namespace, const char *claim);
/* Now and then: those that were started and have not come into the caches for a minute are asked for. Blocks. */
void materialize_turns_check (Ctx *term, MaterializeTurns *self);

typedef struct {
  guint n_running, n_queued, n_max;
} MaterializeCounts;

MaterializeCounts materialize_turns_count (MaterializeTurns *self);
const DeliveryCaches *materialize_turns_caches (const MaterializeTurns *self);
/* Decoded bytes that a Job has read; FALSE: not known now. Blocks for at most 2 s. */
gboolean materialize_turns_read (Ctx *ctx, MaterializeTurns *self, const KubeObject *job, guint64 *out_read_bytes);
