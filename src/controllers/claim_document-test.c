#include "controllers/claim_document.h"

#include "controllers/controllers_fixture.h"
#include "kube/kube_kind.h"

#define DIGEST "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static const KubeKind deployment = { "apps", "v1", "deployments", "Deployment", TRUE };
static const ClaimSubject subject = { "team", FALSE, "minilm", DIGEST, "repository", 90868376 };

static char *
text_of (yyjson_mut_doc *doc)
{
  return g_strdelimit (json_write (doc, NULL), "\"", '\'');
}

static KubeObject *
workload (const char *name)
{
  g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'%s','namespace':'team','uid':'uid-%s'}}", name,
                                           name);
  return object_of (text);
}

/* As it is created, and then stored with a version. */
static KubeObject *
claim_with (const char *extra_annotation)
{
  g_autoptr (KubeObject) holder = workload ("web");
  g_autoptr (yyjson_mut_doc) doc = claim_document (&subject, &deployment, holder, "fast");
  yyjson_mut_val *metadata = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "metadata");
  yyjson_mut_obj_add_str (doc, metadata, "namespace", "team");
  yyjson_mut_obj_add_str (doc, metadata, "uid", "uid-claim");
  yyjson_mut_obj_add_str (doc, metadata, "resourceVersion", "7");
  if (extra_annotation != NULL)
    yyjson_mut_obj_add_str (doc, yyjson_mut_obj_get (metadata, "annotations"), RELEASED_ANNOTATION, extra_annotation);
  return object_of_doc (doc);
}

static void
test_new (void)
{
  g_autoptr (KubeObject) holder = workload ("web");
  g_autoptr (yyjson_mut_doc) doc = claim_document (&subject, &deployment, holder, "fast");
  g_autofree char *text = text_of (doc), *name = claim_name (&subject);
  g_autofree char *whole = g_strdup_printf (
    "{'metadata':{'name':'%s','labels':{'app.kubernetes.io/name':'ai-models-shared-pvc',"
    "'app.kubernetes.io/part-of':'ai-models',"
    "'ai.deckhouse.io/artifact-digest':'9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a0',"
    "'ai.deckhouse.io/owner-name':'minilm','ai.deckhouse.io/shared-pvc':'true'},"
    "'annotations':{'ai.deckhouse.io/owner-kind-full':'Model','ai.deckhouse.io/owner-name-full':'minilm',"
    "'ai.deckhouse.io/artifact-digest':'" DIGEST "'},"
    "'ownerReferences':[{'apiVersion':'apps/v1','kind':'Deployment','name':'web','uid':'uid-web','controller':false,"
    "'blockOwnerDeletion':false}]},"
    "'spec':{'accessModes':['ReadWriteMany'],'volumeMode':'Filesystem','storageClassName':'fast',"
    "'resources':{'requests':{'storage':'1073741824'}}}}",
    name);
  g_assert_cmpstr (text, ==, whole);
  g_assert_cmpuint (strlen (name), ==, strlen ("ai-models-cache-") + 16);
}

static void
test_subject (void)
{
  ClaimSubject read = { 0 };
  g_autoptr (KubeObject) claim = claim_with (NULL);
  g_assert_true (claim_subject_read (claim, &read));
  g_assert_cmpstr (read.namespace, ==, "team");
  g_assert_cmpstr (read.model, ==, "minilm");
  g_assert_cmpstr (read.digest, ==, DIGEST);
  g_assert_false (read.is_cluster_wide);
  const char *const bad[] = {
    "{'metadata':{'name':'x','namespace':'team'}}",
    /* The name is of another model. */
    "{'metadata':{'name':'ai-models-cache-0000000000000000','namespace':'team','annotations':{"
    "'ai.deckhouse.io/owner-kind-full':'Model','ai.deckhouse.io/owner-name-full':'minilm',"
    "'ai.deckhouse.io/artifact-digest':'" DIGEST "'}}}",
    "{'metadata':{'name':'x','namespace':'team','annotations':{"
    "'ai.deckhouse.io/owner-name-full':'minilm','ai.deckhouse.io/artifact-digest':'none'}}}",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (KubeObject) other = object_of (bad[i]);
      g_assert_false (claim_subject_read (other, &read));
    }
}

static void
test_hold (void)
{
  g_autoptr (KubeObject) claim = claim_with ("2026-01-01T00:00:00Z");
  g_autoptr (KubeObject) owner = workload ("batch");
  g_assert_true (claim_is_held_by (claim, "uid-web") && !claim_is_held_by (claim, "uid-batch"));
  g_assert_cmpint (claim_released_s (claim), ==, 1767225600);
  g_autoptr (yyjson_mut_doc) patch = claim_hold_patch (claim, &deployment, owner);
  g_autofree char *text = text_of (patch);
  g_assert_nonnull (strstr (text, "'resourceVersion':'7','ownerReferences':[{"));
  g_assert_nonnull (strstr (text, "'uid':'uid-web'"));
  g_assert_nonnull (strstr (text, "'uid':'uid-batch'"));
  g_assert_nonnull (strstr (text, "'annotations':{'ai.deckhouse.io/released-at':null}"));
}

/* Who holds it already is not written twice. */
static void
test_hold_again (void)
{
  g_autoptr (KubeObject) claim = claim_with (NULL);
  g_autoptr (KubeObject) holder = workload ("web");
  g_autoptr (yyjson_mut_doc) patch = claim_hold_patch (claim, &deployment, holder);
  yyjson_mut_val *metadata = yyjson_mut_obj_get (yyjson_mut_doc_get_root (patch), "metadata");
  g_assert_cmpuint (yyjson_mut_arr_size (yyjson_mut_obj_get (metadata, "ownerReferences")), ==, 1);
  g_assert_null (yyjson_mut_obj_get (metadata, "annotations"));
}

static void
test_leave (void)
{
  g_autoptr (KubeObject) claim = claim_with (NULL);
  g_autoptr (yyjson_mut_doc) last = claim_leave_patch (claim, "uid-web", 1767225600);
  g_autoptr (yyjson_mut_doc) other = claim_leave_patch (claim, "uid-batch", 1767225600);
  g_autofree char *gone = text_of (last), *kept = text_of (other);
  g_assert_nonnull (strstr (gone, "'resourceVersion':'7','ownerReferences':[],"
                                  "'annotations':{'ai.deckhouse.io/released-at':'2026-01-01T00:00:00Z'}"));
  g_assert_nonnull (strstr (kept, "'uid':'uid-web'"));
  g_assert_null (strstr (kept, "released-at"));
}

static void
test_annotations (void)
{
  g_autoptr (KubeObject) claim = claim_with (NULL);
  g_autoptr (yyjson_mut_doc) mark = claim_mark_patch (claim, DIGEST);
  g_autoptr (yyjson_mut_doc) write = claim_released_patch (claim, 1767225600);
  g_autoptr (yyjson_mut_doc) clear = claim_released_patch (claim, 0);
  g_autofree char *marked = text_of (mark), *written = text_of (write), *cleared = text_of (clear);
  g_assert_nonnull (strstr (marked, "{'ai.deckhouse.io/materialized-digest':'" DIGEST "'}"));
  g_assert_nonnull (strstr (written, "{'ai.deckhouse.io/released-at':'2026-01-01T00:00:00Z'}"));
  g_assert_nonnull (strstr (cleared, "{'ai.deckhouse.io/released-at':null}"));
  g_assert_cmpuint (claim_n_holders (claim), ==, 1);
  g_assert_cmpint (claim_released_s (claim), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/claim-document/new", test_new);
  g_test_add_func ("/claim-document/subject", test_subject);
  g_test_add_func ("/claim-document/hold", test_hold);
  g_test_add_func ("/claim-document/hold-again", test_hold_again);
  g_test_add_func ("/claim-document/leave", test_leave);
  g_test_add_func ("/claim-document/annotations", test_annotations);
  return g_test_run ();
}
