#include "cluster/worker_result.h"

#include <string.h>

#include "base/digest.h"

#define MAX_TEXT_BYTES 512u
#define ELLIPSIS "\xe2\x80\xa6"

/* Failures that a worker may tell of: the reasons of ArtifactResolved that are not the controller's own. */
static const char *const reasons[] = { "PublicationFailed", "InsufficientStorage", "UnsupportedSource", NULL };

static const JsonField artifact_fields[] = {
  JSON_FIELD (WorkerResult, digest, "digest", JSON_STRING, TRUE),
  JSON_FIELD (WorkerResult, media_type, "mediaType", JSON_STRING, TRUE),
  JSON_FIELD (WorkerResult, size_bytes, "sizeBytes", JSON_UINT64, TRUE),
  JSON_FIELD (WorkerResult, repository, "repository", JSON_STRING, TRUE),
};
static const JsonField source_fields[] = {
  JSON_FIELD (WorkerResult, source_type, "resolvedType", JSON_STRING, TRUE),
  JSON_FIELD (WorkerResult, source_revision, "resolvedRevision", JSON_STRING, FALSE),
};
static const JsonField result_fields[] = {
  JSON_FIELD (WorkerResult, metadata_complete, "metadataComplete", JSON_BOOL, TRUE),
};
static const JsonField failure_fields[] = {
  JSON_FIELD (WorkerResult, reason, "reason", JSON_STRING, TRUE),
  JSON_FIELD (WorkerResult, message, "message", JSON_STRING, TRUE),
};
static const JsonField interruption_fields[] = {
  JSON_FIELD (WorkerResult, message, "message", JSON_STRING, TRUE),
};

void
worker_result_clear (WorkerResult *self)
{
  json_clear (artifact_fields, G_N_ELEMENTS (artifact_fields), self);
  json_clear (source_fields, G_N_ELEMENTS (source_fields), self);
  json_clear (failure_fields, G_N_ELEMENTS (failure_fields), self);
  resolved_model_clear (&self->resolved);
  memset (self, 0, sizeof *self);
}

static char *
cut (const char *text, glong max_chars)
{
  if (g_utf8_strlen (text, -1) <= max_chars)
    return g_strdup (text);
  g_autofree char *head = g_utf8_substring (text, 0, max_chars - 1);
  return g_strconcat (head, ELLIPSIS, NULL);
}

char *
worker_message (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  for (char *at = valid; *at != '\0'; at++)
    if (g_ascii_iscntrl (*at))
      *at = ' ';
  return cut (g_strstrip (valid), WORKER_RESULT_MAX_MESSAGE_CHARS);
}

static yyjson_mut_val *
add_object (yyjson_mut_doc *doc, yyjson_mut_val *parent, const char *name, const JsonField *fields, gsize n_fields,
            const WorkerResult *self)
{
  yyjson_mut_val *object = yyjson_mut_obj_add_obj (doc, parent, name);
  json_unbind (doc, object, fields, n_fields, self);
  return object;
}

static char *
write_once (const WorkerResult *self, const ResolvedModel *resolved, const char *message)
{
  WorkerResult shown = *self;
  shown.message = (char *) message;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  if (self->end == WORKER_HAS_FAILED)
    add_object (doc, root, "failure", failure_fields, G_N_ELEMENTS (failure_fields), &shown);
  else if (self->end == WORKER_WAS_INTERRUPTED)
    add_object (doc, root, "interrupted", interruption_fields, G_N_ELEMENTS (interruption_fields), &shown);
  else
    {
      yyjson_mut_val *result = yyjson_mut_obj_add_obj (doc, root, "result");
      add_object (doc, result, "artifact", artifact_fields, G_N_ELEMENTS (artifact_fields), self);
      add_object (doc, result, "source", source_fields, G_N_ELEMENTS (source_fields), self);
      resolved_model_add (resolved, doc, yyjson_mut_obj_add_obj (doc, result, "resolved"));
      json_unbind (doc, result, result_fields, G_N_ELEMENTS (result_fields), self);
    }
  return json_write (doc, NULL);
}

/* A copy to shorten. */
static void
copy_resolved (const ResolvedModel *self, ResolvedModel *out_copy)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  resolved_model_add (self, doc, root);
  g_autoptr (yyjson_doc) read = yyjson_mut_doc_imut_copy (doc, NULL);
  if (!resolved_model_parse (yyjson_doc_get_root (read), out_copy, NULL))
    g_assert_not_reached ();
}

static char *
format_result (const WorkerResult *self)
{
  ResolvedModel resolved = { 0 };
  copy_resolved (&self->resolved, &resolved);
  char *text = write_once (self, &resolved, NULL);
  while (strlen (text) > WORKER_RESULT_MAX_BYTES && resolved_model_shorten (&resolved))
    {
      g_free (text);
      text = write_once (self, &resolved, NULL);
    }
  resolved_model_clear (&resolved);
  return text;
}

char *
worker_result_format (const WorkerResult *self)
{
  if (self->end == WORKER_HAS_RESULT)
    return format_result (self);
  g_autofree char *message = worker_message (self->message != NULL ? self->message : "");
  glong n_chars = WORKER_RESULT_MAX_MESSAGE_CHARS;
  char *text = write_once (self, NULL, message);
  while (strlen (text) > WORKER_RESULT_MAX_BYTES)
    {
      n_chars /= 2;
      g_autofree char *shorter = cut (message, n_chars);
      g_free (text);
      text = write_once (self, NULL, shorter);
    }
  return text;
}

static gboolean
is_short (const char *text)
{
  return text == NULL || (*text != '\0' && strlen (text) <= MAX_TEXT_BYTES);
}

static gboolean
check_result (const WorkerResult *result, GError **error)
{
  Digest digest;
  if (!digest_parse (result->digest, &digest, error))
    return FALSE;
  if (digest.algorithm != DIGEST_SHA256)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"digest\" is no SHA-256");
  if (result->size_bytes == 0 || result->size_bytes > G_MAXINT64)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"sizeBytes\" is no size of an artifact");
  if (!is_short (result->media_type) || !is_short (result->repository) || !is_short (result->source_revision))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "a text is empty or longer than %u bytes",
                    MAX_TEXT_BYTES);
  if (!resolved_model_has_provider (result->source_type))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"resolvedType\" is none that we know");
  return TRUE;
}

static gboolean
bind_result (yyjson_val *object, WorkerResult *result, GError **error)
{
  return json_bind (object, result_fields, G_N_ELEMENTS (result_fields), result, error)
         && json_bind (yyjson_obj_get (object, "artifact"), artifact_fields, G_N_ELEMENTS (artifact_fields), result,
                       error)
         && json_bind (yyjson_obj_get (object, "source"), source_fields, G_N_ELEMENTS (source_fields), result, error)
         && resolved_model_parse (yyjson_obj_get (object, "resolved"), &result->resolved, error)
         && check_result (result, error);
}

static void
tidy_words (WorkerResult *result)
{
  g_autofree char *message = result->message;
  result->message = worker_message (message);
  if (result->reason == NULL || g_strv_contains (reasons, result->reason))
    return;
  g_free (result->reason);
  result->reason = g_strdup (reasons[0]);
}

static gboolean
bind_words (yyjson_val *object, const JsonField *fields, gsize n_fields, WorkerResult *result, GError **error)
{
  if (!json_bind (object, fields, n_fields, result, error))
    return FALSE;
  tidy_words (result);
  return TRUE;
}

static gboolean
bind (yyjson_val *root, WorkerResult *result, GError **error)
{
  yyjson_val *success = yyjson_obj_get (root, "result"), *failure = yyjson_obj_get (root, "failure");
  yyjson_val *interruption = yyjson_obj_get (root, "interrupted");
  if ((success != NULL) + (failure != NULL) + (interruption != NULL) != 1)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "neither a result, nor a failure, nor an interruption");
  result->end = success != NULL ? WORKER_HAS_RESULT : failure != NULL ? WORKER_HAS_FAILED : WORKER_WAS_INTERRUPTED;
  if (success != NULL)
    return bind_result (success, result, error);
  return failure != NULL
           ? bind_words (failure, failure_fields, G_N_ELEMENTS (failure_fields), result, error)
           : bind_words (interruption, interruption_fields, G_N_ELEMENTS (interruption_fields), result, error);
}

gboolean
worker_result_parse (const char *text, gsize size, WorkerResult *out_result, GError **error)
{
  g_auto (WorkerResult) result = { 0 };
  g_autoptr (yyjson_doc) doc = json_parse (text, size, WORKER_RESULT_MAX_BYTES, JSON_STRICT, error);
  if (doc == NULL || !bind (yyjson_doc_get_root (doc), &result, error))
    {
      g_prefix_error (error, "the worker's termination message: ");
      return FALSE;
    }
  *out_result = result;
  result = (WorkerResult){ 0 };
  return TRUE;
}
