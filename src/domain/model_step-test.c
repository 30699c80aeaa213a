#include "domain/model_step.h"

#include <string.h>

/* A remote source that nothing hinders, seen for the first time but for its finalizer. */
#define FRESH                                                                                          \
  .has_finalizer = TRUE, .source = MODEL_SOURCE_REMOTE, .is_usage_known = TRUE, .n_active_workers = 0, \
  .max_workers = 4
#define UPLOAD FRESH, .source = MODEL_SOURCE_UPLOAD
#define STORED                                                                                                  \
  FRESH, .is_settled = TRUE, .is_ready = TRUE, .cleanup = MODEL_CLEANUP_DUE, .artifact = MODEL_ARTIFACT_INTACT, \
         .is_published = TRUE, .shows_result = TRUE
#define BROKEN FRESH, .is_settled = TRUE
#define LEAVING FRESH, .is_deleting = TRUE

#pragma GCC diagnostic ignored "-Woverride-init"

static const struct {
  const char *what;
  ModelView seen;
  ModelStep step;
  ModelSituation situation;
  const char *reason;
} rows[] = {
  { "new", { FRESH, .has_finalizer = FALSE }, MODEL_STEP_ADD_FINALIZER, MODEL_AT_QUEUED, NULL },
  { "new upload", { UPLOAD, .has_finalizer = FALSE }, MODEL_STEP_ADD_FINALIZER, MODEL_AT_PREPARING_UPLOAD, NULL },
  { "no source of ours, nothing to keep",
    { .source = MODEL_SOURCE_UNSUPPORTED },
    MODEL_STEP_FAIL,
    MODEL_AT_FAILED,
    "UnsupportedSource" },
  { "free slot", { FRESH }, MODEL_STEP_START_WORKER, MODEL_AT_RUNNING, NULL },
  { "last free slot", { FRESH, .n_active_workers = 3 }, MODEL_STEP_START_WORKER, MODEL_AT_RUNNING, NULL },
  { "no free slot", { FRESH, .n_active_workers = 4 }, MODEL_STEP_QUEUE, MODEL_AT_QUEUED, NULL },
  { "more than there are slots", { FRESH, .n_active_workers = 9 }, MODEL_STEP_QUEUE, MODEL_AT_QUEUED, NULL },
  { "usage unknown", { FRESH, .is_usage_known = FALSE }, MODEL_STEP_AWAIT, MODEL_AT_WAITING, "StorageUsageUnknown" },
  { "a Secret is missing", { FRESH, .waits_for = "Pending" }, MODEL_STEP_AWAIT, MODEL_AT_WAITING, "Pending" },
  { "catalogue not ready",
    { FRESH, .source = MODEL_SOURCE_CATALOG, .waits_for = "CatalogSourceNotReady" },
    MODEL_STEP_AWAIT,
    MODEL_AT_WAITING,
    "CatalogSourceNotReady" },
  { "catalogue", { FRESH, .source = MODEL_SOURCE_CATALOG }, MODEL_STEP_START_WORKER, MODEL_AT_RUNNING, NULL },

  { "running",
    { FRESH, .worker = MODEL_WORKER_ACTIVE, .is_admitted = TRUE },
    MODEL_STEP_FOLLOW_WORKER,
    MODEL_AT_RUNNING,
    NULL },
  { "its Pod is there", { FRESH, .worker = MODEL_WORKER_ACTIVE }, MODEL_STEP_ADMIT_WORKER, MODEL_AT_RUNNING, NULL },
  { "an upload's Pod is there",
    { UPLOAD, .upload = MODEL_UPLOAD_STAGED, .worker = MODEL_WORKER_ACTIVE },
    MODEL_STEP_ADMIT_WORKER,
    MODEL_AT_RUNNING,
    NULL },
  { "running, and now usage is unknown",
    { FRESH, .worker = MODEL_WORKER_ACTIVE, .is_admitted = TRUE, .is_usage_known = FALSE },
    MODEL_STEP_FOLLOW_WORKER,
    MODEL_AT_RUNNING,
    NULL },
  { "running, and now its Secret is gone",
    { FRESH, .worker = MODEL_WORKER_ACTIVE, .is_admitted = TRUE, .waits_for = "Pending" },
    MODEL_STEP_FOLLOW_WORKER,
    MODEL_AT_RUNNING,
    NULL },
  { "succeeded", { FRESH, .worker = MODEL_WORKER_SUCCEEDED }, MODEL_STEP_TAKE_RESULT, MODEL_AT_READY, NULL },
  { "succeeded, result half written down",
    { FRESH, .worker = MODEL_WORKER_SUCCEEDED, .cleanup = MODEL_CLEANUP_DUE },
    MODEL_STEP_TAKE_RESULT,
    MODEL_AT_READY,
    NULL },
  { "failed", { FRESH, .worker = MODEL_WORKER_FAILED }, MODEL_STEP_FAIL, MODEL_AT_FAILED, NULL },
  { "interrupted", { FRESH, .worker = MODEL_WORKER_INTERRUPTED }, MODEL_STEP_RESTART_WORKER, MODEL_AT_QUEUED, NULL },

  { "upload without session", { UPLOAD }, MODEL_STEP_ISSUE_UPLOAD, MODEL_AT_PREPARING_UPLOAD, NULL },
  { "upload open", { UPLOAD, .upload = MODEL_UPLOAD_OPEN }, MODEL_STEP_AWAIT_UPLOAD, MODEL_AT_WAITING_UPLOAD, NULL },
  { "upload open while all slots are taken",
    { UPLOAD, .upload = MODEL_UPLOAD_OPEN, .n_active_workers = 4 },
    MODEL_STEP_AWAIT_UPLOAD,
    MODEL_AT_WAITING_UPLOAD,
    NULL },
  { "upload staged", { UPLOAD, .upload = MODEL_UPLOAD_STAGED }, MODEL_STEP_START_WORKER, MODEL_AT_RUNNING, NULL },
  { "upload staged, no slot",
    { UPLOAD, .upload = MODEL_UPLOAD_STAGED, .n_active_workers = 4 },
    MODEL_STEP_QUEUE,
    MODEL_AT_QUEUED,
    NULL },
  { "upload expired", { UPLOAD, .upload = MODEL_UPLOAD_OVER }, MODEL_STEP_FAIL, MODEL_AT_FAILED, NULL },
  { "upload being published",
    { UPLOAD, .upload = MODEL_UPLOAD_STAGED, .worker = MODEL_WORKER_ACTIVE, .is_admitted = TRUE },
    MODEL_STEP_FOLLOW_WORKER,
    MODEL_AT_RUNNING,
    NULL },

  { "ready", { STORED }, MODEL_STEP_NONE, MODEL_AT_READY, NULL },
  { "ready, not checked yet",
    { STORED, .artifact = MODEL_ARTIFACT_UNCHECKED },
    MODEL_STEP_NONE,
    MODEL_AT_READY,
    NULL },
  { "ready, its worker is still there",
    { STORED, .worker = MODEL_WORKER_SUCCEEDED },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_READY,
    NULL },
  { "ready, its Secrets are still there",
    { STORED, .has_leftovers = TRUE },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_READY,
    NULL },
  { "ready, its session is still there",
    { STORED, .source = MODEL_SOURCE_UPLOAD, .upload = MODEL_UPLOAD_STAGED },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_READY,
    NULL },
  { "ready and damaged",
    { STORED, .artifact = MODEL_ARTIFACT_DAMAGED },
    MODEL_STEP_PUBLISH_AGAIN,
    MODEL_AT_QUEUED,
    NULL },
  { "ready, cleanup state lost",
    { STORED, .cleanup = MODEL_CLEANUP_NONE, .is_published = FALSE },
    MODEL_STEP_PUBLISH_AGAIN,
    MODEL_AT_QUEUED,
    NULL },
  { "uploaded and damaged",
    { STORED, .source = MODEL_SOURCE_UPLOAD, .artifact = MODEL_ARTIFACT_DAMAGED },
    MODEL_STEP_FAIL,
    MODEL_AT_FAILED,
    NULL },
  { "ready, finalizer removed by hand: nothing is published anew",
    { STORED, .has_finalizer = FALSE },
    MODEL_STEP_ADD_FINALIZER,
    MODEL_AT_READY,
    NULL },

  { "published, the status is not written yet",
    { STORED, .is_settled = FALSE, .is_ready = FALSE, .worker = MODEL_WORKER_SUCCEEDED },
    MODEL_STEP_TAKE_RESULT,
    MODEL_AT_READY,
    NULL },
  { "published, the status is not written yet and the worker is gone",
    { STORED, .is_settled = FALSE, .is_ready = FALSE },
    MODEL_STEP_TAKE_RESULT,
    MODEL_AT_READY,
    NULL },
  { "published, and somebody made the status Failed",
    { STORED, .is_ready = FALSE },
    MODEL_STEP_TAKE_RESULT,
    MODEL_AT_READY,
    NULL },
  { "published, and somebody wrote another digest",
    { STORED, .shows_result = FALSE },
    MODEL_STEP_TAKE_RESULT,
    MODEL_AT_READY,
    NULL },
  { "damaged, published again and running",
    { STORED, .is_settled = FALSE, .is_ready = FALSE, .artifact = MODEL_ARTIFACT_DAMAGED,
      .worker = MODEL_WORKER_ACTIVE, .is_admitted = TRUE },
    MODEL_STEP_FOLLOW_WORKER,
    MODEL_AT_RUNNING,
    NULL },
  { "damaged, published again with success",
    { STORED, .is_settled = FALSE, .is_ready = FALSE, .artifact = MODEL_ARTIFACT_DAMAGED,
      .worker = MODEL_WORKER_SUCCEEDED },
    MODEL_STEP_TAKE_RESULT,
    MODEL_AT_READY,
    NULL },
  { "damaged, published again and failed",
    { BROKEN, .cleanup = MODEL_CLEANUP_DUE, .is_published = TRUE, .artifact = MODEL_ARTIFACT_DAMAGED },
    MODEL_STEP_RELEASE,
    MODEL_AT_FAILED,
    NULL },
  { "running, and somebody made the status Ready",
    { FRESH, .is_settled = TRUE, .is_ready = TRUE, .cleanup = MODEL_CLEANUP_DUE, .worker = MODEL_WORKER_ACTIVE,
      .is_admitted = TRUE },
    MODEL_STEP_FOLLOW_WORKER,
    MODEL_AT_RUNNING,
    NULL },
  { "awaits an upload, and somebody made the status Ready",
    { UPLOAD, .is_settled = TRUE, .is_ready = TRUE, .upload = MODEL_UPLOAD_OPEN },
    MODEL_STEP_AWAIT_UPLOAD,
    MODEL_AT_WAITING_UPLOAD,
    NULL },
  { "after an interruption",
    { FRESH, .is_pausing = TRUE, .cleanup = MODEL_CLEANUP_DUE },
    MODEL_STEP_AWAIT,
    MODEL_AT_QUEUED,
    NULL },

  { "failed for good", { BROKEN }, MODEL_STEP_NONE, MODEL_AT_FAILED, NULL },
  { "failed, worker still there",
    { BROKEN, .worker = MODEL_WORKER_FAILED },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_FAILED,
    NULL },
  { "failed, session still there",
    { BROKEN, .source = MODEL_SOURCE_UPLOAD, .upload = MODEL_UPLOAD_OVER },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_FAILED,
    NULL },
  { "failed, and something is stored",
    { BROKEN, .cleanup = MODEL_CLEANUP_DUE },
    MODEL_STEP_RELEASE,
    MODEL_AT_FAILED,
    NULL },
  { "failed, removal asked for",
    { BROKEN, .cleanup = MODEL_CLEANUP_REQUESTED },
    MODEL_STEP_NONE,
    MODEL_AT_FAILED,
    NULL },

  { "deleted, nothing there", { LEAVING }, MODEL_STEP_DROP_FINALIZER, MODEL_AT_DELETING, NULL },
  { "deleted, not ours", { LEAVING, .has_finalizer = FALSE }, MODEL_STEP_NONE, MODEL_AT_DELETING, NULL },
  { "deleted while it runs",
    { LEAVING, .worker = MODEL_WORKER_ACTIVE, .is_admitted = TRUE },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_DELETING,
    NULL },
  { "deleted while it is uploaded",
    { LEAVING, .source = MODEL_SOURCE_UPLOAD, .upload = MODEL_UPLOAD_OPEN },
    MODEL_STEP_CLEAR_UP,
    MODEL_AT_DELETING,
    NULL },
  { "deleted, Secrets left", { LEAVING, .has_leftovers = TRUE }, MODEL_STEP_CLEAR_UP, MODEL_AT_DELETING, NULL },
  { "deleted when ready", { STORED, .is_deleting = TRUE }, MODEL_STEP_RELEASE, MODEL_AT_DELETING, NULL },
  { "deleted, removal asked for",
    { STORED, .is_deleting = TRUE, .cleanup = MODEL_CLEANUP_REQUESTED },
    MODEL_STEP_DROP_FINALIZER,
    MODEL_AT_DELETING,
    NULL },
  { "deleted with an unsupported source",
    { LEAVING, .source = MODEL_SOURCE_UNSUPPORTED },
    MODEL_STEP_DROP_FINALIZER,
    MODEL_AT_DELETING,
    NULL },
};

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      ModelDecision got = model_decide (&rows[i].seen);
      g_test_message ("%s", rows[i].what);
      g_assert_cmpint (got.step, ==, rows[i].step);
      g_assert_cmpint (got.situation, ==, rows[i].situation);
      g_assert_cmpstr (got.reason, ==, rows[i].reason);
    }
}

/* Every view there is, as a number in a mixed base. */
static gboolean
nth_view (guint n, ModelView *out_view)
{
  static const guint bases[] = { 2, 2, 4, 3, 3, 3, 5, 2, 4, 2, 2, 2, 3, 2, 2 };
  guint digits[G_N_ELEMENTS (bases)];
  for (gsize i = 0; i < G_N_ELEMENTS (bases); i++)
    {
      digits[i] = n % bases[i];
      n /= bases[i];
    }
  *out_view = (ModelView){
    .is_deleting = digits[0] != 0,
    .has_finalizer = digits[1] != 0,
    .source = digits[2],
    .is_settled = digits[3] > 0,
    .is_ready = digits[3] > 1,
    .artifact = digits[4],
    .cleanup = digits[5],
    .worker = digits[6],
    .has_leftovers = digits[7] != 0,
    .upload = digits[8],
    .waits_for = digits[9] != 0 ? "Pending" : NULL,
    .is_usage_known = digits[10] != 0,
    .n_active_workers = digits[11],
    .max_workers = 1,
    .is_published = digits[12] > 0,
    .shows_result = digits[12] > 1,
    .is_pausing = digits[13] != 0,
    .is_admitted = digits[14] != 0,
  };
  return n == 0;
}

/* What must never be, whatever is seen. */
static void
test_all_views (void)
{
  ModelView seen;
  for (guint n = 0; nth_view (n, &seen); n++)
    {
      ModelStep step = model_decide (&seen).step;
      if (step == MODEL_STEP_START_WORKER)
        g_assert_true (!seen.is_deleting && seen.has_finalizer && seen.worker == MODEL_WORKER_ABSENT
                       && seen.is_usage_known && !seen.is_pausing && seen.n_active_workers < seen.max_workers
                       && (!seen.is_settled || seen.is_ready));
      if (step == MODEL_STEP_ADMIT_WORKER) /* of one that may begin */
        g_assert_true (!seen.is_deleting && seen.has_finalizer && seen.worker == MODEL_WORKER_ACTIVE);
      if (step == MODEL_STEP_DROP_FINALIZER)
        g_assert_true (seen.is_deleting && seen.worker == MODEL_WORKER_ABSENT && seen.cleanup != MODEL_CLEANUP_DUE
                       && !seen.has_leftovers);
      if (step == MODEL_STEP_RELEASE) /* never of a model that may be used */
        g_assert_true (
          seen.is_deleting
          || (seen.is_settled && !seen.is_ready && (!seen.is_published || seen.artifact == MODEL_ARTIFACT_DAMAGED)));
      if (seen.is_published && seen.artifact != MODEL_ARTIFACT_DAMAGED) /* nothing is published twice */
        g_assert_true (step != MODEL_STEP_START_WORKER && step != MODEL_STEP_PUBLISH_AGAIN
                       && step != MODEL_STEP_FAIL);
      if (step == MODEL_STEP_ISSUE_UPLOAD || step == MODEL_STEP_START_WORKER || step == MODEL_STEP_ADMIT_WORKER
          || step == MODEL_STEP_TAKE_RESULT)
        g_assert_true (seen.has_finalizer); /* what is made can be cleared up */
    }
}

static void
test_progress (void)
{
  static const struct {
    guint64 done, planned;
    const char *text;
  } cases[] = {
    { 0, 0, NULL },
    { 0, 10, "0%" },
    { 1, 3, "33%" },
    { 29, 100, "29%" },
    { 100, 100, "99%" },
    { 200, 100, "99%" },
    { G_MAXUINT64, G_MAXUINT64, "99%" },
    { G_MAXUINT64 / 2, G_MAXUINT64, "50%" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = model_progress (cases[i].done, cases[i].planned);
      g_assert_cmpstr (text, ==, cases[i].text);
    }
}

/* The table of conditions-reasons-events.md, "Publication: phase mapping", as one line each. */
static void
test_statuses (void)
{
  static const struct {
    ModelSituation situation;
    const char *reason;
    gboolean whole;
    const char *line;
  } cases[] = {
    { MODEL_AT_PREPARING_UPLOAD, NULL, FALSE, "Pending 0% False/Pending -/- False/Pending" },
    { MODEL_AT_WAITING_UPLOAD, NULL, FALSE, "WaitForUpload - False/WaitingForUserUpload -/- False/Pending" },
    { MODEL_AT_WAITING, NULL, FALSE, "Pending - False/Pending -/- False/Pending" },
    { MODEL_AT_WAITING, "StorageUsageUnknown", FALSE,
      "Pending - False/StorageUsageUnknown -/- False/StorageUsageUnknown" },
    { MODEL_AT_QUEUED, NULL, FALSE, "Publishing - False/Pending -/- False/Pending" },
    { MODEL_AT_RUNNING, NULL, FALSE, "Publishing - False/Publishing -/- False/Publishing" },
    { MODEL_AT_READY, NULL, TRUE, "Ready 100% True/ArtifactPublished True/ModelMetadataCalculated True/Ready" },
    { MODEL_AT_READY, NULL, FALSE, "Ready 100% True/ArtifactPublished True/ModelMetadataPartial True/Ready" },
    { MODEL_AT_FAILED, NULL, FALSE, "Failed - False/PublicationFailed -/- False/Failed" },
    { MODEL_AT_FAILED, "InsufficientStorage", FALSE, "Failed - False/InsufficientStorage -/- False/Failed" },
    { MODEL_AT_DELETING, NULL, FALSE, "Deleting - -/- -/- False/Pending" },
    { MODEL_AT_DELETION_STUCK, NULL, FALSE, "Deleting - -/- -/- False/Failed" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      ModelStatus status = model_status_of (cases[i].situation, cases[i].reason, cases[i].whole);
      g_autoptr (GString) line = g_string_new (model_phase_name (status.phase));
      g_string_append_printf (line, " %s", status.progress != NULL ? status.progress : "-");
      for (guint k = 0; k < MODEL_N_CONDITIONS; k++)
        g_string_append_printf (line, " %s/%s",
                                status.conditions[k].status != NULL ? status.conditions[k].status : "-",
                                status.conditions[k].reason != NULL ? status.conditions[k].reason : "-");
      g_assert_cmpstr (line->str, ==, cases[i].line);
      ModelPhase phase;
      g_assert_true (model_phase_parse (model_phase_name (status.phase), &phase) && phase == status.phase);
      g_assert_cmpint (status.keeps_artifact, ==, status.phase == MODEL_READY || status.phase == MODEL_DELETING);
    }
  ModelPhase none;
  g_assert_false (model_phase_parse ("ready", &none) || model_phase_parse (NULL, &none));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-step/rows", test_rows);
  g_test_add_func ("/model-step/all-views", test_all_views);
  g_test_add_func ("/model-step/progress", test_progress);
  g_test_add_func ("/model-step/statuses", test_statuses);
  return g_test_run ();
}
