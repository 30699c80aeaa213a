#include "cluster/cleanup_state.h"

#include <string.h>

#define DIGEST_ANNOTATION MODEL_ANNOTATION "artifact-digest"
#define DAMAGED_ANNOTATION MODEL_ANNOTATION "artifact-damaged-at"
#define COMPLETED_ANNOTATION MODEL_ANNOTATION "cleanup-completed-at"
#define HANDLE_KEY "cleanupHandle"
#define RESULT_KEY "result.json"
#define REPOSITORIES "dmcr/docker/registry/v2/repositories/" /* where the registry has them in the bucket */

static void
add_encoded (yyjson_mut_doc *doc, yyjson_mut_val *data, const char *key, const char *text)
{
  g_autofree char *encoded = g_base64_encode ((const guchar *) text, strlen (text));
  yyjson_mut_obj_add_strcpy (doc, data, key, encoded);
}

/* The handle; `result` NULL: nothing is published yet. */
static char *
format_handle (const ModelOwner *owner, const char *registry, const WorkerResult *result)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  g_autofree char *repository = model_repository (owner);
  g_autofree char *prefix = g_strconcat (REPOSITORIES, repository, NULL);
  g_autofree char *uri = result != NULL ? g_strdup_printf ("%s/%s@%s", registry, repository, result->digest) : NULL;
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "kind", "BackendArtifact");
  if (result != NULL)
    {
      yyjson_mut_val *artifact = yyjson_mut_obj_add_obj (doc, root, "artifact");
      yyjson_mut_obj_add_str (doc, artifact, "kind", "OCI");
      yyjson_mut_obj_add_str (doc, artifact, "uri", uri);
      yyjson_mut_obj_add_str (doc, artifact, "digest", result->digest);
    }
  yyjson_mut_val *backend = yyjson_mut_obj_add_obj (doc, root, "backend");
  if (uri != NULL)
    yyjson_mut_obj_add_str (doc, backend, "reference", uri);
  yyjson_mut_obj_add_str (doc, backend, "repositoryMetadataPrefix", prefix);
  return json_write (doc, NULL);
}

static yyjson_mut_doc *
new_doc (yyjson_mut_val **out_metadata)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  *out_metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  return doc;
}

yyjson_mut_doc *
cleanup_state_new (const ModelOwner *owner)
{
  yyjson_mut_val *metadata;
  yyjson_mut_doc *doc = new_doc (&metadata);
  g_autofree char *name = model_object_name (CLEANUP_STATE_PREFIX, owner->uid);
  g_autofree char *handle = format_handle (owner, NULL, NULL);
  yyjson_mut_obj_add_strcpy (doc, metadata, "name", name);
  model_owner_mark (doc, metadata, owner, CLEANUP_STATE_APP);
  add_encoded (doc, metadata_map (doc, yyjson_mut_doc_get_root (doc), "data"), HANDLE_KEY, handle);
  return doc;
}

yyjson_mut_doc *
cleanup_state_result_patch (const ModelOwner *owner, const char *registry, const WorkerResult *result)
{
  yyjson_mut_val *metadata;
  yyjson_mut_doc *doc = new_doc (&metadata);
  yyjson_mut_val *annotations = metadata_map (doc, metadata, "annotations");
  yyjson_mut_val *data = metadata_map (doc, yyjson_mut_doc_get_root (doc), "data");
  g_autofree char *handle = format_handle (owner, registry, result);
  g_autofree char *text = worker_result_format (result);
  yyjson_mut_obj_add_strcpy (doc, annotations, DIGEST_ANNOTATION, result->digest);
  yyjson_mut_obj_add_null (doc, annotations, DAMAGED_ANNOTATION);
  add_encoded (doc, data, HANDLE_KEY, handle);
  add_encoded (doc, data, RESULT_KEY, text);
  return doc;
}

static yyjson_mut_doc *
annotation_patch (const char *name, const char *value)
{
  yyjson_mut_val *metadata;
  yyjson_mut_doc *doc = new_doc (&metadata);
  yyjson_mut_obj_add_strcpy (doc, metadata_map (doc, metadata, "annotations"), name, value);
  return doc;
}

yyjson_mut_doc *
cleanup_state_damage_patch (const char *at)
{
  return annotation_patch (DAMAGED_ANNOTATION, at);
}

yyjson_mut_doc *
cleanup_state_completion_patch (const char *at)
{
  return annotation_patch (COMPLETED_ANNOTATION, at);
}

const char *
cleanup_state_digest (const KubeObject *secret)
{
  return kube_object_annotation (secret, DIGEST_ANNOTATION);
}

gboolean
cleanup_state_is_damaged (const KubeObject *secret)
{
  return kube_object_annotation (secret, DAMAGED_ANNOTATION) != NULL;
}

gboolean
cleanup_state_is_complete (const KubeObject *secret)
{
  return kube_object_annotation (secret, COMPLETED_ANNOTATION) != NULL;
}

gboolean
cleanup_state_read_result (const KubeObject *secret, WorkerResult *out_result, GError **error)
{
  const char *encoded = json_get_string (json_get_object (kube_object_root (secret), "data"), RESULT_KEY);
  gsize size = 0;
  if (encoded == NULL)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "Secret %s/%s holds no result", kube_object_namespace (secret),
                    kube_object_name (secret));
  g_autofree guchar *text = g_base64_decode (encoded, &size);
  return worker_result_parse ((const char *) text, size, out_result, error);
}

void
cleanup_state_trim (yyjson_mut_val *root)
{
  yyjson_mut_obj_remove_key (root, "data");
}
