#include "delivery/pull.h"

#include "delivery/artifact_fill.h"
#include "delivery/directory_check.h"
#include "delivery/staging.h"

typedef struct {
  const Artifact *artifact;
  const PullOptions *options;
  Staging *staging;
  FetchSource source;
  FetchCounts counts;
  guint n_files;
} Pull;

void
pull_result_clear (PullResult *self)
{
  g_clear_pointer (&self->directory, g_free);
}

static gboolean
fill_staging (Ctx *ctx, Pull *self, GError **error)
{
  GrowingDir *dir = staging_dir (self->staging);
  return staging_begin (self->staging, error) && growing_dir_check_space (dir, self->artifact->total_bytes, error)
         && artifact_fill (ctx, self->artifact, &self->source, dir, &self->counts, &self->n_files, error)
         && staging_publish (self->staging, error);
}

/* TRUE with *out_done when the directory holds the artifact already; FALSE when it holds something else and
 * must be kept. */
static gboolean
judge_target (Ctx *ctx, Pull *self, gboolean *out_done, GError **error)
{
  const char *target = staging_target (self->staging);
  *out_done = FALSE;
  if (staging_target_state (self->staging) != TARGET_FULL)
    return TRUE;
  if (!directory_holds_artifact (ctx, target, self->artifact, self->options->events, out_done, error))
    return FALSE;
  if (*out_done || self->options->force)
    return TRUE;
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "DirectoryInUse", "%s holds something else already", target);
}

static gboolean
run (Ctx *ctx, Pull *self, PullResult *out_result, GError **error)
{
  gboolean was_there = FALSE;
  if (!judge_target (ctx, self, &was_there, error) || (!was_there && !fill_staging (ctx, self, error)))
    return FALSE;
  *out_result = (PullResult){
    .directory = g_strdup (staging_target (self->staging)),
    .was_there = was_there,
    .n_files = was_there ? self->artifact->model->layers->len : self->n_files,
    .logical_bytes = self->artifact->total_bytes,
    .kept_bytes = was_there ? self->artifact->total_bytes : self->counts.kept_bytes,
    .local_bytes = self->counts.local_bytes,
    .moved_bytes = self->counts.moved_bytes,
  };
  return TRUE;
}

gboolean
pull_artifact (Ctx *ctx, Repository *repository, const Artifact *artifact, const PullOptions *options,
               PullResult *out_result, GError **error)
{
  g_autoptr (Staging) staging = staging_new (options->directory, &artifact->digest, error);
  if (staging == NULL)
    return FALSE;
  Pull self = {
    .artifact = artifact,
    .options = options,
    .staging = staging,
    .source = { repository, repository->is_local ? NULL : options->local, options->events, NULL },
  };
  return run (ctx, &self, out_result, error);
}
