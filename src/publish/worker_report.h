/* What a publication worker tells while it works, and keeps for its successor: state and notes of a push in its state
 * Secret (cluster/worker_state.h). Changes are written by a thread of its own, at most every two seconds; that the API
 * server is away holds nobody up. Thread-safe. Private to publish/. */
#pragma once

#include "cluster/worker_state.h"
#include "registry/push_notes.h"
#include "registry/transfer_events.h"

typedef struct WorkerReport WorkerReport;

/* Borrows `client`, copies the texts. Says nothing before worker_report_begin. */
WorkerReport *worker_report_new (KubeClient *client, const char *namespace, const char *secret_name,
                                 gint64 owner_generation);
void worker_report_free (WorkerReport *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (WorkerReport, worker_report_free)

/* Reads what an earlier Pod left, unless that was for another generation of the owner, and begins to write. Blocks. Errors:
 * those of kube_client_get. */
gboolean worker_report_begin (Ctx *ctx, WorkerReport *self, GError **error);
/* What the source's address was found to mean first; NULL: not known. Caller frees. */
char *worker_report_revision (WorkerReport *self);
/* Where pushes are remembered; valid as long as the report. */
const PushNotes *worker_report_notes (WorkerReport *self);

void worker_report_set_revision (WorkerReport *self, const char *revision);
void worker_report_set_plan (WorkerReport *self, guint n_layers, guint64 size_bytes);
void worker_report_set_stage (WorkerReport *self, WorkerStage stage);
/* NULL: none any more. */
void worker_report_set_trouble (WorkerReport *self, const char *trouble);
/* Files begin to be moved, from the first on or once more. Progress never goes back. */
void worker_report_restart_transfer (WorkerReport *self);
void worker_report_transferred (WorkerReport *self, guint64 n_bytes);
guint64 worker_report_done_bytes (WorkerReport *self); /* since the restart */

/* The last word: stops the thread and writes what is left. Blocks for at most some seconds; that it could not be written is
 * logged. */
void worker_report_end (WorkerReport *self, WorkerPhase phase);
