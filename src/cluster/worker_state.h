/* What a publication worker leaves where it survives its Pod: how far it is, for the controller, and what it needs to go on
 * in another Pod. Lies in the Secret ai-model-publish-state-<uid>, which the controller makes and the worker alone writes.
 * Values belong to one thread. */
#pragma once

#include "kube/kube_client.h"

#define WORKER_STATE_MAX_RESUME_BYTES (256u * 1024)

typedef enum { WORKER_IDLE, WORKER_RUNNING, WORKER_COMPLETED, WORKER_FAILED } WorkerPhase;
typedef enum {
  WORKER_STAGE_IDLE,
  WORKER_STAGE_STARTING, /* asks the source, chooses and checks files */
  WORKER_STAGE_UPLOADING,
  WORKER_STAGE_RESUMED,   /* uploads what an earlier Pod began */
  WORKER_STAGE_SEALING,   /* writes the manifest and reads it back */
  WORKER_STAGE_COMMITTED, /* it is there, under its tag */
} WorkerStage;

/* Numbers are 0 and texts NULL while they are not known. */
typedef struct {
  WorkerPhase phase;
  WorkerStage stage;
  guint64 planned_layers, planned_size_bytes, uploaded_size_bytes;
  gint64 owner_generation;
  char *resolved_revision; /* what the source's address meant when it was first asked: it stays that */
  char *trouble;           /* what is being tried again, for people; or NULL */
} WorkerState;

void worker_state_clear (WorkerState *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (WorkerState, worker_state_clear)

const char *worker_phase_name (WorkerPhase phase);
const char *worker_stage_name (WorkerStage stage);

/* From the Secret. Idle, and no error, where nothing was written yet. `out_resume` (may be NULL; caller frees) is what the
 * worker left for itself, NULL when nothing. Pure. INVALID_ARGUMENT for a Secret whose state nobody can read. */
gboolean worker_state_read (const KubeObject *secret, WorkerState *out_state, char **out_resume, GError **error);

/* Writes state and `resume` (NULL: none) into the Secret; members of state.json that nobody here knows survive.
 * `seen` (NULL: unknown) is the Secret as it was last, which spares a request. Against others who write it at the same time
 * it tries again a few times. The Secret as stored; errors are those of kube_client_update, NOT_FOUND when it is gone. */
KubeObject *worker_state_store (Ctx *ctx, KubeClient *client, const char *namespace, const char *name,
                                const KubeObject *seen, const WorkerState *state, const char *resume, GError **error);
