#include "controllers/status_document.h"

#include <string.h>

#include "cluster/module_objects.h"

/* What a situation says when there is nothing special: of the artifact, and of being ready. */
static const char *const messages[][2] = {
  [MODEL_AT_PREPARING_UPLOAD] = { "the upload is being prepared", "the upload is being prepared" },
  [MODEL_AT_WAITING_UPLOAD] = { "the file is awaited: the Secret that status.upload.secretName names has the address "
                                "and the token for it",
                                "the file is not there yet" },
  [MODEL_AT_WAITING] = { "it is not started yet", "it is not started yet" },
  [MODEL_AT_QUEUED] = { "it waits for a free worker", "it waits for a free worker" },
  [MODEL_AT_RUNNING] = { "the files are being fetched, checked and stored",
                         "the files are being fetched, checked and stored" },
  [MODEL_AT_READY] = { "the files are stored and verified", "the model can be used" },
  [MODEL_AT_FAILED] = { "the model could not be published", "the model could not be published" },
  [MODEL_AT_DELETING] = { NULL, "what is stored of it is being removed" },
  [MODEL_AT_DELETION_STUCK] = { NULL, "removing what is stored of it failed and is tried again" },
};
static const char whole_metadata[] = "what there is to know of the model is known",
                  partial_metadata[] = "some of what there is to know of the model is not told by its files";

/* Sets or, with NULL, removes a text. */
static void
put_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *value)
{
  yyjson_mut_obj_remove_key (object, name);
  if (value != NULL)
    yyjson_mut_obj_add_strcpy (doc, object, name, value);
}

static void
put_number (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, gint64 value)
{
  yyjson_mut_obj_remove_key (object, name);
  yyjson_mut_obj_add_int (doc, object, name, value);
}

static yyjson_mut_val *
fresh_object (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name)
{
  yyjson_mut_obj_remove_key (object, name);
  return yyjson_mut_obj_add_obj (doc, object, name);
}

static yyjson_mut_val *
find_condition (yyjson_mut_val *conditions, const char *type)
{
  size_t index, n;
  yyjson_mut_val *each;
  yyjson_mut_arr_foreach (conditions, index, n, each)
  {
    if (yyjson_mut_equals_str (yyjson_mut_obj_get (each, "type"), type))
      return each;
  }
  return NULL;
}

static void
put_condition (yyjson_mut_doc *doc, yyjson_mut_val *conditions, const ModelCondition *wanted, const char *message,
               gint64 generation, const char *now)
{
  yyjson_mut_val *condition = find_condition (conditions, wanted->type);
  if (condition == NULL)
    {
      condition = yyjson_mut_arr_add_obj (doc, conditions);
      yyjson_mut_obj_add_strcpy (doc, condition, "type", wanted->type);
    }
  gboolean flips = !yyjson_mut_equals_str (yyjson_mut_obj_get (condition, "status"), wanted->status);
  if (flips || !yyjson_mut_is_str (yyjson_mut_obj_get (condition, "lastTransitionTime")))
    put_text (doc, condition, "lastTransitionTime", now);
  put_text (doc, condition, "status", wanted->status);
  put_text (doc, condition, "reason", wanted->reason);
  put_text (doc, condition, "message", message);
  put_number (doc, condition, "observedGeneration", generation);
}

/* A Ready status that has lost the condition is told anew with a result; otherwise it stays what it was. */
static gboolean
metadata_is_whole (const KubeObject *model, const StatusWish *wish)
{
  if (wish->result != NULL)
    return wish->result->metadata_complete;
  const char *reason = json_get_string (status_condition (model, "MetadataResolved"), "reason");
  return g_strcmp0 (reason, "ModelMetadataCalculated") == 0;
}

static void
put_conditions (yyjson_mut_doc *doc, yyjson_mut_val *status, const KubeObject *model, const StatusWish *wish,
                const ModelStatus *wanted, gboolean is_whole, const char *now)
{
  const char *const *own = messages[wish->situation];
  g_autofree char *given = wish->message != NULL ? worker_message (wish->message) : NULL;
  const char *texts[MODEL_N_CONDITIONS] = {
    [MODEL_ARTIFACT_RESOLVED] = given != NULL ? given : own[0],
    [MODEL_METADATA_RESOLVED] = is_whole ? whole_metadata : partial_metadata,
    [MODEL_IS_READY] = given != NULL && wish->situation != MODEL_AT_READY ? given : own[1],
  };
  yyjson_mut_val *conditions = yyjson_mut_obj_get (status, "conditions");
  if (!yyjson_mut_is_arr (conditions))
    {
      yyjson_mut_obj_remove_key (status, "conditions");
      conditions = yyjson_mut_obj_add_arr (doc, status, "conditions");
    }
  for (guint i = 0; i < MODEL_N_CONDITIONS; i++)
    if (wanted->conditions[i].status != NULL)
      put_condition (doc, conditions, &wanted->conditions[i], texts[i], kube_object_generation (model), now);
}

static void
put_source (yyjson_mut_doc *doc, yyjson_mut_val *status, const char *type, const char *revision)
{
  if (type == NULL && revision == NULL)
    return;
  yyjson_mut_val *source = metadata_map (doc, status, "source");
  if (type != NULL)
    put_text (doc, source, "resolvedType", type);
  if (revision != NULL)
    put_text (doc, source, "resolvedRevision", revision);
}

static void
put_upload (yyjson_mut_doc *doc, yyjson_mut_val *status, const StatusWish *wish)
{
  yyjson_mut_obj_remove_key (status, "upload");
  if (wish->situation != MODEL_AT_WAITING_UPLOAD || wish->upload_secret == NULL)
    return;
  yyjson_mut_val *upload = yyjson_mut_obj_add_obj (doc, status, "upload");
  put_text (doc, upload, "secretName", wish->upload_secret);
  put_text (doc, upload, "expiresAt", wish->upload_expires);
}

static void
put_result (yyjson_mut_doc *doc, yyjson_mut_val *status, const WorkerResult *result)
{
  yyjson_mut_val *artifact = fresh_object (doc, status, "artifact");
  yyjson_mut_obj_add_str (doc, artifact, "kind", "OCI");
  put_text (doc, artifact, "digest", result->digest);
  put_text (doc, artifact, "mediaType", result->media_type);
  put_number (doc, artifact, "sizeBytes", (gint64) MIN (result->size_bytes, G_MAXINT64));
  put_source (doc, status, result->source_type, result->source_revision);
  resolved_model_add (&result->resolved, doc, fresh_object (doc, status, "resolved"));
}

yyjson_mut_doc *
status_document (const KubeObject *model, const StatusWish *wish, const char *now)
{
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (model);
  gboolean is_whole = metadata_is_whole (model, wish);
  ModelStatus wanted = model_status_of (wish->situation, wish->reason, is_whole);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc), *status = metadata_map (doc, root, "status");
  yyjson_val *before = kube_object_status (model);
  yyjson_mut_val *old = before != NULL ? yyjson_val_mut_copy (doc, before) : NULL;
  put_number (doc, status, "observedGeneration", kube_object_generation (model));
  put_text (doc, status, "phase", model_phase_name (wanted.phase));
  put_text (doc, status, "progress", wanted.progress != NULL ? wanted.progress : wish->progress);
  if (!wanted.keeps_artifact)
    {
      yyjson_mut_obj_remove_key (status, "artifact");
      yyjson_mut_obj_remove_key (status, "resolved");
    }
  put_conditions (doc, status, model, wish, &wanted, is_whole, now);
  put_source (doc, status, wish->source_type, wish->revision);
  put_upload (doc, status, wish);
  if (wish->situation == MODEL_AT_READY && wish->result != NULL)
    put_result (doc, status, wish->result);
  return old != NULL && yyjson_mut_equals (old, status) ? NULL : g_steal_pointer (&doc);
}

yyjson_val *
status_condition (const KubeObject *model, const char *type)
{
  size_t index, n;
  yyjson_val *each;
  yyjson_arr_foreach (json_get_array (kube_object_status (model), "conditions"), index, n, each)
  {
    if (yyjson_equals_str (yyjson_obj_get (each, "type"), type))
      return each;
  }
  return NULL;
}

gboolean
status_shows_artifact (const KubeObject *model, const char *digest)
{
  yyjson_val *status = kube_object_status (model), *artifact = json_get_object (status, "artifact");
  yyjson_val *metadata = status_condition (model, "MetadataResolved");
  return g_strcmp0 (json_get_string (artifact, "digest"), digest) == 0
         && yyjson_get_sint (yyjson_obj_get (artifact, "sizeBytes")) > 0
         && json_get_string (artifact, "mediaType") != NULL && json_get_object (status, "resolved") != NULL
         && json_get_string (json_get_object (status, "source"), "resolvedType") != NULL
         && g_strcmp0 (json_get_string (metadata, "status"), "True") == 0;
}
