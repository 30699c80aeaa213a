#include "controllers/storage_class_sight.h"

#define DEFAULT_ANNOTATION "storageclass.kubernetes.io/is-default-class"

static StorageClassView
view_of (const KubeObject *class)
{
  yyjson_val *root = kube_object_root (class);
  return (StorageClassView){
    .name = kube_object_name (class),
    .is_default = g_strcmp0 (kube_object_annotation (class, DEFAULT_ANNOTATION), "true") == 0,
    .defers_binding = g_strcmp0 (json_get_string (root, "volumeBindingMode"), "WaitForFirstConsumer") == 0,
  };
}

void
storage_class_sight_read (const DeliveryCaches *caches, StorageClassSight *out_sight)
{
  g_autoptr (GPtrArray) classes = informer_find (caches->storage_classes, NULL);
  g_autofree StorageClassView *views = g_new (StorageClassView, classes->len);
  for (guint i = 0; i < classes->len; i++)
    views[i] = view_of (g_ptr_array_index (classes, i));
  out_sight->choice = storage_class_choose (&caches->settings->delivery.storage_classes, views, classes->len);
  out_sight->classes = g_steal_pointer (&classes);
}

void
storage_class_sight_clear (StorageClassSight *self)
{
  g_clear_pointer (&self->classes, g_ptr_array_unref);
}
