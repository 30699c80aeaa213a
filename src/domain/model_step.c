#include "domain/model_step.h"

static ModelDecision
decision (ModelStep step, ModelSituation situation, const char *reason)
{
  return (ModelDecision){ step, situation, reason };
}

static gboolean
has_more (const ModelView *seen)
{
  return seen->worker != MODEL_WORKER_ABSENT || seen->upload != MODEL_UPLOAD_NONE || seen->has_leftovers;
}

/* First nothing runs that could store more, then what is stored is given up, then the object may go. */
static ModelDecision
decide_deletion (const ModelView *seen)
{
  ModelStep step = MODEL_STEP_DROP_FINALIZER;
  if (!seen->has_finalizer)
    step = MODEL_STEP_NONE;
  else if (has_more (seen))
    step = MODEL_STEP_CLEAR_UP;
  else if (seen->cleanup == MODEL_CLEANUP_DUE)
    step = MODEL_STEP_RELEASE;
  return decision (step, MODEL_AT_DELETING, NULL);
}

/* The result of a publication outlives its worker and whatever somebody does to the status. */
static ModelDecision
decide_published (const ModelView *seen)
{
  if (!seen->has_finalizer)
    return decision (MODEL_STEP_ADD_FINALIZER, MODEL_AT_READY, NULL);
  if (!seen->is_ready || !seen->shows_result)
    return decision (MODEL_STEP_TAKE_RESULT, MODEL_AT_READY, NULL);
  return decision (has_more (seen) ? MODEL_STEP_CLEAR_UP : MODEL_STEP_NONE, MODEL_AT_READY, NULL);
}

/* Its artifact is damaged; or its cleanup state is gone, without which it could never be removed. It is published again,
 * which finds there all bytes that are whole. */
static ModelDecision
decide_lost (const ModelView *seen)
{
  if (seen->source == MODEL_SOURCE_UPLOAD)
    return decision (MODEL_STEP_FAIL, MODEL_AT_FAILED, NULL);
  return decision (MODEL_STEP_PUBLISH_AGAIN, MODEL_AT_QUEUED, NULL);
}

static ModelDecision
decide_failed (const ModelView *seen)
{
  ModelStep step = MODEL_STEP_NONE;
  if (has_more (seen))
    step = MODEL_STEP_CLEAR_UP;
  else if (seen->cleanup == MODEL_CLEANUP_DUE)
    step = MODEL_STEP_RELEASE;
  return decision (step, MODEL_AT_FAILED, NULL);
}

static ModelDecision
decide_start (const ModelView *seen)
{
  if (seen->is_pausing)
    return decision (MODEL_STEP_AWAIT, MODEL_AT_QUEUED, NULL);
  if (seen->waits_for != NULL)
    return decision (MODEL_STEP_AWAIT, MODEL_AT_WAITING, seen->waits_for);
  if (!seen->is_usage_known)
    return decision (MODEL_STEP_AWAIT, MODEL_AT_WAITING, "StorageUsageUnknown");
  if (seen->n_active_workers >= seen->max_workers)
    return decision (MODEL_STEP_QUEUE, MODEL_AT_QUEUED, NULL);
  return decision (MODEL_STEP_START_WORKER, MODEL_AT_RUNNING, NULL);
}

static ModelDecision
decide_upload (const ModelView *seen)
{
  switch (seen->upload)
    {
    case MODEL_UPLOAD_NONE: return decision (MODEL_STEP_ISSUE_UPLOAD, MODEL_AT_PREPARING_UPLOAD, NULL);
    case MODEL_UPLOAD_OPEN: return decision (MODEL_STEP_AWAIT_UPLOAD, MODEL_AT_WAITING_UPLOAD, NULL);
    case MODEL_UPLOAD_STAGED: return decide_start (seen);
    case MODEL_UPLOAD_OVER:
    default: return decision (MODEL_STEP_FAIL, MODEL_AT_FAILED, NULL);
    }
}

static ModelDecision
decide_worker (const ModelView *seen)
{
  static const ModelDecision decisions[] = {
    [MODEL_WORKER_ACTIVE] = { MODEL_STEP_FOLLOW_WORKER, MODEL_AT_RUNNING, NULL },
    [MODEL_WORKER_SUCCEEDED] = { MODEL_STEP_TAKE_RESULT, MODEL_AT_READY, NULL },
    [MODEL_WORKER_FAILED] = { MODEL_STEP_FAIL, MODEL_AT_FAILED, NULL },
    [MODEL_WORKER_INTERRUPTED] = { MODEL_STEP_RESTART_WORKER, MODEL_AT_QUEUED, NULL },
  };
  if (seen->worker == MODEL_WORKER_ACTIVE && !seen->is_admitted)
    return decision (MODEL_STEP_ADMIT_WORKER, MODEL_AT_RUNNING, NULL);
  return decisions[seen->worker];
}

static gboolean
is_under_way (const ModelView *seen)
{
  return seen->worker != MODEL_WORKER_ABSENT || seen->upload != MODEL_UPLOAD_NONE;
}

ModelDecision
model_decide (const ModelView *seen)
{
  if (seen->is_deleting)
    return decide_deletion (seen);
  if (seen->is_published && seen->artifact != MODEL_ARTIFACT_DAMAGED)
    return decide_published (seen);
  /* One that is being worked on is not Ready, whoever says so. */
  if (seen->is_settled && !(seen->is_ready && is_under_way (seen)))
    return seen->is_ready ? decide_lost (seen) : decide_failed (seen);
  if (seen->source == MODEL_SOURCE_UNSUPPORTED)
    return decision (MODEL_STEP_FAIL, MODEL_AT_FAILED, "UnsupportedSource");
  if (!seen->has_finalizer)
    return decision (MODEL_STEP_ADD_FINALIZER,
                     seen->source == MODEL_SOURCE_UPLOAD ? MODEL_AT_PREPARING_UPLOAD : MODEL_AT_QUEUED, NULL);
  if (seen->worker != MODEL_WORKER_ABSENT)
    return decide_worker (seen);
  return seen->source == MODEL_SOURCE_UPLOAD ? decide_upload (seen) : decide_start (seen);
}
