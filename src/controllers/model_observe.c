#include <string.h>

#include "base/log.h"
#include "controllers/model_work.h"

#define FAILED "Failed"
#define MIN_TOKEN_PAUSE_MS 2000 /* nobody tells when a Secret of a user's namespace comes */
#define MAX_TOKEN_PAUSE_MS (60 * 1000)
#define HELD_AGAIN_MS 30000

static KubeObject *
find_secret (ModelController *self, const char *prefix, const char *uid)
{
  g_autofree char *name = model_object_name (prefix, uid);
  return informer_get (self->secrets, self->settings->namespace, name);
}

static void
clear_observed (ModelWork *work)
{
  KubeObject **objects[] = { &work->pod, &work->state_secret, &work->auth_secret, &work->session_secret,
                             &work->cleanup_secret };
  for (gsize i = 0; i < G_N_ELEMENTS (objects); i++)
    g_clear_pointer (objects[i], kube_object_unref);
  source_spec_clear (&work->source);
  worker_sight_clear (&work->worker);
  worker_state_clear (&work->progress);
  g_clear_pointer (&work->upload, model_upload_free);
  g_clear_pointer (&work->token, g_free);
  g_clear_pointer (&work->message, g_free);
  g_clear_pointer (&work->fail_message, g_free);
  work->fail_reason = NULL;
}

void
model_work_clear (ModelWork *work)
{
  clear_observed (work);
  g_clear_pointer (&work->object, kube_object_unref);
}

void
model_work_replace (ModelWork *work, KubeObject *object)
{
  /* What was read of the source is borrowed from the object. */
  kube_object_ref (object);
  source_spec_clear (&work->source);
  kube_object_unref (work->object);
  kube_object_unref (object);
  work->object = object;
  work->owner = model_owner_of (object, work->kind == &cluster_model_kind);
  work->is_live = TRUE;
  source_spec_read (object, &work->owner, &work->source);
}

static void
look_up (ModelWork *work)
{
  ModelController *self = work->controller;
  g_autofree char *pod = model_object_name (WORKER_PREFIX, work->owner.uid);
  work->pod = informer_get (self->pods, self->settings->namespace, pod);
  work->state_secret = find_secret (self, WORKER_STATE_PREFIX, work->owner.uid);
  work->auth_secret = find_secret (self, WORKER_AUTH_PREFIX, work->owner.uid);
  work->session_secret = find_secret (self, UPLOAD_SESSION_PREFIX, work->owner.uid);
  work->cleanup_secret = find_secret (self, CLEANUP_STATE_PREFIX, work->owner.uid);
}

/* What the worker left in its state; a Secret that somebody spoilt says nothing. */
static void
read_progress (ModelWork *work)
{
  g_autoptr (GError) error = NULL;
  work->restarts = (WorkerRestarts){ 0 };
  if (work->state_secret == NULL)
    return;
  if (!worker_state_read (work->state_secret, &work->progress, NULL, &error))
    am_log_warning (work->ctx, "the worker's state cannot be read", "err", error->message, NULL);
  worker_restarts_read (work->state_secret, &work->restarts);
}

/* A worker that dies again and again without getting on is not started any more. */
static void
judge_interruption (ModelWork *work, gint64 now_ms)
{
  if (work->worker.state != MODEL_WORKER_INTERRUPTED)
    return;
  WorkerRestarts next = worker_restarts_next (&work->restarts, kube_object_uid (work->pod),
                                              work->progress.uploaded_size_bytes, work->worker.message, now_ms);
  if (next.n_in_a_row < WORKER_MAX_RESTARTS)
    return;
  work->view.worker = MODEL_WORKER_FAILED;
  work->fail_message = g_strdup_printf (
    "the worker ended %u times in a row without getting on; the last time: %s. Delete "
    "the object and create it anew once that is mended",
    next.n_in_a_row, work->worker.message);
}

static void
view_worker (ModelWork *work, gint64 now_ms)
{
  worker_sight_read (work->pod, &work->worker);
  read_progress (work);
  work->view.worker = work->worker.state;
  work->view.is_admitted = model_is_admitted (work);
  work->view.has_leftovers = work->state_secret != NULL || work->auth_secret != NULL;
  judge_interruption (work, now_ms);
  if (work->worker.state == MODEL_WORKER_FAILED)
    {
      work->fail_reason = work->worker.result.reason;
      work->fail_message = g_strdup (work->worker.result.message);
    }
  gint64 pause_ms = work->pod == NULL ? worker_restarts_pause_ms (&work->restarts, now_ms) : 0;
  work->view.is_pausing = pause_ms > 0;
  if (pause_ms > 0)
    work->again_ms = pause_ms;
}

static void
view_upload (ModelWork *work, gint64 now_ms)
{
  g_autoptr (GError) error = NULL;
  if (work->session_secret == NULL)
    return;
  work->upload = model_upload_parse (work->session_secret, &error);
  if (work->upload == NULL)
    {
      am_log_warning (work->ctx, "an upload session cannot be read", "err", error->message, NULL);
      work->view.upload = MODEL_UPLOAD_OVER;
      work->fail_message = g_strdup ("the upload session was spoilt; delete the object and create it anew");
      return;
    }
  work->view.upload = model_upload_state (work->upload, now_ms);
  if (work->view.upload == MODEL_UPLOAD_OPEN)
    {
      gint64 left_ms = work->upload->expires_ms - now_ms;
      work->again_ms = left_ms > 0 ? left_ms + 1000 : HELD_AGAIN_MS;
    }
}

static void
view_artifact (ModelWork *work)
{
  ModelController *self = work->controller;
  ModelView *view = &work->view;
  if (work->cleanup_secret != NULL)
    {
      const char *digest = cleanup_state_digest (work->cleanup_secret);
      gboolean is_complete = cleanup_state_is_complete (work->cleanup_secret);
      view->cleanup = is_complete ? MODEL_CLEANUP_REQUESTED : MODEL_CLEANUP_DUE;
      view->is_published = digest != NULL && !is_complete;
      view->shows_result = digest != NULL && status_shows_artifact (work->object, digest);
      if (cleanup_state_is_damaged (work->cleanup_secret))
        view->artifact = MODEL_ARTIFACT_DAMAGED;
    }
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (g_hash_table_contains (self->damaged, work->owner.uid))
    view->artifact = MODEL_ARTIFACT_DAMAGED;
}

static void
view_status (ModelWork *work)
{
  yyjson_val *status = kube_object_status (work->object);
  const char *phase = json_get_string (status, "phase");
  gint64 observed = yyjson_get_sint (yyjson_obj_get (status, "observedGeneration"));
  work->view.is_ready = g_strcmp0 (phase, "Ready") == 0
                        && json_get_string (json_get_object (status, "artifact"), "digest") != NULL;
  work->view.is_settled = work->view.is_ready
                          || (g_strcmp0 (phase, FAILED) == 0 && observed == kube_object_generation (work->object));
}

/* Who made the object just now is likely to make the Secret, too; who waits for days can wait for a minute. */
static gint64
token_pause_ms (const KubeObject *object)
{
  gint64 made_s = kube_object_created_s (object);
  gint64 age_ms = made_s > 0 ? g_get_real_time () / 1000 - made_s * 1000 : G_MAXINT64;
  return CLAMP (age_ms / 4, MIN_TOKEN_PAUSE_MS, MAX_TOKEN_PAUSE_MS);
}

/* The token in a Secret as it is now; NOT_FOUND, for people, when there is none, then `*out_is_there` tells of the Secret. */
static char *
get_token (ModelWork *work, const char *namespace, const char *name, gboolean *out_is_there, GError **error)
{
  KubeTarget target = { .kind = &secret_kind, .namespace = namespace, .name = name };
  g_autoptr (KubeObject) secret = kube_client_get (work->ctx, work->controller->client, &target, error);
  *out_is_there = secret != NULL;
  return secret != NULL ? source_token_read (secret, error) : NULL;
}

/* The source's token, when it is needed for a start; what is missing is awaited. */
static gboolean
fetch_token (ModelWork *work, GError **error)
{
  gboolean is_there = FALSE;
  g_autoptr (GError) problem = NULL;
  work->token = get_token (work, work->owner.namespace, work->source.auth_secret, &is_there, &problem);
  if (work->token != NULL)
    return TRUE;
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  work->view.waits_for = "Pending";
  work->message = !is_there
                    ? g_strdup_printf ("Secret %s with the token for the hub is not there: create it with the "
                                       "key token",
                                       work->source.auth_secret)
                    : g_strdup (problem->message);
  work->again_ms = token_pause_ms (work->object);
  return TRUE;
}

/* Whether the user's Secret holds another token than the worker was given. */
static gboolean
is_token_changed (ModelWork *work, gboolean *out_is_changed, GError **error)
{
  gboolean is_there = FALSE;
  g_autoptr (GError) problem = NULL;
  g_autofree char *copy = model_object_name (WORKER_AUTH_PREFIX, work->owner.uid);
  g_autofree char *given = get_token (work, work->controller->settings->namespace, copy, &is_there, &problem);
  g_autofree char *now = given != NULL
                           ? get_token (work, work->owner.namespace, work->source.auth_secret, &is_there, &problem)
                           : NULL;
  *out_is_changed = now != NULL && strcmp (given, now) != 0;
  if (problem == NULL || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

/* A worker that failed with a token which is not the user's any more proves nothing: it gets the new one. */
static gboolean
view_rotation (ModelWork *work, gint64 now_ms, GError **error)
{
  gboolean is_changed = FALSE;
  if (work->worker.state != MODEL_WORKER_FAILED || work->source.auth_secret == NULL || work->view.is_deleting
      || work->view.is_settled || work->view.is_published)
    return TRUE;
  if (!is_token_changed (work, &is_changed, error))
    return FALSE;
  if (!is_changed)
    return TRUE;
  g_free (work->worker.message);
  work->worker.message = g_strdup_printf ("the token in Secret %s was changed", work->source.auth_secret);
  work->worker.state = work->view.worker = MODEL_WORKER_INTERRUPTED;
  g_clear_pointer (&work->fail_message, g_free);
  work->fail_reason = NULL;
  judge_interruption (work, now_ms);
  return TRUE;
}

static gboolean
view_waits (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  ModelView *view = &work->view;
  gboolean may_start = !view->is_deleting && !view->is_settled && !view->is_published && view->has_finalizer
                       && !view->is_pausing && view->worker == MODEL_WORKER_ABSENT
                       && view->n_active_workers < view->max_workers;
  if (work->source.kind == MODEL_SOURCE_CATALOG && !view->is_deleting)
    {
      view->waits_for = "CatalogSourceNotReady";
      work->message = g_strdup_printf (
        "entry %s cannot be imported: this cluster has no catalogue source that is ready, "
        "and this release imports none; use url or upload",
        work->source.catalog != NULL ? work->source.catalog : "");
    }
  g_mutex_lock (&self->lock);
  view->is_usage_known = !self->settings->has_accounting || self->books.is_known;
  g_mutex_unlock (&self->lock);
  return !may_start || work->source.auth_secret == NULL || fetch_token (work, error);
}

gboolean
model_observe (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  gint64 now_ms = g_get_real_time () / 1000;
  clear_observed (work);
  work->again_ms = 0;
  source_spec_read (work->object, &work->owner, &work->source);
  look_up (work);
  work->view = (ModelView){
    .is_deleting = kube_object_is_deleting (work->object),
    .has_finalizer = kube_object_has_finalizer (work->object, MODEL_FINALIZER),
    .source = work->source.problem != NULL ? MODEL_SOURCE_UNSUPPORTED : work->source.kind,
    .n_active_workers = worker_slots_active (self->slots),
    .max_workers = self->settings->max_workers,
  };
  view_worker (work, now_ms);
  view_upload (work, now_ms);
  view_artifact (work);
  view_status (work);
  return view_rotation (work, now_ms, error) && view_waits (work, error);
}
