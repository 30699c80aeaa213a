/* What the status of a Model or ClusterModel says in each situation: conditions-reasons-events.md, "Publication". Pure. Used
 * by the controller; the words are the contract with users. */
#pragma once

#include <glib.h>

typedef enum {
  MODEL_PENDING,
  MODEL_WAIT_FOR_UPLOAD,
  MODEL_PUBLISHING,
  MODEL_READY,
  MODEL_FAILED,
  MODEL_DELETING,
} ModelPhase;

/* "WaitForUpload". */
const char *model_phase_name (ModelPhase phase);
/* FALSE for a word that is none. */
gboolean model_phase_parse (const char *name, ModelPhase *out_phase);

/* Where a model stands. */
typedef enum {
  MODEL_AT_PREPARING_UPLOAD, /* an upload whose session is being made */
  MODEL_AT_WAITING_UPLOAD,   /* its session is open */
  MODEL_AT_WAITING,          /* accepted, but something is awaited: the message says what */
  MODEL_AT_QUEUED,           /* for a worker */
  MODEL_AT_RUNNING,          /* a worker */
  MODEL_AT_READY,
  MODEL_AT_FAILED,
  MODEL_AT_DELETING,
  MODEL_AT_DELETION_STUCK, /* cleaning up failed and is tried again */
} ModelSituation;

/* Types of conditions, in the order they are written. */
typedef enum { MODEL_ARTIFACT_RESOLVED, MODEL_METADATA_RESOLVED, MODEL_IS_READY } ModelConditionType;
#define MODEL_N_CONDITIONS 3

typedef struct {
  const char *type;   /* "ArtifactResolved" */
  const char *status; /* "True" or "False"; NULL: the condition stays as it is, or absent */
  const char *reason;
} ModelCondition;

typedef struct {
  ModelPhase phase;
  const char *progress;    /* NULL: what the worker says, or none */
  gboolean keeps_artifact; /* whether artifact and resolved metadata stay in the status */
  ModelCondition conditions[MODEL_N_CONDITIONS];
} ModelStatus;

/* `reason` is used for MODEL_AT_FAILED (ArtifactResolved; NULL: PublicationFailed) and MODEL_AT_WAITING (Ready; NULL:
 * Pending); `metadata_is_whole` for MODEL_AT_READY. Texts are static or the caller's. */
ModelStatus model_status_of (ModelSituation situation, const char *reason, gboolean metadata_is_whole);

/* Whole percents of what is stored, at most 99 while it is under way; NULL when the plan is not known. Caller frees. */
char *model_progress (guint64 done_bytes, guint64 planned_bytes);
