#include "controllers/workload_patch.h"

#include "base/json_patch.h"
#include "cluster/module_objects.h"
#include "domain/delivery_names.h"

static void
put_annotation (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const char *name, const char *value)
{
  yyjson_mut_val *map = metadata_map (doc, metadata, "annotations");
  yyjson_mut_obj_remove_key (map, name);
  if (value != NULL)
    yyjson_mut_obj_add_strcpy (doc, map, name, value);
  if (yyjson_mut_obj_size (map) == 0)
    yyjson_mut_obj_remove_key (metadata, "annotations");
}

static void
put_finalizer (yyjson_mut_doc *doc, yyjson_mut_val *metadata, gboolean is_wanted)
{
  yyjson_mut_val *before = yyjson_mut_obj_get (metadata, "finalizers"), *list = yyjson_mut_arr (doc), *each;
  size_t index, n;
  yyjson_mut_arr_foreach (before, index, n, each)
  {
    if (!yyjson_mut_equals_str (each, DELIVERY_FINALIZER))
      yyjson_mut_arr_append (list, yyjson_mut_val_mut_copy (doc, each));
  }
  if (is_wanted)
    yyjson_mut_arr_add_str (doc, list, DELIVERY_FINALIZER);
  yyjson_mut_obj_remove_key (metadata, "finalizers");
  if (yyjson_mut_arr_size (list) > 0)
    yyjson_mut_obj_add_val (doc, metadata, "finalizers", list);
}

static void
put_template (yyjson_mut_doc *doc, yyjson_mut_val *template, const WorkloadChange *change)
{
  if (change->form == DELIVERY_DELIVER)
    pod_template_deliver (doc, template, change->plan);
  else if (change->form == DELIVERY_HOLD)
    pod_template_hold (doc, template);
  else if (change->form == DELIVERY_CLEAR)
    pod_template_clear (doc, template);
}

yyjson_mut_doc *
workload_patch (const WorkloadKind *kind, const KubeObject *workload, const WorkloadChange *change)
{
  g_autoptr (yyjson_mut_doc) before = kube_object_edit (workload), doc = kube_object_edit (workload);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc), *metadata = yyjson_mut_obj_get (root, "metadata");
  put_template (doc, workload_template (kind, root), change);
  if (change->wants_finalizer != kube_object_has_finalizer (workload, DELIVERY_FINALIZER))
    put_finalizer (doc, metadata, change->wants_finalizer);
  if (change->changes_report)
    {
      put_annotation (doc, metadata, DELIVERY_BLOCKED_REASON_ANNOTATION, change->reason);
      put_annotation (doc, metadata, DELIVERY_BLOCKED_MESSAGE_ANNOTATION,
                      change->reason != NULL ? change->message : NULL);
    }
  yyjson_mut_doc *patch = json_patch_between (yyjson_mut_doc_get_root (before), root);
  yyjson_mut_val *version = yyjson_mut_arr_add_obj (patch, yyjson_mut_doc_get_root (patch));
  yyjson_mut_obj_add_str (patch, version, "op", "replace");
  yyjson_mut_obj_add_str (patch, version, "path", "/metadata/resourceVersion");
  yyjson_mut_obj_add_strcpy (patch, version, "value", kube_object_resource_version (workload));
  return patch;
}
