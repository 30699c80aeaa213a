#include "delivery/materialize.h"

#include <string.h>

#include "base/log.h"
#include "delivery/artifact_fill.h"
#include "delivery/volume_model.h"
#include "domain/materialize_failure.h"

#define LOG_EVERY_US (10 * G_USEC_PER_SEC)

typedef struct {
  const MaterializeOrder *order;
  Ctx *ctx;
  TransferEvents events;
  FetchCounts counts;
  gboolean has_filled;  /* once */
  gboolean knows_space; /* the last failure says how much is missing */
  MaterializeResult result;
  /* Of the progress; under the lock. */
  GMutex lock;
  const char *doing;
  guint64 total_bytes, done_bytes, moved_bytes;
  guint n_files, n_done_files;
  gint64 began_us, logged_us;
  guint64 began_bytes;     /* that were right without being fetched */
  gboolean has_moved;      /* since the repository was opened */
  guint n_failures;        /* since the last progress */
  gint64 failing_since_us; /* the first of them */
} Materialize;

/* Progress */

static void
log_progress_locked (Materialize *self, gint64 now_us)
{
  guint64 fetched = self->done_bytes - MIN (self->began_bytes, self->done_bytes);
  double seconds = (double) MAX (now_us - self->began_us, 1) / G_USEC_PER_SEC;
  guint64 rate = (guint64) ((double) fetched / seconds);
  guint64 left = self->total_bytes - MIN (self->done_bytes, self->total_bytes);
  self->logged_us = now_us;
  am_log_info (self->ctx, self->doing, "done_bytes", AM_U64 (self->done_bytes), "total_bytes",
               AM_U64 (self->total_bytes), "moved_bytes", AM_U64 (self->moved_bytes), "files_done",
               AM_U64 (self->n_done_files), "files", AM_U64 (self->n_files), "bytes_per_second", AM_U64 (rate),
               "eta_seconds", rate > 0 ? AM_U64 (left / rate) : NULL, NULL);
}

static void
on_plan (guint64 total_bytes, guint n_files, gpointer data)
{
  Materialize *self = data;
  g_mutex_lock (&self->lock);
  self->total_bytes = total_bytes;
  self->n_files = n_files;
  self->done_bytes = self->began_bytes = 0;
  self->n_done_files = 0;
  self->began_us = self->logged_us = g_get_monotonic_time ();
  g_mutex_unlock (&self->lock);
}

static void
on_file_done (const char *path, gpointer data)
{
  Materialize *self = data;
  g_mutex_lock (&self->lock);
  self->n_done_files++;
  g_mutex_unlock (&self->lock);
  am_log_debug (self->ctx, "a file is whole", "file", path, NULL);
}

static void
on_bytes (guint64 done_bytes, guint64 moved_bytes, gpointer data)
{
  Materialize *self = data;
  gint64 now_us = g_get_monotonic_time ();
  g_mutex_lock (&self->lock);
  self->done_bytes += done_bytes;
  self->moved_bytes += moved_bytes;
  if (moved_bytes == 0)
    self->began_bytes += done_bytes;
  else
    {
      self->has_moved = TRUE;
      self->n_failures = 0;
    }
  if (now_us - self->logged_us >= LOG_EVERY_US)
    log_progress_locked (self, now_us);
  g_mutex_unlock (&self->lock);
}

/* One attempt */

static gboolean
look (Ctx *ctx, Materialize *self, const Artifact *artifact, VolumeState *out_state, gboolean *out_is_marked,
      GError **error)
{
  self->doing = "verifying what is on the volume";
  return volume_model_look (ctx, self->order->volume, artifact, &self->events, out_state, out_is_marked, error);
}

static gboolean
fill (Ctx *ctx, Materialize *self, const FetchSource *source, const Artifact *artifact, VolumeWork *work,
      gboolean takes_back, GError **error)
{
  const char *volume = self->order->volume;
  FetchCounts counts = { 0 };
  if (takes_back)
    am_log_warning (ctx, "what the volume shows is not whole, or is another model: it is taken back and mended",
                    NULL);
  if (!volume_model_begin (volume, work, takes_back, error))
    return FALSE;
  g_autofree char *path = volume_model_growing_path (work);
  g_autoptr (GrowingDir) dir = growing_dir_new (path, "the volume");
  if (!growing_dir_check_space (dir, artifact->total_bytes, error))
    {
      self->knows_space = TRUE;
      return FALSE;
    }
  self->doing = "materializing";
  gboolean filled = artifact_fill (ctx, artifact, source, dir, &counts, &self->result.n_files, error);
  if (!self->has_filled)
    self->result.kept_bytes = counts.kept_bytes;
  self->has_filled = TRUE;
  return filled && volume_model_publish (volume, work, error);
}

/* With the work in hand: nobody else that lives changes the volume. */
static gboolean
work_on (Ctx *ctx, Materialize *self, const FetchSource *source, const Artifact *artifact, VolumeWork *work,
         VolumeState state, GError **error)
{
  if (state == VOLUME_WHOLE)
    self->result.n_files = artifact->model->layers->len;
  else if (!fill (ctx, self, source, artifact, work, state == VOLUME_OTHER, error))
    return FALSE;
  if (!volume_model_mark (self->order->volume, work, artifact, self->result.n_files, error))
    return FALSE;
  volume_work_finish (work);
  return TRUE;
}

/* Takes the work and looks again: another may have done it before. `*out_is_lost`: it was taken over by somebody. */
static gboolean
take_and_work (Ctx *ctx, Materialize *self, const FetchSource *source, const Artifact *artifact, VolumeState state,
               gboolean *out_is_lost, GError **error)
{
  gboolean waited = FALSE, is_marked = FALSE;
  g_autoptr (VolumeWork) work = volume_work_take (ctx, self->order->volume, &artifact->digest, self->order->times,
                                                  self->order->patience_ms, &waited, error);
  if (work == NULL)
    return FALSE;
  if (waited)
    self->n_failures = 0; /* whoever we waited for made progress */
  Ctx *own = volume_work_ctx (work);
  gboolean may_be_done = waited || state != VOLUME_WHOLE;
  gboolean done = (!may_be_done || look (own, self, artifact, &state, &is_marked, error))
                  && work_on (own, self, source, artifact, work, state, error);
  *out_is_lost = !done && volume_work_is_lost (work);
  return done;
}

static gboolean
attempt (Ctx *ctx, Materialize *self, gboolean *out_is_lost, GError **error)
{
  VolumeState state;
  gboolean is_marked = FALSE;
  self->has_moved = self->knows_space = FALSE;
  g_autoptr (Repository) repository = self->order->open (self->order->open_data, error);
  g_autoptr (Artifact) artifact = repository != NULL ? artifact_resolve (ctx, repository, self->order->digest, error)
                                                     : NULL;
  if (artifact == NULL)
    return FALSE;
  self->result.logical_bytes = artifact->total_bytes;
  if (self->order->expected_bytes > 0 && self->order->expected_bytes != artifact->total_bytes)
    am_log_warning (ctx, "the model has another size than expected", "expected_bytes",
                    AM_U64 (self->order->expected_bytes), "total_bytes", AM_U64 (artifact->total_bytes), NULL);
  if (!look (ctx, self, artifact, &state, &is_marked, error))
    return FALSE;
  if (state == VOLUME_WHOLE)
    {
      self->result.was_there = !self->has_filled;
      self->result.n_files = artifact->model->layers->len;
      if (is_marked && !volume_work_is_open (self->order->volume))
        return TRUE;
    }
  const FetchSource source = { .repository = repository, .events = &self->events };
  return take_and_work (ctx, self, &source, artifact, state, out_is_lost, error);
}

/* Attempts until one succeeds */

/* A full volume: by how much. */
static void
tell_space (Materialize *self, GError *failure)
{
  guint64 total_bytes = MAX (self->result.logical_bytes, self->order->expected_bytes);
  if (!am_error_has_reason (failure, "InsufficientStorage") || self->knows_space)
    return;
  g_autoptr (GrowingDir) dir = growing_dir_new (self->order->volume, "the volume");
  growing_dir_tell_space (dir, total_bytes, failure);
}

/* A grant that ended may have been renewed: once more with what is there now, when the last one was good for something. */
static gboolean
may_have_new_grant (Materialize *self, const GError *failure)
{
  return am_error_is (failure, AM_ERROR_UNAUTHENTICATED) && self->has_moved;
}

/* FALSE when there is to be no other attempt, with the reason why. */
static gboolean
pause_after (Ctx *ctx, Materialize *self, const GError *failure, GError **error)
{
  MaterializeVerdict verdict = materialize_judge (failure);
  gint64 now_us = g_get_monotonic_time ();
  if (self->n_failures == 0)
    self->failing_since_us = now_us;
  gint64 still_us = now_us - self->failing_since_us;
  if (!verdict.goes_on || still_us >= self->order->patience_ms * 1000)
    {
      g_propagate_error (error, g_error_copy (failure));
      if (verdict.goes_on)
        g_prefix_error (error, "no progress for %" G_GINT64_FORMAT " s: ", still_us / G_USEC_PER_SEC);
      return FALSE;
    }
  gint64 pause_ms = materialize_pause_ms (++self->n_failures, am_error_retry_after_ms (failure));
  am_log_warning (ctx, "interrupted, going on after a pause", "reason", verdict.reason, "err", failure->message,
                  "delay_ms", AM_U64 ((guint64) pause_ms), NULL);
  return ctx_sleep_ms (ctx, pause_ms, error);
}

static gboolean
persist (Ctx *ctx, Materialize *self, GError **error)
{
  for (;;)
    {
      gboolean is_lost = FALSE;
      g_autoptr (GError) failure = NULL;
      if (attempt (ctx, self, &is_lost, &failure))
        return TRUE;
      tell_space (self, failure);
      if (!ctx_check (ctx, error))
        return FALSE;
      if (is_lost)
        am_log_warning (ctx, "another process took over the work on this volume", "err", failure->message, NULL);
      else if (!may_have_new_grant (self, failure) && !pause_after (ctx, self, failure, error))
        return FALSE;
    }
}

gboolean
materialize (Ctx *ctx, const MaterializeOrder *order, MaterializeResult *out_result, GError **error)
{
  Materialize self = { .order = order, .ctx = ctx };
  self.events = (TransferEvents){ .plan = on_plan, .file_done = on_file_done, .bytes = on_bytes, .data = &self };
  g_mutex_init (&self.lock);
  gboolean done = persist (ctx, &self, error);
  self.result.moved_bytes = self.moved_bytes;
  if (done)
    *out_result = self.result;
  g_mutex_clear (&self.lock);
  return done;
}
