#include "controllers/materialize_job.h"

#include <string.h>

#include "controllers/controllers_fixture.h"

#define DIGEST "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define REPOSITORY "ai-models/catalog/namespaced/team/minilm/u-1"

static const ControllerSettings bare = {
  .registry = "registry:5000",
  .delivery = { .is_on = TRUE,
                .materializer_image = "image",
                .materializer_requests = "cpu=200m,memory=256Mi",
                .materializer_limits = "cpu=2,memory=1Gi",
                .grant_key = { 1, 2, 3 } },
};
static const ClaimSubject subject = { "team", FALSE, "minilm", DIGEST, REPOSITORY, 90868376 };

static KubeObject *
claim_new (void)
{
  return object_of ("{'metadata':{'name':'ai-models-cache-0123','namespace':'team','uid':'c-1'}}");
}

static char *
text_of (yyjson_mut_doc *doc)
{
  return g_strdelimit (json_write (doc, NULL), "\"", '\'');
}

#define ASSERT_HAS(text, part) g_assert_nonnull (strstr (text, part))
#define ASSERT_LACKS(text, part) g_assert_null (strstr (text, part))

static void
test_job (void)
{
  g_autoptr (KubeObject) claim = claim_new ();
  g_autoptr (yyjson_mut_doc) doc = materialize_job_document (&bare, &subject, claim, "grant-1", 1000);
  g_autofree char *text = text_of (doc);
  const char *const parts[] = {
    "'name':'ai-models-materialize-0123'",
    "'app.kubernetes.io/name':'ai-models-materializer'",
    "'ai.deckhouse.io/claim-name':'ai-models-cache-0123'",
    "'ownerReferences':[{'apiVersion':'v1','kind':'PersistentVolumeClaim','name':'ai-models-cache-0123','uid':'c-1',"
    "'controller':false,'blockOwnerDeletion':false}]",
    "'annotations':{'ai.deckhouse.io/expected-bytes':'90868376','ai.deckhouse.io/claim-uid':'c-1',"
    "'ai.deckhouse.io/grant-id':'grant-1','ai.deckhouse.io/made-at':'1970-01-01T00:16:40Z',"
    "'ai.deckhouse.io/job-signature':'hmac-sha256:",
    "'spec':{'backoffLimit':6,'activeDeadlineSeconds':86400,'ttlSecondsAfterFinished':300,",
    "'args':['materialize','--registry','registry:5000','--artifact','" REPOSITORY "@" DIGEST "',"
    "'--grant-file','/etc/ai-models/grant/token','--volume','/volume','--expected-bytes','90868376',"
    "'--log-format','json']",
    "'resources':{'requests':{'cpu':'200m','memory':'256Mi'},'limits':{'cpu':'2','memory':'1Gi'}}",
    "'volumes':[{'name':'model','persistentVolumeClaim':{'claimName':'ai-models-cache-0123'}},"
    "{'name':'grant','secret':{'secretName':'ai-models-read-grant-0123','defaultMode':288}}]",
    "'automountServiceAccountToken':false",
    "'restartPolicy':'Never'",
    "'sidecar.istio.io/inject':'false'",
    "'runAsUser':64535",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    ASSERT_HAS (text, parts[i]);
  ASSERT_LACKS (text, "imagePullSecrets");
  ASSERT_LACKS (text, "ca.crt");
  ASSERT_LACKS (text, "serviceAccountName");
}

static void
test_registry (void)
{
  ControllerSettings settings = bare;
  settings.registry_ca_file = "/ours/ca.crt";
  settings.registry_plain_http = TRUE;
  settings.delivery.materializer_pull_secret = "pull";
  g_autoptr (KubeObject) claim = claim_new ();
  g_autoptr (yyjson_mut_doc) doc = materialize_job_document (&settings, &subject, claim, "g", 1000);
  g_autofree char *text = text_of (doc);
  ASSERT_HAS (text, "'--registry-ca-file','/etc/ai-models/grant/ca.crt','--registry-plain-http'");
  ASSERT_HAS (text, "'imagePullSecrets':[{'name':'ai-models-image-pull-0123'}]");
}

/* What is said of a Job is read back from it. */
static void
test_read (void)
{
  g_autoptr (KubeObject) claim = claim_new ();
  g_autoptr (yyjson_mut_doc) doc = materialize_job_document (&bare, &subject, claim, "g", 1000);
  g_autoptr (KubeObject) job = object_of_doc (doc);
  g_autoptr (KubeObject) other = object_of ("{'metadata':{'annotations':{'ai.deckhouse.io/expected-bytes':'much'}}}");
  g_assert_cmpstr (materialize_job_claim (job), ==, "ai-models-cache-0123");
  g_assert_cmpstr (materialize_job_claim_uid (job), ==, "c-1");
  g_assert_cmpstr (materialize_job_grant (job), ==, "g");
  g_assert_cmpuint (materialize_job_bytes (job), ==, 90868376);
  g_assert_null (materialize_job_claim (other));
  g_assert_null (materialize_job_claim_uid (other));
  g_assert_null (materialize_job_grant (other));
  g_assert_cmpuint (materialize_job_bytes (other), ==, 0);
}

/* As it is stored: in a namespace, made at some time; and with `from` changed into `to`. */
static KubeObject *
stored_job (const char *created, const char *from, const char *to)
{
  g_autoptr (KubeObject) claim = claim_new ();
  g_autoptr (yyjson_mut_doc) doc = materialize_job_document (&bare, &subject, claim, "g", 1000);
  yyjson_mut_val *metadata = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "metadata");
  yyjson_mut_obj_add_str (doc, metadata, "namespace", "team");
  yyjson_mut_obj_add_str (doc, metadata, "creationTimestamp", created);
  g_autofree char *plain = json_write (doc, NULL);
  g_autoptr (GString) text = g_string_new (plain);
  if (from != NULL)
    g_assert_cmpuint (g_string_replace (text, from, to, 1), ==, 1);
  return kube_object_parse (text->str, text->len, 1 << 20, NULL);
}

/* What looks like one of ours is none unless it was signed as just this. */
static void
test_is_ours (void)
{
  static const struct {
    const char *created, *from, *to;
    gboolean is_ours;
  } rows[] = {
    { "1970-01-01T00:16:41Z", NULL, NULL, TRUE },
    { "1970-01-01T00:00:00Z", NULL, NULL, TRUE }, /* clocks differ */
    { "1970-01-01T00:46:00Z", NULL, NULL, TRUE },
    { "1970-01-01T01:16:40Z", NULL, NULL, FALSE },
    { "1970-01-01T00:16:41Z", "\"ai-models-materialize-0123\"", "\"ai-models-materialize-4567\"", FALSE },
    { "1970-01-01T00:16:41Z", "\"namespace\":\"team\"", "\"namespace\":\"mine\"", FALSE },
    { "1970-01-01T00:16:41Z", "claim-name\":\"ai-models-cache-0123", "claim-name\":\"ai-models-cache-4567", FALSE },
    { "1970-01-01T00:16:41Z", "claim-uid\":\"c-1", "claim-uid\":\"c-2", FALSE },
    { "1970-01-01T00:16:41Z", "grant-id\":\"g", "grant-id\":\"h", FALSE },
    { "1970-01-01T01:16:40Z", "1970-01-01T00:16:40Z", "1970-01-01T01:16:40Z", FALSE },
    { "1970-01-01T00:16:41Z", "hmac-", "", FALSE },
    { "1970-01-01T00:16:41Z", "job-signature", "no-signature", FALSE },
    { "1970-01-01T00:16:41Z", "made-at", "not-made-at", FALSE },
  };
  ControllerSettings others = bare;
  others.delivery.state_key[0] ^= 1;
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (KubeObject) job = stored_job (rows[i].created, rows[i].from, rows[i].to);
      g_assert_cmpint (materialize_job_is_ours (&bare, job), ==, rows[i].is_ours);
      g_assert_false (materialize_job_is_ours (&others, job));
    }
}

static char *
value_of (const KubeObject *secret, const char *key)
{
  gsize size = 0;
  const char *text = json_get_string (json_get_object (kube_object_root (secret), "data"), key);
  g_autofree char *bytes = text != NULL ? (char *) g_base64_decode (text, &size) : NULL;
  return bytes != NULL ? g_strndup (bytes, size) : NULL;
}

static void
test_grant (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (ReadGrant) grant = { 0 };
  g_autoptr (KubeObject) claim = claim_new ();
  g_autoptr (yyjson_mut_doc) doc = materialize_grant_document (&bare, &subject, claim, "g-1", "CERTIFICATE", 1000);
  g_autoptr (KubeObject) secret = object_of_doc (doc);
  g_autofree char *token = value_of (secret, "token"), *ca = value_of (secret, "ca.crt");
  g_assert_cmpstr (kube_object_name (secret), ==, "ai-models-read-grant-0123");
  g_assert_cmpstr (ca, ==, "CERTIFICATE");
  g_assert_true (read_grant_verify (token, bare.delivery.grant_key, 1000 + 24 * 3600 - 1, &grant, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (grant.id, ==, "g-1");
  g_assert_cmpstr (grant.purpose, ==, "shared-pvc");
  g_assert_cmpstr (grant.repository, ==, REPOSITORY);
  g_assert_cmpstr (grant.digest, ==, DIGEST);
  g_assert_cmpstr (grant.namespace, ==, "team");
  g_assert_cmpstr (grant.name, ==, "ai-models-materialize-0123");
  g_assert_cmpuint (grant.expected_bytes, ==, 90868376);
  g_autofree char *text = text_of (doc);
  ASSERT_HAS (text, "'kind':'PersistentVolumeClaim','name':'ai-models-cache-0123','uid':'c-1'");
}

static void
test_pull (void)
{
  g_autoptr (KubeObject) claim = claim_new ();
  g_autoptr (KubeObject) secret = object_of (
    "{'metadata':{'name':'pull','namespace':'module','uid':'s','annotations':{'a':'b'}},"
    "'type':'kubernetes.io/dockerconfigjson','data':{'.dockerconfigjson':'e30='}}");
  g_autoptr (yyjson_mut_doc) doc = materialize_pull_document (&subject, claim, secret);
  g_autofree char *text = text_of (doc);
  ASSERT_HAS (text, "'name':'ai-models-image-pull-0123'");
  ASSERT_HAS (text, "'type':'kubernetes.io/dockerconfigjson','data':{'.dockerconfigjson':'e30='}}");
  ASSERT_HAS (text, "'uid':'c-1'");
  ASSERT_LACKS (text, "'a':'b'");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/materialize-job/is-ours", test_is_ours);
  g_test_add_func ("/materialize-job/job", test_job);
  g_test_add_func ("/materialize-job/registry", test_registry);
  g_test_add_func ("/materialize-job/read", test_read);
  g_test_add_func ("/materialize-job/grant", test_grant);
  g_test_add_func ("/materialize-job/pull", test_pull);
  return g_test_run ();
}
