/* Calls about a file that its user brings to the bucket in parts, past the gateway: probe, init, parts, complete, abort; and
 * the answer that says how far an upload is, from which an interrupted one goes on. */
#include "gateway/gateway_private.h"

#include <string.h>

#include "base/json.h"
#include "domain/upload_rules.h"
#include "gateway/gateway_request.h"
#include "storage/object_parts.h"

#define LINK_TTL_S 900
/* What the bucket holds of an upload in parts is told to the session no more often. */
#define SYNC_MS 5000

static yyjson_mut_doc *
new_answer (void)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (doc, yyjson_mut_obj (doc));
  return doc;
}

static void
answer (HttpResponse *res, guint status, yyjson_mut_doc *doc)
{
  g_autofree char *text = json_write (doc, NULL);
  http_response_status (res, status);
  http_response_text (res, "application/json", text);
}

/* Takes an error of parsing a body. */
static gboolean
refuse_body (GError *problem, GError **error)
{
  refuse_request (error, "%s", problem->message);
  g_error_free (problem);
  return FALSE;
}

/* The size the whole file will have; 0: nobody told. */
static guint64
wanted_bytes (const ModelUpload *upload)
{
  return upload->expected_bytes != 0 ? upload->expected_bytes : upload->probe_bytes;
}

/* probe */

typedef struct {
  const ProbeRequest *request;
  const char *format;
} Probe;

static gboolean
edit_probe (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Probe *probe = data;
  if (!gateway_check_phase (upload, UPLOAD_CALL_PROBE, now_ms, error))
    return FALSE;
  model_upload_restart (upload);
  upload->phase = UPLOAD_PROBING;
  upload->probe_file = g_strdup (probe->request->file_name);
  upload->probe_format = *probe->format != '\0' ? g_strdup (probe->format) : NULL;
  upload->probe_bytes = (guint64) probe->request->size_bytes;
  model_upload_extend (upload, now_ms);
  return TRUE;
}

static gboolean
edit_unprobe (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  if (upload->phase == UPLOAD_PROBING)
    model_upload_restart (upload);
  return TRUE;
}

static gboolean
check_probe (const GatewayCall *call, const ProbeRequest *request, const char **out_format, GError **error)
{
  gsize size = 0;
  GError *problem = NULL;
  gconstpointer head = g_bytes_get_data (request->chunk, &size);
  if (gateway_has_limit (call->gateway) && request->size_bytes == 0)
    return refuse_request (error,
                           "\"sizeBytes\" is missing: storage is limited, so the size must be known beforehand");
  if ((guint64) request->size_bytes > MODEL_UPLOAD_MAX_BYTES)
    return refuse_request (error, "a file may have at most %" G_GUINT64_FORMAT " bytes",
                           (guint64) MODEL_UPLOAD_MAX_BYTES);
  if (request->size_bytes > 0 && (guint64) request->size_bytes < size)
    return refuse_request (error, "\"chunk\" is longer than the file");
  if (!upload_check (request->file_name, head, size, out_format, &problem))
    return refuse_body (problem, error);
  return gateway_check_size (call->upload, (guint64) request->size_bytes, error);
}

gboolean
gateway_probe (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_auto (ProbeRequest) request = { 0 };
  Probe probe = { .request = &request };
  GError *problem = NULL;
  Gateway *self = call->gateway;
  if (!gateway_check_phase (call->upload, UPLOAD_CALL_PROBE, gateway_now_ms (), error))
    return FALSE;
  if (!probe_request_parse (http_request_body (req), &request, &problem))
    return refuse_body (problem, error);
  if (!check_probe (call, &request, &probe.format, error)
      || !gateway_edit (ctx, self, &call->upload, edit_probe, &probe, error))
    return FALSE;
  if (!gateway_reserve (ctx, self, call->upload->id, &call->owner, (guint64) request.size_bytes, error))
    {
      if (!gateway_edit (ctx, self, &call->upload, edit_unprobe, NULL, &problem))
        am_ignore (&problem, "the next call probes again");
      return FALSE;
    }
  g_autoptr (yyjson_mut_doc) doc = new_answer ();
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  yyjson_mut_obj_add_str (doc, root, "fileName", request.file_name);
  yyjson_mut_obj_add_str (doc, root, "resolvedInputFormat", probe.format);
  answer (res, 200, doc);
  return TRUE;
}

/* init */

typedef struct {
  const char *file_name, *id;
} Init;

static gboolean
check_init (const ModelUpload *upload, const char *file_name, gint64 now_ms, GError **error)
{
  if (!gateway_check_phase (upload, UPLOAD_CALL_INIT, now_ms, error))
    return FALSE;
  if (upload->probe_file == NULL)
    return refuse_phase (error, "the file was not looked at yet: call probe first");
  if (strcmp (upload->probe_file, file_name) != 0)
    return refuse_phase (error, "the upload is of another file: \"%s\"", upload->probe_file);
  return TRUE;
}

static gboolean
edit_init (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Init *init = data;
  if (init->id != NULL && g_strcmp0 (upload->multipart_id, init->id) == 0)
    return TRUE;
  if (!check_init (upload, init->file_name, now_ms, error))
    return FALSE;
  model_upload_extend (upload, now_ms);
  if (upload->multipart_id != NULL && init->id == NULL)
    return TRUE;
  if (upload->multipart_id != NULL)
    return refuse_phase (error, "another request began to upload the file in parts: call init again");
  upload->phase = UPLOAD_UPLOADING;
  upload->multipart_id = g_strdup (init->id);
  upload->multipart_file = g_strdup (init->file_name);
  return TRUE;
}

static gboolean
answer_init (HttpResponse *res, guint status, const ModelUpload *upload)
{
  g_autoptr (yyjson_mut_doc) doc = new_answer ();
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  g_autofree char *key = model_upload_key (upload, upload->multipart_file);
  yyjson_mut_obj_add_str (doc, root, "uploadID", upload->multipart_id);
  yyjson_mut_obj_add_str (doc, root, "key", key);
  yyjson_mut_obj_add_str (doc, root, "fileName", upload->multipart_file);
  answer (res, status, doc);
  return TRUE;
}

static gboolean
begin_parts (Ctx *ctx, GatewayCall *call, const char *file_name, HttpResponse *res, GError **error)
{
  Gateway *self = call->gateway;
  g_autofree char *key = model_upload_key (call->upload, file_name);
  g_autofree char *id = object_parts_begin (ctx, self->staging, key, error);
  const Init init = { file_name, id };
  if (id == NULL)
    return FALSE;
  if (gateway_edit (ctx, self, &call->upload, edit_init, (gpointer) &init, error))
    return answer_init (res, 201, call->upload);
  g_autoptr (GError) problem = NULL;
  if (!object_parts_abort (ctx, self->staging, key, id, &problem))
    am_ignore (&problem, "it is swept some day");
  return FALSE;
}

gboolean
gateway_init (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  GError *problem = NULL;
  g_autofree char *file_name = NULL;
  const ModelUpload *upload = call->upload;
  if (!gateway_check_phase (upload, UPLOAD_CALL_INIT, gateway_now_ms (), error))
    return FALSE;
  if ((file_name = init_request_parse (http_request_body (req), &problem)) == NULL)
    return refuse_body (problem, error);
  if (!check_init (upload, file_name, gateway_now_ms (), error))
    return FALSE;
  if (upload->multipart_id == NULL)
    return begin_parts (ctx, call, file_name, res, error);
  const Init again = { file_name, NULL };
  return gateway_edit (ctx, call->gateway, &call->upload, edit_init, (gpointer) &again, error)
         && answer_init (res, 200, call->upload);
}

/* parts */

static guint64
sum_of (GPtrArray *parts)
{
  guint64 sum = 0;
  for (guint i = 0; i < parts->len; i++)
    {
      guint64 size = ((const ObjectPart *) g_ptr_array_index (parts, i))->size_bytes;
      sum = size > G_MAXUINT64 - sum ? G_MAXUINT64 : sum + size;
    }
  return sum;
}

static GPtrArray *
list_parts (Ctx *ctx, const GatewayCall *call, GError **error)
{
  const ModelUpload *upload = call->upload;
  g_autofree char *key = model_upload_key (upload, upload->multipart_file);
  return object_parts_list (ctx, call->gateway->staging, key, upload->multipart_id, error);
}

/* Of each part the one that was sent last. */
static GPtrArray *
list_newest (Ctx *ctx, const GatewayCall *call, GError **error)
{
  GPtrArray *parts = list_parts (ctx, call, error);
  for (guint i = parts != NULL ? parts->len : 0; i > 1; i--)
    {
      const ObjectPart *one = g_ptr_array_index (parts, i - 2), *next = g_ptr_array_index (parts, i - 1);
      if (one->number == next->number)
        g_ptr_array_remove_index (parts, i - 2);
    }
  return parts;
}

typedef struct {
  const char *id;
  guint64 uploaded_bytes;
} Progress;

static gboolean
edit_progress (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Progress *progress = data;
  if (g_strcmp0 (upload->multipart_id, progress->id) != 0)
    return refuse_phase (error, "the upload was ended by another request");
  upload->uploaded_bytes = progress->uploaded_bytes;
  model_upload_extend (upload, now_ms);
  return TRUE;
}

/* Tells the session what is there, and that somebody is still at it. */
static gboolean
save_progress (Ctx *ctx, GatewayCall *call, guint64 uploaded_bytes, GError **error)
{
  g_autofree char *id = g_strdup (call->upload->multipart_id);
  const Progress progress = { id, uploaded_bytes };
  return gateway_edit (ctx, call->gateway, &call->upload, edit_progress, (gpointer) &progress, error);
}

static gboolean
is_sync_due (const ModelUpload *upload)
{
  return gateway_now_ms () + MODEL_UPLOAD_TTL_MS - upload->expires_ms >= SYNC_MS;
}

static gboolean
fail_dropped (GError **error)
{
  return refuse_phase (error, "the bucket has dropped the upload: delete the model and create it again");
}

static gboolean
sync_progress (Ctx *ctx, GatewayCall *call, GError **error)
{
  if (!is_sync_due (call->upload))
    return TRUE;
  g_autoptr (GError) problem = NULL;
  g_autoptr (GPtrArray) parts = list_newest (ctx, call, &problem);
  if (parts != NULL)
    return save_progress (ctx, call, sum_of (parts), error);
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return fail_dropped (error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
check_parts_phase (const GatewayCall *call, UploadCall kind, GError **error)
{
  if (!gateway_check_phase (call->upload, kind, gateway_now_ms (), error))
    return FALSE;
  return call->upload->multipart_id != NULL || refuse_phase (error, "no upload in parts was begun: call init first");
}

static gboolean
add_link (Ctx *ctx, const GatewayCall *call, guint number, yyjson_mut_doc *doc, yyjson_mut_val *list, GError **error)
{
  const ModelUpload *upload = call->upload;
  g_autofree char *key = model_upload_key (upload, upload->multipart_file);
  g_autofree char *url = object_parts_link (ctx, call->gateway->staging, key, upload->multipart_id, number,
                                            LINK_TTL_S, error);
  if (url == NULL)
    return FALSE;
  yyjson_mut_val *part = yyjson_mut_arr_add_obj (doc, list);
  yyjson_mut_obj_add_uint (doc, part, "partNumber", number);
  yyjson_mut_obj_add_strcpy (doc, part, "url", url);
  return TRUE;
}

gboolean
gateway_parts (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  GError *problem = NULL;
  if (!check_parts_phase (call, UPLOAD_CALL_PARTS, error))
    return FALSE;
  g_autoptr (GArray) numbers = parts_request_parse (http_request_body (req), &problem);
  if (numbers == NULL)
    return refuse_body (problem, error);
  if (!sync_progress (ctx, call, error))
    return FALSE;
  g_autoptr (yyjson_mut_doc) doc = new_answer ();
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  yyjson_mut_obj_add_str (doc, root, "uploadID", call->upload->multipart_id);
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (doc, root, "parts");
  for (guint i = 0; i < numbers->len; i++)
    if (!add_link (ctx, call, g_array_index (numbers, guint, i), doc, list, error))
      return FALSE;
  answer (res, 200, doc);
  return TRUE;
}

/* complete */

/* The part that is there under this number and etag; else `*out_other` is one of that number, or NULL. `*at` moves on over
 * the list, which is in order. */
static const ObjectPart *
find_part (GPtrArray *there, const ObjectPart *wanted, guint *at, const ObjectPart **out_other)
{
  *out_other = NULL;
  for (; *at < there->len; (*at)++)
    {
      const ObjectPart *part = g_ptr_array_index (there, *at);
      if (part->number > wanted->number)
        break;
      if (part->number < wanted->number)
        continue;
      *out_other = part;
      if (strcmp (part->etag, wanted->etag) == 0)
        return part;
    }
  return NULL;
}

/* Gives each part that is named the size it has in the bucket. */
static gboolean
match_parts (GPtrArray *named, GPtrArray *there, GError **error)
{
  guint at = 0;
  for (guint i = 0; i < named->len; i++)
    {
      const ObjectPart *other;
      ObjectPart *part = g_ptr_array_index (named, i);
      const ObjectPart *found = find_part (there, part, &at, &other);
      if (found == NULL && other != NULL)
        return refuse_request (error, "part %u was uploaded with another etag: %s", part->number, other->etag);
      if (found == NULL)
        return refuse_request (error, "part %u was not uploaded", part->number);
      part->size_bytes = found->size_bytes;
      if (i + 1 < named->len && part->size_bytes < OBJECT_PART_MIN_BYTES)
        return refuse_request (error, "part %u has %" G_GUINT64_FORMAT " bytes; only the last may have less than %u",
                               part->number, part->size_bytes, OBJECT_PART_MIN_BYTES);
    }
  return TRUE;
}

/* What can be mended is refused before the parts become a file. */
static gboolean
check_sum (const ModelUpload *upload, guint64 sum, GError **error)
{
  guint64 wanted = wanted_bytes (upload);
  if (sum > MODEL_UPLOAD_MAX_BYTES)
    return refuse_request (error, "a file may have at most %" G_GUINT64_FORMAT " bytes",
                           (guint64) MODEL_UPLOAD_MAX_BYTES);
  if (wanted != 0 && sum != wanted)
    return refuse_request (
      error, "the parts have %" G_GUINT64_FORMAT " bytes together, and the file has %" G_GUINT64_FORMAT, sum, wanted);
  return TRUE;
}

/* The object of the parts; also when an earlier try made it whose answer was lost. */
static gboolean
make_object (Ctx *ctx, const GatewayCall *call, GPtrArray *parts, ObjectInfo *out_info, GError **error)
{
  const ModelUpload *upload = call->upload;
  ObjectStore *staging = call->gateway->staging;
  g_autofree char *key = model_upload_key (upload, upload->multipart_file);
  g_autoptr (GError) problem = NULL;
  if (!object_parts_complete (ctx, staging, key, upload->multipart_id, parts, &problem)
      && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return object_store_stat (ctx, staging, key, out_info, error);
}

typedef struct {
  const char *id, *file_name;
  guint64 size_bytes;
} Completion;

static gboolean
edit_complete (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error)
{
  const Completion *completion = data;
  if (upload->phase == UPLOAD_UPLOADED && upload->staged_bytes == completion->size_bytes
      && strcmp (upload->staged_file, completion->file_name) == 0)
    return TRUE;
  if (g_strcmp0 (upload->multipart_id, completion->id) != 0)
    return refuse_phase (error, "the upload was ended by another request");
  model_upload_set_staged (upload, upload->multipart_file, completion->size_bytes);
  return TRUE;
}

static gboolean
save_completion (Ctx *ctx, GatewayCall *call, guint64 size_bytes, GError **error)
{
  g_autofree char *id = g_strdup (call->upload->multipart_id), *file = g_strdup (call->upload->multipart_file);
  const Completion completion = { id, file, size_bytes };
  return gateway_edit (ctx, call->gateway, &call->upload, edit_complete, (gpointer) &completion, error);
}

static gboolean
finish (Ctx *ctx, GatewayCall *call, GPtrArray *parts, GError **error)
{
  ObjectInfo info = { 0 };
  guint64 sum = sum_of (parts);
  if (!check_sum (call->upload, sum, error) || !make_object (ctx, call, parts, &info, error))
    return FALSE;
  if (info.size_bytes != sum)
    {
      g_autofree char *failure = g_strdup_printf ("the uploaded file has %" G_GUINT64_FORMAT
                                                  " bytes, and %" G_GUINT64_FORMAT " were expected",
                                                  info.size_bytes, sum);
      return gateway_end (ctx, call->gateway, &call->upload, UPLOAD_FAILED, failure, error)
             && refuse_request (error, "%s", failure);
    }
  return save_completion (ctx, call, info.size_bytes, error);
}

/* When the upload is gone from the bucket an earlier try may have completed it: then the parts are taken as they are named,
 * and the object's size tells. */
static gboolean
find_parts (Ctx *ctx, const GatewayCall *call, GPtrArray *named, gboolean *out_gone, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (GPtrArray) there = list_parts (ctx, call, &problem);
  *out_gone = there == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND);
  if (there == NULL && !*out_gone)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return *out_gone || match_parts (named, there, error);
}

/* The session of an upload that a replica completed without living to say so. */
static gboolean
adopt (Ctx *ctx, GatewayCall *call, GError **error)
{
  ObjectInfo info = { 0 };
  g_autoptr (GError) problem = NULL;
  const ModelUpload *upload = call->upload;
  guint64 wanted = wanted_bytes (upload);
  g_autofree char *key = model_upload_key (upload, upload->multipart_file);
  if (!object_store_stat (ctx, call->gateway->staging, key, &info, &problem))
    {
      if (am_error_is (problem, AM_ERROR_NOT_FOUND))
        return fail_dropped (error);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (wanted != 0 && info.size_bytes != wanted)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "object of a lost upload has %" G_GUINT64_FORMAT " bytes",
                    info.size_bytes);
  return save_completion (ctx, call, info.size_bytes, error);
}

gboolean
gateway_complete (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  GError *problem = NULL;
  gboolean is_gone;
  if (!check_parts_phase (call, UPLOAD_CALL_COMPLETE, error))
    return FALSE;
  g_autoptr (GPtrArray) parts = complete_request_parse (http_request_body (req), &problem);
  if (parts == NULL)
    return refuse_body (problem, error);
  if (!find_parts (ctx, call, parts, &is_gone, error))
    return FALSE;
  if (is_gone ? !adopt (ctx, call, error) : !finish (ctx, call, parts, error))
    return FALSE;
  gateway_answer_staged (ctx, call->gateway, call->upload, res);
  return TRUE;
}

gboolean
gateway_abort (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  GError *problem = NULL;
  if (!gateway_check_phase (call->upload, UPLOAD_CALL_ABORT, gateway_now_ms (), error))
    return FALSE;
  if (!empty_request_check (http_request_body (req), &problem))
    return refuse_body (problem, error);
  if (!gateway_end (ctx, call->gateway, &call->upload, UPLOAD_ABORTED, "the upload was aborted by its user", error))
    return FALSE;
  http_response_status (res, 204);
  return TRUE;
}

/* info */

static void
add_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *text)
{
  if (text != NULL)
    yyjson_mut_obj_add_strcpy (doc, object, name, text);
}

static void
add_multipart (yyjson_mut_doc *doc, yyjson_mut_val *root, const ModelUpload *upload, GPtrArray *parts)
{
  yyjson_mut_val *multipart = yyjson_mut_obj_add_obj (doc, root, "multipart");
  g_autofree char *key = model_upload_key (upload, upload->multipart_file);
  add_text (doc, multipart, "uploadID", upload->multipart_id);
  add_text (doc, multipart, "key", key);
  add_text (doc, multipart, "fileName", upload->multipart_file);
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (doc, multipart, "uploadedParts");
  for (guint i = 0; i < parts->len; i++)
    {
      const ObjectPart *part = g_ptr_array_index (parts, i);
      yyjson_mut_val *row = yyjson_mut_arr_add_obj (doc, list);
      yyjson_mut_obj_add_uint (doc, row, "partNumber", part->number);
      add_text (doc, row, "etag", part->etag);
      yyjson_mut_obj_add_uint (doc, row, "sizeBytes", part->size_bytes);
    }
}

static yyjson_mut_doc *
describe (const ModelUpload *upload, GPtrArray *parts)
{
  yyjson_mut_doc *doc = new_answer ();
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  yyjson_mut_obj_add_str (doc, root, "mode", "direct-multipart-staging");
  yyjson_mut_obj_add_str (doc, root, "phase", upload_phase_name (upload->phase));
  if (upload->expected_bytes != 0)
    yyjson_mut_obj_add_uint (doc, root, "expectedSizeBytes", upload->expected_bytes);
  if (upload->uploaded_bytes != 0)
    yyjson_mut_obj_add_uint (doc, root, "uploadedSizeBytes", upload->uploaded_bytes);
  add_text (doc, root, "declaredInputFormat", upload->declared_format);
  add_text (doc, root, "failureMessage", upload->failure);
  yyjson_mut_obj_add_uint (doc, root, "partURLTTLSeconds", LINK_TTL_S);
  yyjson_mut_obj_add_uint (doc, root, "minimumPartSizeBytes", OBJECT_PART_MIN_BYTES);
  yyjson_mut_obj_add_uint (doc, root, "maximumMultipartPartCount", OBJECT_PARTS_MAX);
  if (upload->probe_file != NULL)
    {
      yyjson_mut_val *probe = yyjson_mut_obj_add_obj (doc, root, "probe");
      add_text (doc, probe, "fileName", upload->probe_file);
      add_text (doc, probe, "resolvedInputFormat", upload->probe_format);
    }
  if (parts != NULL)
    add_multipart (doc, root, upload, parts);
  return doc;
}

gboolean
gateway_info (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autoptr (GPtrArray) parts = NULL;
  g_autoptr (GError) problem = NULL;
  if (call->upload->multipart_id != NULL)
    {
      parts = list_newest (ctx, call, &problem);
      if (parts == NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
    }
  if (parts != NULL && sum_of (parts) != call->upload->uploaded_bytes && is_sync_due (call->upload)
      && !save_progress (ctx, call, sum_of (parts), &problem))
    am_ignore (&problem, "the next call tells it");
  if (parts != NULL)
    call->upload->uploaded_bytes = sum_of (parts);
  g_autoptr (yyjson_mut_doc) doc = describe (call->upload, call->upload->multipart_id != NULL ? parts : NULL);
  answer (res, 200, doc);
  return TRUE;
}
