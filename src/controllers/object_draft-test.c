#include "controllers/object_draft.h"

#include "controllers/controllers_fixture.h"

/* ' for ". Caller frees. */
static char *
text_of (yyjson_mut_doc *doc)
{
  return g_strdelimit (json_write (doc, NULL), "\"", '\'');
}

/* The Pod security standard "restricted", a root file system nobody writes to, and nothing mounted that was not asked for. */
static void
test_pod (void)
{
  ObjectDraft draft = object_draft_new ("p");
  g_autoptr (yyjson_mut_doc) doc = draft.doc;
  yyjson_mut_val *spec = draft_object (&draft, draft.root, "spec");
  yyjson_mut_val *container = draft_container (&draft, spec, "c", "image");
  draft_resources (&draft, container, "cpu=1", "cpu=4,memory=2Gi");
  draft_pull_secret (&draft, spec, NULL);
  DraftVolumes volumes = draft_volumes (&draft, spec, container);
  draft_volume (&volumes, "a", DRAFT_SECRET, "s", "/a");
  draft_volume (&volumes, "b", DRAFT_CONFIG_MAP, NULL, "/b");
  draft_volume (&volumes, "c", DRAFT_CLAIM, "claim", "/c");
  draft_volume (&volumes, "d", DRAFT_EMPTY_DIR, NULL, "/d");
  g_autofree char *text = text_of (doc);
  g_assert_cmpstr (
    text, ==,
    "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'image','imagePullPolicy':'IfNotPresent',"
    "'terminationMessagePolicy':'File','securityContext':{'allowPrivilegeEscalation':false,"
    "'readOnlyRootFilesystem':true,'capabilities':{'drop':['ALL']}},"
    "'resources':{'requests':{'cpu':'1'},'limits':{'cpu':'4','memory':'2Gi'}},"
    "'volumeMounts':[{'name':'a','mountPath':'/a','readOnly':true},{'name':'c','mountPath':'/c'},"
    "{'name':'d','mountPath':'/d'}]}],'enableServiceLinks':false,"
    "'securityContext':{'runAsNonRoot':true,'runAsUser':64535,'runAsGroup':64535,'fsGroup':64535,"
    "'fsGroupChangePolicy':'OnRootMismatch','seccompProfile':{'type':'RuntimeDefault'}},"
    "'volumes':[{'name':'a','secret':{'secretName':'s','defaultMode':288}},"
    "{'name':'c','persistentVolumeClaim':{'claimName':'claim'}},{'name':'d','emptyDir':{}}]}}");
}

static void
test_words (void)
{
  ObjectDraft draft = object_draft_new ("s");
  g_autoptr (yyjson_mut_doc) doc = draft.doc;
  yyjson_mut_val *args = yyjson_mut_obj_add_arr (doc, draft.root, "args");
  draft_word (&draft, args, "go");
  draft_option (&draft, args, "--none", NULL);
  draft_option (&draft, args, "--a", "b");
  draft_option_u64 (&draft, args, "--n", G_MAXUINT64);
  draft_data (&draft, "k", "value");
  draft_data (&draft, "none", NULL);
  draft_owner (&draft, "v1", "Pod", "p", "u");
  draft_text (&draft, draft.metadata, "name", "t");
  g_autofree char *text = text_of (doc);
  g_assert_cmpstr (text, ==,
                   "{'metadata':{'name':'t','ownerReferences':[{'apiVersion':'v1','kind':'Pod','name':'p','uid':'u',"
                   "'controller':false,'blockOwnerDeletion':false}]},"
                   "'args':['go','--a','b','--n','18446744073709551615'],'data':{'k':'dmFsdWU='}}");
}

static void
test_resources (void)
{
  const char *const good[] = { "cpu=1", "cpu=1,memory=1Gi,ephemeral-storage=1Gi" };
  const char *const bad[] = { "", "cpu", "cpu=", "=1", "cpu=1,", "cpu=1,,memory=1" };
  for (gsize i = 0; i < G_N_ELEMENTS (good); i++)
    g_assert_true (draft_resources_check (good[i], NULL));
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_false (draft_resources_check (bad[i], NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/object-draft/pod", test_pod);
  g_test_add_func ("/object-draft/words", test_words);
  g_test_add_func ("/object-draft/resources", test_resources);
  return g_test_run ();
}
