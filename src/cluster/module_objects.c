#include "cluster/module_objects.h"

#include <string.h>

#define AI_GROUP "ai.deckhouse.io"
#define RBAC_GROUP "rbac.authorization.k8s.io"
#define MAX_UID_CHARACTERS 40
#define MAX_LABEL_BYTES 63
#define MAX_NAME_BYTES 253
#define HASH_CHARACTERS 10
#define UPLOAD_READER_PREFIX "ai-model-upload-reader-"

const KubeKind model_kind = { AI_GROUP, "v1alpha1", "models", "Model", TRUE };
const KubeKind cluster_model_kind = { AI_GROUP, "v1alpha1", "clustermodels", "ClusterModel", FALSE };
const KubeKind pod_kind = { "", "v1", "pods", "Pod", TRUE };
const KubeKind secret_kind = { "", "v1", "secrets", "Secret", TRUE };
const KubeKind config_map_kind = { "", "v1", "configmaps", "ConfigMap", TRUE };
const KubeKind role_kind = { RBAC_GROUP, "v1", "roles", "Role", TRUE };
const KubeKind role_binding_kind = { RBAC_GROUP, "v1", "rolebindings", "RoleBinding", TRUE };

ModelOwner
model_owner_of (const KubeObject *model, gboolean is_cluster_wide)
{
  return (ModelOwner){
    .kind = is_cluster_wide ? cluster_model_kind.kind : model_kind.kind,
    .namespace = is_cluster_wide ? NULL : kube_object_namespace (model),
    .name = kube_object_name (model),
    .uid = kube_object_uid (model),
  };
}

char *
model_object_name (const char *prefix, const char *uid)
{
  g_autofree char *cut = g_strndup (uid, MAX_UID_CHARACTERS);
  g_autofree char *lower = g_ascii_strdown (cut, -1);
  return g_strconcat (prefix, g_strdelimit (lower, "_.:", '-'), NULL);
}

char *
model_upload_reader_name (const char *model_name)
{
  gsize room = MAX_NAME_BYTES - strlen (UPLOAD_READER_PREFIX);
  if (strlen (model_name) <= room)
    return g_strconcat (UPLOAD_READER_PREFIX, model_name, NULL);
  g_autofree char *hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, model_name, -1);
  return g_strdup_printf (UPLOAD_READER_PREFIX "%.*s-%.*s", (int) (room - HASH_CHARACTERS - 1), model_name,
                          HASH_CHARACTERS, hash);
}

char *
model_repository (const ModelOwner *owner)
{
  return owner->namespace != NULL
           ? g_strdup_printf ("ai-models/catalog/namespaced/%s/%s/%s", owner->namespace, owner->name, owner->uid)
           : g_strdup_printf ("ai-models/catalog/cluster/%s/%s", owner->name, owner->uid);
}

yyjson_mut_val *
metadata_map (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const char *name)
{
  yyjson_mut_val *map = yyjson_mut_obj_get (metadata, name);
  if (yyjson_mut_is_obj (map))
    return map;
  yyjson_mut_obj_remove_key (metadata, name); /* what is no map */
  return yyjson_mut_obj_add_obj (doc, metadata, name);
}

/* A label's value ends in a letter or digit. */
void
metadata_label (yyjson_mut_doc *doc, yyjson_mut_val *labels, const char *name, const char *value)
{
  g_autofree char *cut = g_strndup (value, MAX_LABEL_BYTES);
  for (gsize size = strlen (cut); size > 0 && !g_ascii_isalnum (cut[size - 1]); size--)
    cut[size - 1] = '\0';
  yyjson_mut_val *key = yyjson_mut_strcpy (doc, name);
  yyjson_mut_obj_put (labels, key, yyjson_mut_strcpy (doc, cut));
}

void
model_owner_mark (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const ModelOwner *owner, const char *app)
{
  yyjson_mut_val *labels = metadata_map (doc, metadata, "labels");
  yyjson_mut_val *annotations = metadata_map (doc, metadata, "annotations");
  yyjson_mut_obj_add_strcpy (doc, labels, APP_LABEL, app);
  yyjson_mut_obj_add_str (doc, labels, "app.kubernetes.io/part-of", "ai-models");
  metadata_label (doc, labels, MODEL_ANNOTATION "owner-kind", owner->kind);
  metadata_label (doc, labels, MODEL_ANNOTATION "owner-name", owner->name);
  metadata_label (doc, labels, MODEL_ANNOTATION "owner-uid", owner->uid);
  yyjson_mut_obj_add_strcpy (doc, annotations, MODEL_ANNOTATION "owner-kind-full", owner->kind);
  yyjson_mut_obj_add_strcpy (doc, annotations, MODEL_ANNOTATION "owner-name-full", owner->name);
  yyjson_mut_obj_add_strcpy (doc, annotations, MODEL_ANNOTATION "owner-uid-full", owner->uid);
  if (owner->namespace == NULL)
    return;
  metadata_label (doc, labels, MODEL_ANNOTATION "owner-namespace", owner->namespace);
  yyjson_mut_obj_add_strcpy (doc, annotations, MODEL_ANNOTATION "owner-namespace-full", owner->namespace);
}

gboolean
model_owner_read (const KubeObject *object, ModelOwner *out_owner)
{
  ModelOwner owner = {
    .kind = kube_object_annotation (object, MODEL_ANNOTATION "owner-kind-full"),
    .namespace = kube_object_annotation (object, MODEL_ANNOTATION "owner-namespace-full"),
    .name = kube_object_annotation (object, MODEL_ANNOTATION "owner-name-full"),
    .uid = kube_object_annotation (object, MODEL_ANNOTATION "owner-uid-full"),
  };
  gboolean is_cluster_wide = g_strcmp0 (owner.kind, cluster_model_kind.kind) == 0;
  gboolean is_known = is_cluster_wide || g_strcmp0 (owner.kind, model_kind.kind) == 0;
  if (!is_known || owner.name == NULL || owner.uid == NULL || is_cluster_wide != (owner.namespace == NULL))
    return FALSE;
  *out_owner = owner;
  return TRUE;
}
