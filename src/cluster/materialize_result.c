#include "cluster/materialize_result.h"

#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "cluster/worker_result.h"

#define MAX_REASON_CHARS 64

static const JsonField done_fields[] = {
  JSON_FIELD (MaterializeOutcome, digest, "digest", JSON_STRING, TRUE),
  JSON_FIELD (MaterializeOutcome, size_bytes, "sizeBytes", JSON_UINT64, TRUE),
  JSON_FIELD (MaterializeOutcome, n_files, "files", JSON_UINT64, TRUE),
  JSON_FIELD (MaterializeOutcome, moved_bytes, "movedBytes", JSON_UINT64, TRUE),
  JSON_FIELD (MaterializeOutcome, was_there, "alreadyThere", JSON_BOOL, TRUE),
};
static const JsonField failed_fields[] = {
  JSON_FIELD (MaterializeOutcome, reason, "reason", JSON_STRING, TRUE),
  JSON_FIELD (MaterializeOutcome, message, "message", JSON_STRING, TRUE),
  JSON_FIELD (MaterializeOutcome, may_retry, "retry", JSON_BOOL, TRUE),
};
static const JsonField interrupted_fields[] = {
  JSON_FIELD (MaterializeOutcome, message, "message", JSON_STRING, TRUE),
};

static const struct {
  const char *name;
  const JsonField *fields;
  gsize n_fields;
} ends[] = {
  [MATERIALIZE_DONE] = { "result", done_fields, G_N_ELEMENTS (done_fields) },
  [MATERIALIZE_FAILED] = { "failure", failed_fields, G_N_ELEMENTS (failed_fields) },
  [MATERIALIZE_INTERRUPTED] = { "interrupted", interrupted_fields, G_N_ELEMENTS (interrupted_fields) },
};

void
materialize_outcome_clear (MaterializeOutcome *self)
{
  json_clear (done_fields, G_N_ELEMENTS (done_fields), self);
  json_clear (failed_fields, G_N_ELEMENTS (failed_fields), self);
  memset (self, 0, sizeof *self);
}

static char *
write_once (const MaterializeOutcome *self, const char *message)
{
  MaterializeOutcome shown = *self;
  shown.message = (char *) message;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *object = yyjson_mut_obj_add_obj (doc, root, ends[self->end].name);
  json_unbind (doc, object, ends[self->end].fields, ends[self->end].n_fields, &shown);
  return json_write (doc, NULL);
}

char *
materialize_result_format (const MaterializeOutcome *self)
{
  g_autofree char *message = worker_message (self->message != NULL ? self->message : "");
  char *text = write_once (self, message);
  while (strlen (text) > MATERIALIZE_RESULT_MAX_BYTES && *message != '\0')
    {
      *g_utf8_offset_to_pointer (message, g_utf8_strlen (message, -1) / 2) = '\0';
      g_free (text);
      text = write_once (self, message);
    }
  return text;
}

static gboolean
is_word (const char *text)
{
  gsize size = strlen (text);
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isalnum (text[i]))
      return FALSE;
  return size > 0 && size <= MAX_REASON_CHARS;
}

static gboolean
check (MaterializeOutcome *result, GError **error)
{
  Digest digest;
  if (result->end == MATERIALIZE_DONE)
    return digest_parse (result->digest, &digest, error);
  g_autofree char *message = g_steal_pointer (&result->message);
  result->message = worker_message (message);
  if (result->end == MATERIALIZE_FAILED && !is_word (result->reason))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"reason\" is no word");
  return TRUE;
}

static gboolean
bind (yyjson_val *root, MaterializeOutcome *result, GError **error)
{
  yyjson_val *object = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      yyjson_val *found = yyjson_obj_get (root, ends[i].name);
      if (found != NULL && object != NULL)
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "it says two things at once");
      if (found == NULL)
        continue;
      object = found;
      result->end = (MaterializeEnd) i;
    }
  if (object == NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "neither a result, nor a failure, nor an interruption");
  return json_bind (object, ends[result->end].fields, ends[result->end].n_fields, result, error)
         && check (result, error);
}

gboolean
materialize_result_parse (const char *text, gsize size, MaterializeOutcome *out_result, GError **error)
{
  g_auto (MaterializeOutcome) result = { 0 };
  g_autoptr (yyjson_doc) doc = json_parse (text, size, MATERIALIZE_RESULT_MAX_BYTES, JSON_STRICT, error);
  if (doc == NULL || !bind (yyjson_doc_get_root (doc), &result, error))
    {
      g_prefix_error (error, "the materializer's termination message: ");
      return FALSE;
    }
  *out_result = result;
  result = (MaterializeOutcome){ 0 };
  return TRUE;
}
