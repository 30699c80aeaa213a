#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "controllers/model_work.h"

#define SHORT_PAUSE_MS 1000
#define FAILED_MESSAGE "the model could not be published"

StatusWish
model_status_wish (const ModelWork *work, const ModelDecision *decision)
{
  return (StatusWish){
    .situation = decision->situation,
    .reason = decision->reason,
    .message = work->message,
    .source_type = work->source.type,
  };
}

gboolean
model_write_status (ModelWork *work, const StatusWish *wish, GError **error)
{
  g_autofree char *now = time_text_now ();
  g_autoptr (yyjson_mut_doc) doc = status_document (work->object, wish, now);
  if (doc == NULL)
    return TRUE;
  KubeTarget target = {
    .kind = work->kind, .namespace = work->owner.namespace, .name = work->owner.name, .subresource = "status"
  };
  KubeObject *written = kube_client_update (work->ctx, work->controller->client, &target, doc, error);
  if (written == NULL)
    return FALSE;
  am_log_info (work->ctx, "status", "phase", json_get_string (kube_object_status (written), "phase"), "progress",
               json_get_string (kube_object_status (written), "progress"), NULL);
  model_work_replace (work, written);
  return TRUE;
}

void
model_say (ModelWork *work, EventSeverity severity, const char *reason, const char *format, ...)
{
  va_list values;
  va_start (values, format);
  g_autofree char *message = g_strdup_vprintf (format, values);
  va_end (values);
  event_recorder_say (work->ctx, work->controller->events, work->kind, work->object, severity, reason, message);
}

gboolean
model_create (Ctx *ctx, ModelController *self, const KubeKind *kind, const char *namespace, yyjson_mut_doc *doc,
              gboolean *out_existed, GError **error)
{
  KubeTarget target = { .kind = kind, .namespace = namespace };
  return kube_client_ensure (ctx, self->client, &target, doc, out_existed, error);
}

gboolean
model_delete (Ctx *ctx, ModelController *self, const KubeKind *kind, const char *namespace, const char *prefix,
              const char *uid, GError **error)
{
  g_autofree char *name = model_object_name (prefix, uid);
  KubeTarget target = { .kind = kind, .namespace = namespace, .name = name };
  return kube_client_delete (ctx, self->client, &target, NULL, error);
}

/* The list of finalizers with ours, or without. */
static yyjson_mut_doc *
finalizers_patch (const KubeObject *object, gboolean with_ours)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (doc, metadata, "finalizers");
  yyjson_mut_obj_add_strcpy (doc, metadata, "resourceVersion", kube_object_resource_version (object));
  yyjson_val *before = json_get_array (json_get_object (kube_object_root (object), "metadata"), "finalizers"), *each;
  size_t index, n;
  yyjson_arr_foreach (before, index, n, each)
  {
    if (!yyjson_equals_str (each, MODEL_FINALIZER))
      yyjson_mut_arr_append (list, yyjson_val_mut_copy (doc, each));
  }
  if (with_ours)
    yyjson_mut_arr_add_str (doc, list, MODEL_FINALIZER);
  return doc;
}

static gboolean
set_finalizer (ModelWork *work, gboolean with_ours, GError **error)
{
  KubeTarget target = { .kind = work->kind, .namespace = work->owner.namespace, .name = work->owner.name };
  g_autoptr (yyjson_mut_doc) patch = finalizers_patch (work->object, with_ours);
  g_autoptr (GError) problem = NULL;
  KubeObject *now = kube_client_patch (work->ctx, work->controller->client, &target, KUBE_PATCH_MERGE, NULL, patch,
                                       &problem);
  if (now != NULL)
    {
      model_work_replace (work, now);
      return TRUE;
    }
  if (!with_ours && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
act_add_finalizer (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  *out_is_done = FALSE;
  return set_finalizer (work, TRUE, error);
}

static gboolean
act_drop_finalizer (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  am_log_info (work->ctx, "nothing is left of it", NULL);
  return set_finalizer (work, FALSE, error);
}

/* A worker's progress as the status has it. Caller frees. */
static char *
worker_progress (const ModelWork *work)
{
  return model_progress (work->progress.uploaded_size_bytes, work->progress.planned_size_bytes);
}

/* The caches are late. */
static gboolean
look_soon (ModelWork *work)
{
  work->again_ms = SHORT_PAUSE_MS;
  return TRUE;
}

static gboolean
act_fail (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  if (work->source.problem != NULL)
    {
      wish.message = work->source.problem;
      wish.reason = work->source.problem_reason;
    }
  else if (work->fail_message != NULL)
    {
      wish.message = work->fail_message;
      wish.reason = work->fail_reason;
    }
  else if (work->upload != NULL && work->view.upload == MODEL_UPLOAD_OVER)
    wish.message = work->upload->failure != NULL
                     ? work->upload->failure
                     : "the file was not uploaded in time; delete the object and create it "
                       "anew for another upload";
  else if (work->view.is_ready)
    {
      gboolean is_lost = FALSE;
      if (!model_publish_again (work, &is_lost, error))
        return FALSE;
      if (!is_lost)
        return look_soon (work);
      wish.message
        = "what is stored of the uploaded model is damaged, and there is nowhere to fetch it from again: delete "
          "the object, create it anew and upload the file once more";
    }
  g_autofree char *message = g_strdup (wish.message != NULL ? wish.message : FAILED_MESSAGE);
  wish.message = message;
  if (!model_write_status (work, &wish, error))
    return FALSE;
  model_say (work, EVENT_WARNING, "PublicationFailed", "%s", message);
  *out_is_done = FALSE; /* what is left is cleared up */
  return TRUE;
}

static gboolean
act_issue_upload (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  if (work->controller->settings->upload_url == NULL || work->controller->settings->staging_store == NULL)
    wish.message = "uploads are not set up in this cluster: ask its administrator, or use url";
  if (!model_write_status (work, &wish, error))
    return FALSE;
  return wish.message != NULL || model_issue_upload (work, error);
}

static gboolean
act_await_upload (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  g_autofree char *secret = model_upload_secret_name (&work->owner);
  guint64 whole = work->upload->expected_bytes > 0 ? work->upload->expected_bytes : work->upload->probe_bytes;
  g_autofree char *progress = work->upload->uploaded_bytes > 0 ? model_progress (work->upload->uploaded_bytes, whole)
                                                               : NULL;
  g_autoptr (GDateTime) expiry = g_date_time_new_from_unix_utc (work->upload->expires_ms / 1000);
  g_autofree char *expires = expiry != NULL ? g_date_time_format (expiry, "%Y-%m-%dT%H:%M:%SZ") : NULL;
  wish.progress = progress;
  wish.upload_secret = secret;
  wish.upload_expires = expires;
  return model_write_status (work, &wish, error);
}

static gboolean
act_await (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  ModelController *self = work->controller;
  StatusWish wish = model_status_wish (work, decision);
  g_autofree char *progress = worker_progress (work);
  g_autofree char *again = NULL;
  if (work->view.is_pausing)
    {
      again = g_strdup_printf ("%s; it is started again and goes on where it was", work->restarts.message);
      wish.message = again;
      wish.progress = progress;
    }
  else if (g_strcmp0 (decision->reason, "StorageUsageUnknown") == 0)
    {
      wish.message
        = "how much is stored is not known yet; it is counted within a minute, and then the model is fetched";
      g_mutex_lock (&self->lock);
      g_hash_table_add (self->awaits_usage, g_strdup (work->key));
      if (self->books.is_known) /* since it was looked at */
        work->again_ms = 1;
      g_mutex_unlock (&self->lock);
    }
  return model_write_status (work, &wish, error);
}

static gboolean
act_queue (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  worker_slots_wait (work->controller->slots, work->key);
  return model_write_status (work, &wish, error);
}

static gboolean
act_start_worker (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  static const ModelDecision queued = { MODEL_STEP_QUEUE, MODEL_AT_QUEUED, NULL };
  gboolean is_new = FALSE;
  g_autofree char *pod = model_object_name (WORKER_PREFIX, work->owner.uid);
  if (!worker_slots_claim (work->controller->slots, pod))
    return act_queue (work, &queued, out_is_done, error);
  gboolean started = model_start_worker (work, &is_new, error);
  if (!started || !is_new)
    {
      *out_is_done = FALSE;
      if (work->pod == NULL)
        worker_slots_set (work->controller->slots, pod, FALSE);
      return started;
    }
  /* Its Pod comes into sight as a change: until then others who wait get theirs. */
  work->again_ms = UNSEEN_AGAIN_MS;
  return TRUE;
}

static gboolean
act_admit_worker (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  *out_is_done = FALSE;
  return model_admit_worker (work, error);
}

static gboolean
act_follow_worker (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  g_autofree char *progress = worker_progress (work);
  g_autofree char *trouble = NULL;
  const char *before = json_get_string (status_condition (work->object, "Ready"), "reason");
  gboolean is_first = g_strcmp0 (before, "Publishing") != 0 && work->restarts.n_in_a_row == 0;
  wish.progress = progress;
  wish.revision = work->progress.resolved_revision;
  if (work->worker.message != NULL)
    wish.message = work->worker.message;
  else if (work->progress.trouble != NULL)
    wish.message = trouble = g_strdup_printf ("%s; it is tried again", work->progress.trouble);
  if (!model_write_status (work, &wish, error))
    return FALSE;
  if (is_first && work->source.kind == MODEL_SOURCE_REMOTE)
    model_say (work, EVENT_NORMAL, "RemoteFetchStarted", "fetching from %s", work->source.type);
  return TRUE;
}

static gboolean
act_restart_worker (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  if (!model_restart_worker (work, error))
    return FALSE;
  StatusWish wish = model_status_wish (work, decision);
  g_autofree char *progress = worker_progress (work);
  g_autofree char *message = g_strdup_printf ("%s; it is started again and goes on where it was",
                                              work->worker.message);
  wish.message = message;
  wish.progress = progress;
  wish.revision = work->progress.resolved_revision;
  return model_write_status (work, &wish, error);
}

static gboolean
act_take_result (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  work->again_ms = 0;
  if (!model_take_result (work, error))
    return FALSE;
  *out_is_done = work->again_ms > 0;
  return TRUE;
}

static gboolean
act_publish_again (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  gboolean is_lost = FALSE;
  if (!model_publish_again (work, &is_lost, error))
    return FALSE;
  if (!is_lost)
    return look_soon (work);
  StatusWish wish = model_status_wish (work, decision);
  wish.message = "what is stored of the model was found damaged; it is fetched again";
  if (!model_write_status (work, &wish, error))
    return FALSE;
  model_say (work, EVENT_WARNING, "ArtifactDamaged", "what is stored of the model is damaged; it is fetched again");
  *out_is_done = FALSE;
  return TRUE;
}

/* What is no longer needed; a status that somebody changed is put right on the way. */
static gboolean
act_clear_up (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  ModelController *self = work->controller;
  gboolean is_gone = FALSE;
  StatusWish wish = model_status_wish (work, decision);
  if (decision->situation != MODEL_AT_FAILED && !model_write_status (work, &wish, error))
    return FALSE;
  if (!model_remove_worker (work->ctx, self, &work->owner, work->pod, &is_gone, error))
    return FALSE;
  /* Whoever still runs may be reading what was uploaded. */
  return !is_gone || work->view.upload == MODEL_UPLOAD_NONE
         || model_remove_upload (work->ctx, self, &work->owner, error);
}

static gboolean
act_release (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  if (work->view.is_deleting && !model_write_status (work, &wish, error))
    return FALSE;
  if (!model_release (work->ctx, work->controller, &work->owner, work->cleanup_secret, error))
    return FALSE;
  model_forget_failures (work->controller, work->key);
  if (!work->view.is_deleting)
    return TRUE;
  return set_finalizer (work, FALSE, error);
}

/* Only what the status has to say. */
static gboolean
act_none (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  StatusWish wish = model_status_wish (work, decision);
  return decision->situation != MODEL_AT_READY || model_write_status (work, &wish, error);
}

gboolean
model_act (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error)
{
  static gboolean (*const acts[]) (ModelWork *, const ModelDecision *, gboolean *, GError **) = {
    [MODEL_STEP_NONE] = act_none,
    [MODEL_STEP_ADD_FINALIZER] = act_add_finalizer,
    [MODEL_STEP_FAIL] = act_fail,
    [MODEL_STEP_ISSUE_UPLOAD] = act_issue_upload,
    [MODEL_STEP_AWAIT_UPLOAD] = act_await_upload,
    [MODEL_STEP_AWAIT] = act_await,
    [MODEL_STEP_QUEUE] = act_queue,
    [MODEL_STEP_START_WORKER] = act_start_worker,
    [MODEL_STEP_ADMIT_WORKER] = act_admit_worker,
    [MODEL_STEP_FOLLOW_WORKER] = act_follow_worker,
    [MODEL_STEP_RESTART_WORKER] = act_restart_worker,
    [MODEL_STEP_TAKE_RESULT] = act_take_result,
    [MODEL_STEP_PUBLISH_AGAIN] = act_publish_again,
    [MODEL_STEP_CLEAR_UP] = act_clear_up,
    [MODEL_STEP_RELEASE] = act_release,
    [MODEL_STEP_DROP_FINALIZER] = act_drop_finalizer,
  };
  *out_is_done = TRUE;
  return acts[decision->step](work, decision, out_is_done, error);
}
