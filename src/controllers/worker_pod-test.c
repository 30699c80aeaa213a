#include "controllers/worker_pod.h"

#include "controllers/controllers_fixture.h"

static const ControllerSettings bare = {
  .namespace = "module",
  .worker_image = "image",
  .worker_account = "account",
  .worker_requests = "cpu=1",
  .worker_limits = "cpu=4,memory=2Gi",
  .registry = "registry:5000",
  .registry_write_secret = "login",
  .staging_store = "s3://b/raw",
};
static const ModelOwner owner = { "Model", "m", "ns", "u-1" };

static char *
text_of (yyjson_mut_doc *doc)
{
  char *text = json_write (doc, NULL);
  return g_strdelimit (text, "\"", '\'');
}

#define ASSERT_HAS(text, part) g_assert_nonnull (strstr (text, part))
#define ASSERT_LACKS(text, part) g_assert_null (strstr (text, part))

static void
test_remote (void)
{
  WorkerJob job = { .owner = owner, .generation = 2, .url = "https://hf.co/a/b" };
  g_autoptr (yyjson_mut_doc) doc = worker_pod_document (&bare, &job);
  g_autofree char *text = text_of (doc);
  ASSERT_HAS (
    text, "'args':['publish','--owner-kind','Model','--owner-namespace','ns','--owner-name','m','--owner-uid','u-1',"
          "'--owner-generation','2','--source','https://hf.co/a/b','--registry','registry:5000'");
  ASSERT_HAS (text, "'--repository','ai-models/catalog/namespaced/ns/m/u-1','--namespace','module'");
  ASSERT_HAS (text, "'resources':{'requests':{'cpu':'1'},'limits':{'cpu':'4','memory':'2Gi'}}");
  const char *const absent[] = { "--revision",       "--token-file",     "--staged-file",
                                 "--accounting",     "--capacity-limit", "AWS_",
                                 "imagePullSecrets", "HF_ENDPOINT",      "PROXY",
                                 "plain-http",       "ca-file" };
  for (gsize i = 0; i < G_N_ELEMENTS (absent); i++)
    ASSERT_LACKS (text, absent[i]);
}

/* The Pod security standard "restricted", and what the page asks beyond it. */
static void
test_security (void)
{
  WorkerJob job = { .owner = owner, .url = "u" };
  g_autoptr (yyjson_mut_doc) doc = worker_pod_document (&bare, &job);
  g_autofree char *text = text_of (doc);
  ASSERT_HAS (text, "'runAsNonRoot':true,'runAsUser':64535,'runAsGroup':64535");
  ASSERT_HAS (text, "'seccompProfile':{'type':'RuntimeDefault'}");
  ASSERT_HAS (text, "'allowPrivilegeEscalation':false,'readOnlyRootFilesystem':true,'capabilities':{'drop':['ALL']}");
  ASSERT_HAS (text, "'restartPolicy':'Never'");
  ASSERT_HAS (text, "'terminationMessagePolicy':'File'");
}

static void
test_everything (void)
{
  ControllerSettings all = bare;
  all.worker_pull_secret = "pull";
  all.registry_plain_http = TRUE;
  all.registry_ca_secret = "registry-ca";
  all.has_accounting = TRUE;
  all.capacity_limit_bytes = 500;
  all.hf_endpoint = "https://mirror";
  all.ollama_registry = "https://ollama";
  all.sources_ca_config_map = "sources-ca";
  all.https_proxy = "http://proxy:3128";
  all.no_proxy = "internal";
  WorkerJob job = { .owner = owner, .url = "u", .revision = "c0ffee", .has_token = TRUE };
  g_autoptr (yyjson_mut_doc) doc = worker_pod_document (&all, &job);
  g_autofree char *text = text_of (doc);
  const char *const parts[] = {
    "'--revision','c0ffee'",
    "'--token-file','/etc/ai-models/source-token/token'",
    "'--registry-ca-file','/etc/ai-models/registry-ca/ca.crt','--registry-plain-http'",
    "'--accounting','ai-models-storage-accounting','--capacity-limit','500'",
    "{'name':'HF_ENDPOINT','value':'https://mirror'},{'name':'OLLAMA_REGISTRY','value':'https://ollama'}",
    "{'name':'SSL_CERT_FILE','value':'/etc/ai-models/sources-ca/ca.crt'}",
    "{'name':'NO_PROXY','value':'internal,registry,$(KUBERNETES_SERVICE_HOST)'}",
    "'imagePullSecrets':[{'name':'pull'}]",
    "{'name':'source-token','secret':{'secretName':'ai-model-publish-auth-u-1','defaultMode':288}}",
    "{'name':'sources-ca','configMap':{'name':'sources-ca'}}",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    ASSERT_HAS (text, parts[i]);
}

static void
test_staged (void)
{
  ControllerSettings settings = bare;
  settings.artifacts_secret = "keys";
  settings.artifacts_ca_secret = "keys-ca";
  WorkerJob job = { .owner = owner, .staged_file = "model.gguf" };
  g_autoptr (yyjson_mut_doc) doc = worker_pod_document (&settings, &job);
  g_autofree char *text = text_of (doc);
  ASSERT_HAS (text, "'--staged-file','model.gguf','--staging-store','s3://b/raw'");
  ASSERT_HAS (text, "{'name':'AWS_ACCESS_KEY_ID','valueFrom':{'secretKeyRef':{'name':'keys','key':'accessKey'}}}");
  ASSERT_HAS (text, "{'name':'AWS_CA_BUNDLE','value':'/etc/ai-models/artifacts-ca/ca.crt'}");
  ASSERT_HAS (text, "'--staging-keys-dir','/etc/ai-models/artifacts-keys'");
  ASSERT_HAS (text, "{'name':'artifacts-keys','secret':{'secretName':'keys','defaultMode':288}}");
  ASSERT_LACKS (text, "--source");
}

static void
test_rights (void)
{
  ControllerSettings settings = bare;
  settings.has_accounting = TRUE;
  g_autoptr (yyjson_mut_doc) role = worker_role_document (&settings, &owner);
  g_autoptr (yyjson_mut_doc) binding = worker_role_binding_document (&settings, &owner);
  g_autofree char *rules = text_of (role), *bound = text_of (binding);
  ASSERT_HAS (rules,
              "'rules':[{'apiGroups':[''],'resources':['secrets'],'resourceNames':['ai-model-publish-state-u-1'],"
              "'verbs':['get','update']},{'apiGroups':[''],'resources':['configmaps'],'resourceNames':["
              "'ai-models-storage-accounting'],'verbs':['get','update']}]");
  ASSERT_HAS (bound, "'subjects':[{'kind':'ServiceAccount','name':'account','namespace':'module'}]");
  ASSERT_HAS (bound, "'name':'ai-model-publish-u-1'}");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker-pod/remote", test_remote);
  g_test_add_func ("/worker-pod/security", test_security);
  g_test_add_func ("/worker-pod/everything", test_everything);
  g_test_add_func ("/worker-pod/staged", test_staged);
  g_test_add_func ("/worker-pod/rights", test_rights);
  return g_test_run ();
}
