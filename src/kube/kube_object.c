#include "kube/kube_object.h"

#include <string.h>

#include "base/text.h"

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

struct KubeObject {
  gatomicrefcount n_refs;
  yyjson_doc *doc;
  yyjson_val *metadata;
};

KubeObject *
kube_object_new (yyjson_doc *doc, GError **error)
{
  yyjson_val *metadata = json_get_object (yyjson_doc_get_root (doc), "metadata");
  if (metadata == NULL)
    {
      yyjson_doc_free (doc);
      return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                           "this is no Kubernetes object: it has no metadata");
    }
  KubeObject *self = g_new (KubeObject, 1);
  g_atomic_ref_count_init (&self->n_refs);
  self->doc = doc;
  self->metadata = metadata;
  return self;
}

KubeObject *
kube_object_parse (gconstpointer text, gsize size, gsize limit_bytes, GError **error)
{
  yyjson_doc *doc = json_parse (text, size, limit_bytes, JSON_STRICT, error);
  return doc != NULL ? kube_object_new (doc, error) : NULL;
}

KubeObject *
kube_object_parse_shallow (gconstpointer text, gsize size, GError **error)
{
  yyjson_doc *doc = json_parse (text, size, G_MAXSIZE, JSON_SHALLOW, error);
  return doc != NULL ? kube_object_new (doc, error) : NULL;
}

KubeObject *
kube_object_new_from (yyjson_val *value, GError **error)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (doc, yyjson_val_mut_copy (doc, value));
  return kube_object_new (yyjson_mut_doc_imut_copy (doc, NULL), error);
}

KubeObject *
kube_object_ref (KubeObject *self)
{
  g_atomic_ref_count_inc (&self->n_refs);
  return self;
}

void
kube_object_unref (KubeObject *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->n_refs))
    return;
  yyjson_doc_free (self->doc);
  g_free (self);
}

yyjson_val *
kube_object_root (const KubeObject *self)
{
  return yyjson_doc_get_root (self->doc);
}

yyjson_val *
kube_object_spec (const KubeObject *self)
{
  return json_get_object (kube_object_root (self), "spec");
}

yyjson_val *
kube_object_status (const KubeObject *self)
{
  return json_get_object (kube_object_root (self), "status");
}

static const char *
metadata_text (const KubeObject *self, const char *name)
{
  const char *text = json_get_string (self->metadata, name);
  return text != NULL ? text : "";
}

const char *
kube_object_name (const KubeObject *self)
{
  return metadata_text (self, "name");
}

const char *
kube_object_namespace (const KubeObject *self)
{
  return metadata_text (self, "namespace");
}

const char *
kube_object_uid (const KubeObject *self)
{
  return metadata_text (self, "uid");
}

const char *
kube_object_resource_version (const KubeObject *self)
{
  return metadata_text (self, "resourceVersion");
}

gint64
kube_object_generation (const KubeObject *self)
{
  return yyjson_get_sint (yyjson_obj_get (self->metadata, "generation"));
}

gint64
kube_object_created_s (const KubeObject *self)
{
  return time_text_parse (json_get_string (self->metadata, "creationTimestamp"));
}

gint64
kube_object_deleted_s (const KubeObject *self)
{
  return time_text_parse (json_get_string (self->metadata, "deletionTimestamp"));
}

gboolean
kube_object_is_deleting (const KubeObject *self)
{
  return json_get_string (self->metadata, "deletionTimestamp") != NULL;
}

gboolean
kube_object_has_finalizer (const KubeObject *self, const char *finalizer)
{
  size_t index, n;
  yyjson_val *each;
  yyjson_arr_foreach (json_get_array (self->metadata, "finalizers"), index, n, each)
  {
    if (yyjson_equals_str (each, finalizer))
      return TRUE;
  }
  return FALSE;
}

const char *
kube_object_label (const KubeObject *self, const char *name)
{
  return json_get_string (json_get_object (self->metadata, "labels"), name);
}

const char *
kube_object_annotation (const KubeObject *self, const char *name)
{
  return json_get_string (json_get_object (self->metadata, "annotations"), name);
}

yyjson_val *
kube_object_controller (const KubeObject *self)
{
  size_t index, n;
  yyjson_val *each;
  yyjson_arr_foreach (json_get_array (self->metadata, "ownerReferences"), index, n, each)
  {
    if (yyjson_is_true (yyjson_obj_get (each, "controller")))
      return each;
  }
  return NULL;
}

yyjson_mut_doc *
kube_object_edit (const KubeObject *self)
{
  return yyjson_doc_mut_copy (self->doc, NULL);
}

/* A copy of an object's members without the one of this name. */
static yyjson_mut_val *
copy_without (yyjson_mut_doc *doc, yyjson_val *object, const char *name)
{
  yyjson_mut_val *copy = yyjson_mut_obj (doc);
  size_t index, n;
  yyjson_val *key, *value;
  yyjson_obj_foreach (object, index, n, key, value)
  {
    if (!yyjson_equals_str (key, name))
      yyjson_mut_obj_add (copy, yyjson_val_mut_copy (doc, key), yyjson_val_mut_copy (doc, value));
  }
  return copy;
}

KubeObject *
kube_object_trimmed (const KubeObject *self, KubeTrim trim, char **out_text, gsize *out_size)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = copy_without (doc, kube_object_root (self), "metadata");
  yyjson_mut_val *metadata = copy_without (doc, self->metadata, "managedFields");
  yyjson_mut_val *annotations = yyjson_mut_obj_get (metadata, "annotations");
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_val (doc, root, "metadata", metadata);
  if (annotations != NULL)
    yyjson_mut_obj_remove_key (annotations, LAST_APPLIED);
  if (trim != NULL)
    trim (root);
  *out_text = json_write (doc, out_size);
  return kube_object_new (yyjson_mut_doc_imut_copy (doc, NULL), NULL);
}
