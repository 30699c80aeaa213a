/* Sessions as the calls find and change them. */
#include "gateway/gateway_private.h"

#include <string.h>

#include "base/log.h"
#include "storage/object_parts.h"

#define MAX_CONFLICTS 20
#define CONFLICT_PAUSE_MS 50
#define MAX_FAILURES 4
#define FAILURE_PAUSE_MS 500
#define MAX_ID_BYTES 253

gint64
gateway_now_ms (void)
{
  return g_get_real_time () / 1000;
}

void
gateway_call_free (GatewayCall *self)
{
  model_upload_free (self->upload);
  kube_object_unref (self->secret);
  g_free (self);
}

/* Only names that a session can have are asked for: there are other Secrets beside them. */
static gboolean
is_session_id (const char *id)
{
  gsize size = strlen (id);
  return g_str_has_prefix (id, UPLOAD_SESSION_PREFIX) && size > strlen (UPLOAD_SESSION_PREFIX) && size <= MAX_ID_BYTES
         && strspn (id, G_CSET_a_2_z G_CSET_DIGITS "-") == size;
}

static gboolean
fail_unknown (GError **error)
{
  return am_fail (error, AM_ERROR_NOT_FOUND, REFUSED_ADDRESS,
                  "there is no such upload session: it ended, or its model was deleted");
}

/* The client's word that there is none, in ours. */
static gboolean
tell_missing (GError *problem, GError **error)
{
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_error_free (problem);
      return fail_unknown (error);
    }
  g_propagate_error (error, problem);
  return FALSE;
}

static KubeTarget
target_of (const Gateway *self, const char *id)
{
  return (KubeTarget){ .kind = &secret_kind, .namespace = self->namespace, .name = id };
}

static ModelUpload *
load (Ctx *ctx, Gateway *self, const char *id, GError **error)
{
  GError *problem = NULL;
  KubeTarget target = target_of (self, id);
  g_autoptr (KubeObject) secret = kube_client_get (ctx, self->kube, &target, &problem);
  if (secret != NULL)
    return model_upload_parse (secret, error);
  tell_missing (problem, error);
  return NULL;
}

gboolean
gateway_call_open (Ctx *ctx, GatewayCall *self, const char *id, GError **error)
{
  if (!is_session_id (id))
    return fail_unknown (error);
  g_autoptr (ModelUpload) upload = load (ctx, self->gateway, id, error);
  if (upload == NULL)
    return FALSE;
  if (!model_owner_read (upload->stored, &self->owner))
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "Secret %s does not say whose upload session it is", id);
  self->secret = kube_object_ref (upload->stored);
  self->upload = g_steal_pointer (&upload);
  return TRUE;
}

/* One try: ABORTED when another request was faster. */
static gboolean
try_edit (Ctx *ctx, Gateway *self, ModelUpload **upload, GatewayEdit edit, gpointer data, GError **error)
{
  gint64 now_ms = gateway_now_ms ();
  GError *problem = NULL;
  g_autoptr (ModelUpload) draft = model_upload_parse ((*upload)->stored, error);
  if (draft == NULL)
    return FALSE;
  model_upload_settle (draft, now_ms);
  if (!edit (draft, now_ms, data, error))
    return FALSE;
  KubeTarget target = target_of (self, draft->id);
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (draft, NULL);
  g_autoptr (KubeObject) written = kube_client_update (ctx, self->kube, &target, doc, &problem);
  if (written == NULL)
    return tell_missing (problem, error);
  ModelUpload *now = model_upload_parse (written, error);
  if (now == NULL)
    return FALSE;
  model_upload_free (*upload);
  *upload = now;
  return TRUE;
}

/* Reads the session anew. */
static gboolean
reload (Ctx *ctx, Gateway *self, ModelUpload **upload, GError **error)
{
  ModelUpload *newer = load (ctx, self, (*upload)->id, error);
  if (newer == NULL)
    return FALSE;
  model_upload_free (*upload);
  *upload = newer;
  return TRUE;
}

/* Another request was faster, or the API server failed; then what was written may have been written, too: edits know their
 * own work again. */
static gboolean
is_worth_another_try (const GError *problem, guint *n_conflicts, guint *n_failures)
{
  if (am_error_is (problem, AM_ERROR_ABORTED))
    return ++*n_conflicts < MAX_CONFLICTS;
  return !gateway_is_refusal (problem) && am_error_retryable (problem) && ++*n_failures < MAX_FAILURES;
}

gboolean
gateway_edit (Ctx *ctx, Gateway *self, ModelUpload **upload, GatewayEdit edit, gpointer data, GError **error)
{
  guint n_conflicts = 0, n_failures = 0;
  for (gboolean is_first = TRUE;; is_first = FALSE)
    {
      g_autoptr (GError) problem = NULL;
      if ((is_first || reload (ctx, self, upload, &problem)) && try_edit (ctx, self, upload, edit, data, &problem))
        return TRUE;
      if (!is_worth_another_try (problem, &n_conflicts, &n_failures))
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      am_log_debug (ctx, "an upload session was not written", "err", problem->message, NULL);
      if (!ctx_sleep_ms (ctx, g_random_int_range (1, n_failures > 0 ? FAILURE_PAUSE_MS : CONFLICT_PAUSE_MS), error))
        return FALSE;
    }
}

gboolean
gateway_check_phase (const ModelUpload *upload, UploadCall call, gint64 now_ms, GError **error)
{
  if (upload->phase == UPLOAD_EXPIRED)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, REFUSED_EXPIRED,
                    "the upload session has expired: delete the model and create it again");
  if (model_upload_is_held (upload, now_ms) && call != UPLOAD_CALL_ABORT)
    {
      refuse_phase (error,
                    "a file is being uploaded by another request; if that one broke off, try again in half a minute");
      if (error != NULL)
        am_error_set_retry_after_ms (*error, MAX (upload->holder_renewed_ms + MODEL_UPLOAD_HOLD_MS - now_ms, 1000));
      return FALSE;
    }
  if (upload_phase_allows (upload->phase, call))
    return TRUE;
  return refuse_phase (error, "the upload session is in the phase \"%s\", in which this cannot be done",
                       upload_phase_name (upload->phase));
}

typedef struct {
  UploadPhase phase;
  const char *failure;
} Ending;

static gboolean
edit_end (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Ending *ending = data;
  if (upload->phase == ending->phase) /* time did it, or an earlier try */
    return TRUE;
  if (!upload_phase_is_open (upload->phase))
    return refuse_phase (error, "the upload session is in the phase \"%s\" already",
                         upload_phase_name (upload->phase));
  model_upload_end (upload, ending->phase, ending->failure);
  return TRUE;
}

/* What requests left of the session's file, whole or in parts, those that died among them. */
static gboolean
clear_staging (Ctx *ctx, Gateway *self, const char *key_prefix, GError **error)
{
  g_autofree char *prefix = g_strconcat (key_prefix, "/", NULL);
  return object_parts_abort_below (ctx, self->staging, prefix, error)
         && object_store_remove_prefix (ctx, self->staging, prefix, error);
}

gboolean
gateway_end (Ctx *ctx, Gateway *self, ModelUpload **upload, UploadPhase phase, const char *failure, GError **error)
{
  const Ending ending = { phase, failure };
  g_autoptr (GError) problem = NULL;
  if (!gateway_edit (ctx, self, upload, edit_end, (gpointer) &ending, error))
    return FALSE;
  am_log_info (ctx, "upload session ended", "phase", upload_phase_name (phase), "why", failure, NULL);
  if (!clear_staging (ctx, self, (*upload)->key_prefix, &problem))
    am_log_warning (ctx, "what was uploaded stays until the model is removed", "err", problem->message, NULL);
  gateway_release (ctx, self, (*upload)->id);
  return TRUE;
}

gboolean
gateway_has_limit (const Gateway *self)
{
  return self->ledger != NULL && self->limit_bytes > 0;
}

gboolean
gateway_reserve (Ctx *ctx, Gateway *self, const char *id, const ModelOwner *owner, guint64 size_bytes, GError **error)
{
  return !gateway_has_limit (self)
         || ledger_store_reserve (ctx, self->ledger, id, owner, size_bytes, self->limit_bytes, error);
}

void
gateway_release (Ctx *ctx, Gateway *self, const char *id)
{
  g_autoptr (GError) problem = NULL;
  if (gateway_has_limit (self) && !ledger_store_release (ctx, self->ledger, id, &problem))
    am_log_warning (ctx, "storage that was set aside for an upload was not released", "err", problem->message, NULL);
}

gboolean
gateway_check_size (const ModelUpload *upload, guint64 size_bytes, GError **error)
{
  if (upload->expected_bytes == 0 || size_bytes == 0 || size_bytes == upload->expected_bytes)
    return TRUE;
  return refuse_phase (error, "the file has %" G_GUINT64_FORMAT " bytes, and %" G_GUINT64_FORMAT " are expected",
                       size_bytes, upload->expected_bytes);
}
