/* PUT of a whole file: looked at while its beginning is in memory, then passed on to the staging store as it comes. While it
 * comes the session is held by this request: a mark that is renewed, so that no other request writes the same file, a replica
 * that dies loses it, and an upload that takes long does not expire. */
#include "gateway/gateway_private.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "domain/upload_rules.h"

#define RENEW_MS 5000
#define RENEW_TIMEOUT_MS 10000
#define ABANDON_TIMEOUT_MS 20000
/* A hold that could not be renewed for so long is given up: sooner than others take it. */
#define GIVE_UP_MS (MODEL_UPLOAD_HOLD_MS - 10000)

typedef struct {
  GatewayCall call;       /* its session belongs to the renewer while that runs */
  Ctx *ctx;               /* of the work on the store: ends with the request, and when the hold is lost */
  char *sent_name;        /* or NULL */
  char *id;               /* of the session */
  guint64 expected_bytes; /* 0: not told */
  gint64 length;          /* of the body; -1: not told */
  GByteArray *head;       /* what came before the file was looked at */
  char *file_name;
  char *staged_file, *key; /* of this request alone: one that was overtaken without knowing cannot harm another's */
  const char *format;
  char holder[37];
  gboolean holds, is_staged;
  ObjectWriter *writer;

  GThread *renewer;
  Ctx *renewing;
  GMutex lock; /* the rest */
  guint64 received;
  GError *loss; /* why the hold is lost; NULL: it is not. Read without the lock once nothing is renewed */
} Put;

static gboolean
fail_lost (GError **error)
{
  return refuse_phase (error, "the upload was taken over or aborted by another request");
}

static gboolean
is_ours (const Put *self, const ModelUpload *upload)
{
  return upload->phase == UPLOAD_UPLOADING && g_strcmp0 (upload->holder, self->holder) == 0;
}

static gboolean
edit_hold (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Put *self = data;
  if (!is_ours (self, upload) && !gateway_check_phase (upload, UPLOAD_CALL_PUT, now_ms, error))
    return FALSE;
  model_upload_restart (upload);
  upload->phase = UPLOAD_UPLOADING;
  upload->probe_file = g_strdup (self->file_name);
  upload->probe_format = *self->format != '\0' ? g_strdup (self->format) : NULL;
  upload->probe_bytes = (guint64) MAX (self->length, 0);
  upload->holder = g_strdup (self->holder);
  upload->holder_renewed_ms = now_ms;
  model_upload_extend (upload, now_ms);
  return TRUE;
}

static gboolean
edit_renew (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  Put *self = data;
  if (!is_ours (self, upload))
    return fail_lost (error);
  g_mutex_lock (&self->lock);
  upload->uploaded_bytes = self->received;
  g_mutex_unlock (&self->lock);
  upload->holder_renewed_ms = now_ms;
  model_upload_extend (upload, now_ms);
  return TRUE;
}

static gboolean
edit_let_go (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  if (!is_ours (data, upload))
    return fail_lost (error);
  model_upload_restart (upload);
  return TRUE;
}

static gboolean
edit_staged (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Put *self = data;
  gboolean is_done = upload->phase == UPLOAD_UPLOADED && upload->staged_bytes == self->received
                     && strcmp (upload->staged_file, self->staged_file) == 0;
  if (!is_done && !is_ours (self, upload))
    return fail_lost (error);
  model_upload_set_staged (upload, self->staged_file, self->received);
  return TRUE;
}

/* What still writes ends. Takes `why`. */
static void
lose (Put *self, GError *why)
{
  g_mutex_lock (&self->lock);
  self->loss = why;
  g_mutex_unlock (&self->lock);
  ctx_cancel (self->ctx);
}

static gpointer
renew (gpointer data)
{
  Put *self = data;
  gint64 renewed_us = g_get_monotonic_time ();
  while (ctx_sleep_ms (self->renewing, RENEW_MS, NULL))
    {
      gint64 begin_us = g_get_monotonic_time ();
      g_autoptr (Ctx) limited = ctx_new_child (self->renewing, RENEW_TIMEOUT_MS);
      g_autoptr (GError) problem = NULL;
      if (gateway_edit (limited, self->call.gateway, &self->call.upload, edit_renew, self, &problem))
        {
          renewed_us = begin_us;
          continue;
        }
      if (!ctx_check (self->renewing, NULL))
        break;
      am_log_warning (self->renewing, "an upload's hold on its session was not renewed", "err", problem->message,
                      NULL);
      if (gateway_is_refusal (problem) || g_get_monotonic_time () - renewed_us > GIVE_UP_MS * 1000)
        {
          lose (self, g_steal_pointer (&problem));
          break;
        }
    }
  return NULL;
}

static void
stop_renewing (Put *self)
{
  if (self->renewer == NULL)
    return;
  ctx_cancel (self->renewing);
  g_thread_join (g_steal_pointer (&self->renewer));
}

/* The first name that is one. */
static char *
sent_name (HttpRequest *req)
{
  const char *header = http_request_header (req, "Content-Disposition");
  g_autofree char *disposition = header != NULL ? upload_disposition_name (header) : NULL;
  const char *const sources[] = { http_request_query (req, "filename"),
                                  http_request_header (req, "X-Upload-Filename"), disposition };
  char *name = NULL;
  for (gsize i = 0; name == NULL && i < G_N_ELEMENTS (sources); i++)
    name = upload_file_name (sources[i]);
  return name;
}

static gboolean
inspect (Put *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  self->file_name = self->sent_name != NULL
                      ? g_strdup (self->sent_name)
                      : upload_infer_name (self->call.owner.name, self->head->data, self->head->len);
  text_uuid (self->holder);
  self->staged_file = g_strconcat (self->holder, "/", self->file_name, NULL);
  self->key = model_upload_key (self->call.upload, self->staged_file);
  if (upload_check (self->file_name, self->head->data, self->head->len, &self->format, &problem))
    return TRUE;
  return refuse_request (error, "%s", problem->message);
}

/* Nobody else has the session from here on. */
static gboolean
hold (Ctx *ctx, Put *self, GError **error)
{
  if (!gateway_edit (ctx, self->call.gateway, &self->call.upload, edit_hold, self, error))
    return FALSE;
  self->holds = TRUE;
  metric_add (self->call.gateway->active, 1, NULL);
  self->renewing = ctx_new_child (ctx, -1);
  self->renewer = g_thread_new ("upload-hold", renew, self);
  return TRUE;
}

/* The beginning is there: from now on the file goes to the store. */
static gboolean
begin_storing (Ctx *ctx, Put *self, GError **error)
{
  Gateway *gateway = self->call.gateway;
  if (!inspect (self, error) || !hold (ctx, self, error)
      || !gateway_reserve (ctx, gateway, self->id, &self->call.owner, (guint64) MAX (self->length, 0), error))
    return FALSE;
  am_log_info (ctx, "upload begins", "file", self->file_name, "bytes", am_u64 ((guint64) MAX (self->length, 0)),
               NULL);
  self->writer = object_store_create_at (self->ctx, gateway->staging, self->key, error);
  if (self->writer == NULL
      || !object_writer_append (self->ctx, self->writer, self->head->data, self->head->len, error))
    return FALSE;
  g_clear_pointer (&self->head, g_byte_array_unref);
  return TRUE;
}

static gboolean
take (Ctx *ctx, Put *self, const guint8 *data, gsize size, GError **error)
{
  if (self->writer == NULL)
    {
      gsize n = MIN (size, UPLOAD_PROBE_BYTES - self->head->len);
      g_byte_array_append (self->head, data, (guint) n);
      if (self->head->len < UPLOAD_PROBE_BYTES)
        return TRUE;
      if (!begin_storing (ctx, self, error))
        return FALSE;
      data += n;
      size -= n;
    }
  return object_writer_append (self->ctx, self->writer, data, size, error);
}

/* Whether the session was lost, of which an error of the store may have come. */
static void
look_for_loss (Ctx *ctx, Put *self)
{
  GError *problem = NULL;
  stop_renewing (self);
  if (self->loss != NULL || !self->holds
      || gateway_edit (ctx, self->call.gateway, &self->call.upload, edit_renew, self, &problem))
    return;
  if (gateway_is_refusal (problem))
    lose (self, problem);
  else
    am_ignore (&problem, "the store's error is told");
}

static gboolean
tell (Ctx *ctx, Put *self, GError *problem, GError **error)
{
  if (!gateway_is_refusal (problem))
    look_for_loss (ctx, self);
  stop_renewing (self);
  if (self->loss == NULL || gateway_is_refusal (problem))
    return gateway_tell (ctx, problem, error);
  g_error_free (problem);
  return gateway_tell (ctx, g_error_copy (self->loss), error);
}

static gboolean
fail_too_large (GError **error)
{
  return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, HTTP_REASON_BODY_TOO_LARGE,
                  "one request takes at most %" G_GUINT64_FORMAT " bytes: upload the file in parts",
                  (guint64) OBJECT_WRITER_MAX_BYTES);
}

static gboolean
put_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Put *self = data;
  GError *problem = NULL;
  metric_add (self->call.gateway->received, (double) size, NULL);
  g_mutex_lock (&self->lock);
  self->received += size;
  gboolean fits = self->received <= OBJECT_WRITER_MAX_BYTES;
  g_mutex_unlock (&self->lock);
  if (!fits)
    return fail_too_large (error);
  return take (ctx, self, bytes, size, &problem) || tell (ctx, self, problem, error);
}

/* A file of another size than expected ends the session: what its user has is another file. */
static gboolean
check_received (Ctx *ctx, Put *self, GError **error)
{
  if (self->expected_bytes == 0 || self->received == self->expected_bytes)
    return TRUE;
  g_autofree char *failure = g_strdup_printf ("the file has %" G_GUINT64_FORMAT " bytes, and %" G_GUINT64_FORMAT
                                              " were expected",
                                              self->received, self->expected_bytes);
  stop_renewing (self);
  g_clear_pointer (&self->writer, object_writer_free);
  if (!gateway_end (ctx, self->call.gateway, &self->call.upload, UPLOAD_FAILED, failure, error))
    return FALSE;
  self->is_staged = TRUE; /* there is nothing left to do */
  return refuse_request (error, "%s", failure);
}

static gboolean
commit (Ctx *ctx, Put *self, GError **error)
{
  ObjectInfo info = { 0 };
  Gateway *gateway = self->call.gateway;
  if (!object_writer_commit (self->ctx, self->writer, self->key, OBJECT_COMMIT_DEFAULT, error)
      || !object_store_stat (self->ctx, gateway->staging, self->key, &info, error))
    return FALSE;
  if (info.size_bytes != self->received)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL,
                    "the store has %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes", info.size_bytes,
                    self->received);
  stop_renewing (self);
  return gateway_edit (ctx, gateway, &self->call.upload, edit_staged, self, error);
}

static gboolean
put_finish (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  Put *self = data;
  GError *problem = NULL;
  gboolean began = self->writer != NULL || begin_storing (ctx, self, &problem);
  if (!began || !check_received (ctx, self, &problem) || !commit (ctx, self, &problem))
    return tell (ctx, self, problem, error);
  self->is_staged = TRUE;
  gateway_answer_staged (ctx, self->call.gateway, self->call.upload, res);
  return TRUE;
}

/* The session is as before: the file can be sent again. The request's own context may be over. First the books, then the
 * session: once it is free another request may set aside its own. What was committed all the same is nobody's. */
static void
abandon (Put *self)
{
  Gateway *gateway = self->call.gateway;
  g_autoptr (Ctx) ctx = ctx_new_child (gateway->ctx, ABANDON_TIMEOUT_MS);
  g_autoptr (GError) problem = NULL;
  ModelUpload **upload = &self->call.upload;
  if (self->loss == NULL && model_upload_is_held (*upload, gateway_now_ms ()))
    gateway_release (ctx, gateway, self->id);
  gboolean is_free = gateway_edit (ctx, gateway, upload, edit_let_go, self, &problem);
  if (!is_free)
    am_log_info (ctx, "an upload session was not let go", "session", self->id, "err", problem->message, NULL);
  /* Unless the session is known, it may say after all that the file is staged. */
  gboolean is_known = is_free || gateway_is_refusal (problem);
  gboolean is_staged = g_strcmp0 ((*upload)->staged_file, self->staged_file) == 0;
  g_clear_error (&problem);
  if (is_known && !is_staged && !object_store_remove (ctx, gateway->staging, self->key, &problem))
    am_ignore (&problem, "it is removed with the session");
}

static void
put_free (gpointer data)
{
  Put *self = data;
  stop_renewing (self);
  object_writer_free (self->writer);
  if (self->holds)
    {
      metric_add (self->call.gateway->active, -1, NULL);
      if (!self->is_staged)
        abandon (self);
    }
  if (self->head != NULL)
    g_byte_array_unref (self->head);
  model_upload_free (self->call.upload);
  kube_object_unref (self->call.secret);
  g_atomic_int_add (&self->call.gateway->n_uploads, -1);
  ctx_unref (self->ctx);
  ctx_unref (self->renewing);
  g_mutex_clear (&self->lock);
  g_clear_error (&self->loss);
  g_free (self->id);
  g_free (self->sent_name);
  g_free (self->file_name);
  g_free (self->staged_file);
  g_free (self->key);
  g_free (self);
}

static gboolean
check_length (const GatewayCall *call, gint64 length, GError **error)
{
  if (gateway_has_limit (call->gateway) && length <= 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, REFUSED_LENGTH,
                    "the size must be known beforehand: send Content-Length, not a stream");
  if (length > 0 && (guint64) length > OBJECT_WRITER_MAX_BYTES)
    return fail_too_large (error);
  return gateway_check_size (call->upload, (guint64) MAX (length, 0), error);
}

/* A place among the uploads of this process. */
static gboolean
take_place (Gateway *gateway, GError **error)
{
  if (g_atomic_int_add (&gateway->n_uploads, 1) < gateway->max_uploads)
    return TRUE;
  g_atomic_int_add (&gateway->n_uploads, -1);
  return am_fail (error, AM_ERROR_UNAVAILABLE, REFUSED_CROWD,
                  "too many files are being uploaded at once: try again later");
}

gboolean
gateway_put (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  static const HttpBodySink sink = { put_write, put_finish, put_free };
  gint64 length = http_request_content_length (req);
  if (!gateway_check_phase (call->upload, UPLOAD_CALL_PUT, gateway_now_ms (), error)
      || !check_length (call, length, error))
    return FALSE;
  if (!http_request_has_body (req))
    return refuse_request (error, "the file is empty");
  if (!take_place (call->gateway, error))
    return FALSE;
  Put *self = g_new0 (Put, 1);
  self->id = g_strdup (call->upload->id);
  self->expected_bytes = call->upload->expected_bytes;
  self->call = (GatewayCall){ call->gateway, g_steal_pointer (&call->upload), kube_object_ref (call->secret),
                              call->owner };
  self->ctx = ctx_new_child (ctx, -1);
  self->sent_name = sent_name (req);
  self->length = length;
  self->head = g_byte_array_new ();
  g_mutex_init (&self->lock);
  http_request_set_sink (req, &sink, self);
  return TRUE;
}
