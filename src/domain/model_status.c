#include "domain/model_status.h"

static const char *const phase_names[] = {
  [MODEL_PENDING] = "Pending",       [MODEL_WAIT_FOR_UPLOAD] = "WaitForUpload",
  [MODEL_PUBLISHING] = "Publishing", [MODEL_READY] = "Ready",
  [MODEL_FAILED] = "Failed",         [MODEL_DELETING] = "Deleting",
};

const char *
model_phase_name (ModelPhase phase)
{
  return phase_names[phase];
}

gboolean
model_phase_parse (const char *name, ModelPhase *out_phase)
{
  for (gsize i = 0; i < G_N_ELEMENTS (phase_names); i++)
    if (g_strcmp0 (name, phase_names[i]) == 0)
      {
        *out_phase = (ModelPhase) i;
        return TRUE;
      }
  return FALSE;
}

/* Reasons that depend on the case. */
static const char given_failure[] = "PublicationFailed", given_wait[] = "Pending";
static const char metadata_reason[] = "ModelMetadataPartial";

/* Status and reason of each condition; NULL: as it is. */
static const struct {
  ModelPhase phase;
  const char *progress;
  gboolean keeps_artifact;
  const char *words[MODEL_N_CONDITIONS][2];
} rows[] = {
#define ROW(phase, progress, keeps, artifact, artifact_reason, metadata, why, ready, ready_reason) \
  {                                                                                                \
    phase, progress, keeps,                                                                        \
    {                                                                                              \
      { artifact, artifact_reason }, { metadata, why },                                            \
      {                                                                                            \
        ready, ready_reason                                                                        \
      }                                                                                            \
    }                                                                                              \
  }
#define NO "False"
#define YES "True"
  [MODEL_AT_PREPARING_UPLOAD] = ROW (MODEL_PENDING, "0%", FALSE, NO, "Pending", NULL, NULL, NO, "Pending"),
  [MODEL_AT_WAITING_UPLOAD] = ROW (MODEL_WAIT_FOR_UPLOAD, NULL, FALSE, NO, "WaitingForUserUpload", NULL, NULL, NO,
                                   "Pending"),
  [MODEL_AT_WAITING] = ROW (MODEL_PENDING, NULL, FALSE, NO, given_wait, NULL, NULL, NO, given_wait),
  [MODEL_AT_QUEUED] = ROW (MODEL_PUBLISHING, NULL, FALSE, NO, "Pending", NULL, NULL, NO, "Pending"),
  [MODEL_AT_RUNNING] = ROW (MODEL_PUBLISHING, NULL, FALSE, NO, "Publishing", NULL, NULL, NO, "Publishing"),
  [MODEL_AT_READY] = ROW (MODEL_READY, "100%", TRUE, YES, "ArtifactPublished", YES, metadata_reason, YES, "Ready"),
  [MODEL_AT_FAILED] = ROW (MODEL_FAILED, NULL, FALSE, NO, given_failure, NULL, NULL, NO, "Failed"),
  [MODEL_AT_DELETING] = ROW (MODEL_DELETING, NULL, TRUE, NULL, NULL, NULL, NULL, NO, "Pending"),
  [MODEL_AT_DELETION_STUCK] = ROW (MODEL_DELETING, NULL, TRUE, NULL, NULL, NULL, NULL, NO, "Failed"),
};

ModelStatus
model_status_of (ModelSituation situation, const char *reason, gboolean metadata_is_whole)
{
  static const char *const types[] = { "ArtifactResolved", "MetadataResolved", "Ready" };
  ModelStatus status = {
    .phase = rows[situation].phase,
    .progress = rows[situation].progress,
    .keeps_artifact = rows[situation].keeps_artifact,
  };
  for (guint i = 0; i < MODEL_N_CONDITIONS; i++)
    {
      const char *word = rows[situation].words[i][1];
      if ((word == given_failure || word == given_wait) && reason != NULL)
        word = reason;
      if (word == metadata_reason && metadata_is_whole)
        word = "ModelMetadataCalculated";
      status.conditions[i] = (ModelCondition){ types[i], rows[situation].words[i][0], word };
    }
  return status;
}

char *
model_progress (guint64 done_bytes, guint64 planned_bytes)
{
  if (planned_bytes == 0)
    return NULL;
  double share = (double) done_bytes / (double) planned_bytes;
  return g_strdup_printf ("%u%%", (guint) (CLAMP (share, 0, 0.99) * 100 + 1e-9));
}
