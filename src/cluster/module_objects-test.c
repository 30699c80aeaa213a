#include "cluster/module_objects.h"

#include <string.h>

static const ModelOwner one = { "Model", "llama", "team-a", "AB_cd.ef:01" };
static const ModelOwner wide = { "ClusterModel", "llama", NULL, "u-2" };

static void
test_names (void)
{
  g_autofree char *pod = model_object_name (WORKER_PREFIX, one.uid);
  g_autofree char *cut = model_object_name (WORKER_PREFIX, "0123456789012345678901234567890123456789-and-more");
  g_autofree char *role = model_upload_reader_name ("llama");
  g_autofree char *of_namespace = model_repository (&one);
  g_autofree char *of_cluster = model_repository (&wide);
  g_assert_cmpstr (pod, ==, "ai-model-publish-ab-cd-ef-01");
  g_assert_cmpstr (cut, ==, "ai-model-publish-0123456789012345678901234567890123456789");
  g_assert_cmpstr (role, ==, "ai-model-upload-reader-llama");
  g_assert_cmpstr (of_namespace, ==, "ai-models/catalog/namespaced/team-a/llama/AB_cd.ef:01");
  g_assert_cmpstr (of_cluster, ==, "ai-models/catalog/cluster/llama/u-2");
}

/* Names that agree in all that is kept of them still differ. */
static void
test_long_reader_names (void)
{
  char name[254], other[254];
  memset (name, 'a', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  memcpy (other, name, sizeof other);
  other[sizeof other - 2] = 'b';
  g_autofree char *role = model_upload_reader_name (name);
  g_autofree char *again = model_upload_reader_name (name);
  g_autofree char *another = model_upload_reader_name (other);
  g_assert_cmpuint (strlen (role), ==, 253);
  g_assert_cmpstr (role, ==, again);
  g_assert_cmpstr (role, !=, another);
}

static KubeObject *
marked (const ModelOwner *owner)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  model_owner_mark (doc, yyjson_mut_obj_add_obj (doc, root, "metadata"), owner, WORKER_APP);
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  KubeObject *object = kube_object_parse (text, size, 1 << 20, &error);
  g_assert_no_error (error);
  return object;
}

static void
test_marks (void)
{
  const ModelOwner *const owners[] = { &one, &wide };
  for (gsize i = 0; i < G_N_ELEMENTS (owners); i++)
    {
      ModelOwner read = { 0 };
      g_autoptr (KubeObject) object = marked (owners[i]);
      g_assert_true (model_owner_read (object, &read));
      g_assert_cmpstr (read.kind, ==, owners[i]->kind);
      g_assert_cmpstr (read.namespace, ==, owners[i]->namespace);
      g_assert_cmpstr (read.name, ==, owners[i]->name);
      g_assert_cmpstr (read.uid, ==, owners[i]->uid);
      g_assert_cmpstr (kube_object_label (object, APP_LABEL), ==, WORKER_APP);
    }
}

/* A label takes 63 bytes that end well; the whole name stands in the annotation. */
static void
test_long_labels (void)
{
  const char *name = "0123456789012345678901234567890123456789012345678901234567890..z";
  g_autoptr (KubeObject) object = marked (&(ModelOwner){ "Model", name, "ns", "u" });
  ModelOwner read = { 0 };
  g_assert_true (model_owner_read (object, &read));
  g_assert_cmpstr (read.name, ==, name);
  g_assert_cmpstr (kube_object_label (object, MODEL_ANNOTATION "owner-name"), ==,
                   "0123456789012345678901234567890123456789012345678901234567890");
}

static void
test_unmarked (void)
{
  const char *const texts[] = {
    "{\"metadata\":{}}",
    "{\"metadata\":{\"annotations\":{\"ai.deckhouse.io/owner-kind-full\":\"Pod\",\"ai.deckhouse.io/owner-name-full\":\"a\","
    "\"ai.deckhouse.io/owner-uid-full\":\"u\"}}}",
    "{\"metadata\":{\"annotations\":{\"ai.deckhouse.io/owner-kind-full\":\"Model\",\"ai.deckhouse.io/owner-name-full\":\"a\","
    "\"ai.deckhouse.io/owner-uid-full\":\"u\"}}}",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      ModelOwner owner = { 0 };
      g_autoptr (KubeObject) object = kube_object_parse (texts[i], strlen (texts[i]), 1 << 20, NULL);
      g_assert_nonnull (object);
      g_assert_false (model_owner_read (object, &owner));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/module-objects/names", test_names);
  g_test_add_func ("/module-objects/long-reader-names", test_long_reader_names);
  g_test_add_func ("/module-objects/marks", test_marks);
  g_test_add_func ("/module-objects/long-labels", test_long_labels);
  g_test_add_func ("/module-objects/unmarked", test_unmarked);
  return g_test_run ();
}
