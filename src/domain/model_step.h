/* What should happen next to a Model or ClusterModel, from what was observed of it: crds.md "Lifecycle facts",
 * publication-pipeline.md, storage-accounting.md, decisions.md. Pure. Used by the controller, which carries the step out
 * and looks again. */
#pragma once

#include "domain/model_status.h"

typedef enum {
  MODEL_SOURCE_UNSUPPORTED,
  MODEL_SOURCE_REMOTE, /* Hugging Face, Ollama */
  MODEL_SOURCE_UPLOAD,
  MODEL_SOURCE_CATALOG,
} ModelSourceKind;

typedef enum {
  MODEL_WORKER_ABSENT,
  MODEL_WORKER_ACTIVE,      /* its Pod waits, starts or runs */
  MODEL_WORKER_SUCCEEDED,   /* and left a result */
  MODEL_WORKER_FAILED,      /* for good: it said so */
  MODEL_WORKER_INTERRUPTED, /* evicted, killed, its node gone: it can go on */
} ModelWorkerState;

typedef enum {
  MODEL_UPLOAD_NONE,
  MODEL_UPLOAD_OPEN,   /* issued, probing, uploading */
  MODEL_UPLOAD_STAGED, /* all bytes are there */
  MODEL_UPLOAD_OVER,   /* expired, aborted, failed: without bytes */
} ModelUploadState;

typedef enum { MODEL_ARTIFACT_UNCHECKED, MODEL_ARTIFACT_INTACT, MODEL_ARTIFACT_DAMAGED } ModelArtifactState;

typedef enum {
  MODEL_CLEANUP_NONE,      /* nothing is stored that somebody must remove */
  MODEL_CLEANUP_DUE,       /* something is stored, or may be: a worker was started */
  MODEL_CLEANUP_REQUESTED, /* its removal was asked for, and the books say so */
} ModelCleanupState;

typedef struct {
  gboolean is_deleting, has_finalizer;
  ModelSourceKind source;
  gboolean is_settled; /* the status is Ready, or Failed for the object's generation */
  gboolean is_ready;   /* it is Ready, with a digest */
  ModelArtifactState artifact;
  ModelCleanupState cleanup;
  gboolean is_published; /* the cleanup state holds the result of a publication: what the status has to say */
  gboolean shows_result; /* and it says so */
  ModelWorkerState worker;
  gboolean is_admitted;   /* it has what it needs to begin; until then its Pod does nothing */
  gboolean has_leftovers; /* Secrets of a worker or of an upload that nobody needs any more once it is settled */
  ModelUploadState upload;
  gboolean is_pausing;   /* the worker was interrupted, and another is not started yet */
  const char *waits_for; /* what of the user's or the catalogue's is missing, as a reason; NULL: nothing */
  gboolean is_usage_known;
  guint n_active_workers, max_workers;
} ModelView;

typedef enum {
  MODEL_STEP_NONE,
  MODEL_STEP_ADD_FINALIZER,
  MODEL_STEP_FAIL,           /* write why; the source, the upload or the worker tells */
  MODEL_STEP_ISSUE_UPLOAD,   /* make the session, its Secret and Role */
  MODEL_STEP_AWAIT_UPLOAD,   /* say so */
  MODEL_STEP_AWAIT,          /* say what for */
  MODEL_STEP_QUEUE,          /* say so */
  MODEL_STEP_START_WORKER,   /* its Pod */
  MODEL_STEP_ADMIT_WORKER,   /* make what it waits for before it does anything */
  MODEL_STEP_FOLLOW_WORKER,  /* write its progress */
  MODEL_STEP_RESTART_WORKER, /* remove its Pod; the next look starts another from the checkpoint */
  MODEL_STEP_TAKE_RESULT,    /* cleanup state, books, status, in this order; of what is not done yet */
  MODEL_STEP_PUBLISH_AGAIN, /* the artifact is damaged: take it out of the status and begin again, at the same revision */
  MODEL_STEP_CLEAR_UP,      /* remove worker, session and their Secrets */
  MODEL_STEP_RELEASE,       /* ask for the removal of what is stored, release the books */
  MODEL_STEP_DROP_FINALIZER,
} ModelStep;

typedef struct {
  ModelStep step;
  ModelSituation situation; /* what the status is to say, once the step is done */
  const char *reason;       /* of the situation, or NULL: its own */
} ModelDecision;

ModelDecision model_decide (const ModelView *seen);
