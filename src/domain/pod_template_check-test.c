#include "domain/pod_template_check.h"

#include <string.h>

#include "base/error.h"
#include "domain/model_references.h"

/* For the references "minilm" and the ClusterModel "b.c". Templates are JSON with ' for ". */
#define WITH(volumes, mounts) \
  "{'spec':{'volumes':[" volumes "],'containers':[{'name':'main','volumeMounts':[" mounts "]}]}}"
#define DATA "{'name':'data','emptyDir':{}}"
#define OURS \
  "{'name':'ai-models-shared-minilm','persistentVolumeClaim':{'claimName':'ai-models-cache-1','readOnly':true}}"
#define CSI(name) "{'name':'" name "','csi':{'driver':'node-cache.ai-models.deckhouse.io'}}"
#define MOUNT(name, path) "{'name':'" name "','mountPath':'" path "'}"
#define BC "ai-models-shared-b-c-3366156682"

static const char *const claims[] = { "store", NULL };
static const char *const bad_claims[] = { "store", "ai-models-shared-minilm", NULL };

static const struct {
  const char *what, *template;
  const char *const *claims;
  const char *reason, *message; /* NULL: good */
} rows[] = {
  { "nothing", "{}", NULL, NULL, NULL },
  { "plain", WITH (DATA, MOUNT ("data", "/data")), claims, NULL, NULL },
  { "beside", WITH (DATA, MOUNT ("data", "/data/modelcache2")), NULL, NULL, NULL },
  { "another with such a path", WITH (DATA, MOUNT ("data", "/srv/data/modelcache")), NULL, NULL, NULL },
  { "delivered",
    WITH (OURS, "{'name':'ai-models-shared-minilm','mountPath':'/data/modelcache/models/minilm','readOnly':true}"),
    NULL, NULL, NULL },
  { "delivered with another model",
    WITH ("{'name':'ai-models-shared-old','persistentVolumeClaim':{'claimName':'ai-models-cache-2'}}",
          "{'name':'ai-models-shared-old','mountPath':'/data/modelcache/models/old','readOnly':true}"),
    NULL, NULL, NULL },
  { "a name like ours that no model has",
    WITH ("{'name':'ai-models-shared-mine','emptyDir':{}}", MOUNT ("ai-models-shared-mine", "/mine")), NULL, NULL,
    NULL },
  { "a claim template elsewhere", WITH ("", MOUNT ("store", "/var/lib")), claims, NULL, NULL },

  { "exactly there", WITH (DATA, MOUNT ("data", "/data/modelcache")), NULL, "InvalidSpec",
    "container main mounts volume data at /data/modelcache, where models are delivered: mount it elsewhere" },
  { "a claim of the user",
    WITH ("{'name':'data','persistentVolumeClaim':{'claimName':'mine'}}", MOUNT ("data", "/data/modelcache")), NULL,
    "InvalidSpec", "mounts volume data" },
  { "an ephemeral one", WITH ("{'name':'data','ephemeral':{}}", MOUNT ("data", "/data/modelcache")), NULL,
    "InvalidSpec", "mounts volume data" },
  { "below", WITH (DATA, MOUNT ("data", "/data/modelcache/tmp")), NULL, "InvalidSpec", "at /data/modelcache/tmp" },
  { "a model's place", WITH (DATA, MOUNT ("data", "/data/modelcache/models/minilm")), NULL, "InvalidSpec",
    "at /data/modelcache/models/minilm" },
  { "with a slash", WITH (DATA, MOUNT ("data", "/data/modelcache/")), NULL, "InvalidSpec", "volume data" },
  { "with dots", WITH (DATA, MOUNT ("data", "//data/./x/../modelcache//y")), NULL, "InvalidSpec", "volume data" },
  { "without a slash", WITH (DATA, MOUNT ("data", "data/modelcache")), NULL, "InvalidSpec", "volume data" },
  { "above the root", WITH (DATA, MOUNT ("data", "/../data/modelcache")), NULL, "InvalidSpec", "volume data" },
  { "a volume that is not there", WITH ("", MOUNT ("x", "/data/modelcache")), NULL, "InvalidSpec", "volume x" },
  { "a name like ours, not from us",
    WITH ("{'name':'ai-models-shared-mine','emptyDir':{}}", MOUNT ("ai-models-shared-mine", "/data/modelcache")),
    NULL, "InvalidSpec", "volume ai-models-shared-mine" },
  { "an init container",
    "{'spec':{'initContainers':[{'name':'init','volumeMounts':[" MOUNT ("data", "/data/modelcache") "]}]}}", NULL,
    "InvalidSpec", "container init mounts volume data" },
  { "several containers, different volumes",
    "{'spec':{'volumes':[" OURS "," DATA
    "],'containers':[{'name':'a','volumeMounts':[{'name':'ai-models-shared-minilm',"
    "'mountPath':'/data/modelcache','readOnly':true}]},{'name':'b','volumeMounts':[" MOUNT (
      "data", "/data/modelcache") "]}]}}",
    NULL, "InvalidSpec", "container b mounts volume data" },
  { "a claim template there", WITH ("", MOUNT ("store", "/data/modelcache")), claims, "InvalidSpec",
    "mounts volumeClaimTemplate store at /data/modelcache" },
  { "a claim template with our name", WITH ("", ""), bad_claims, "InvalidSpec",
    "volumeClaimTemplate ai-models-shared-minilm" },
  { "our name, another source", WITH ("{'name':'ai-models-shared-minilm','emptyDir':{}}", ""), NULL, "InvalidSpec",
    "volume ai-models-shared-minilm has the name" },
  { "our name, another claim", WITH ("{'name':'" BC "','persistentVolumeClaim':{'claimName':'mine'}}", ""), NULL,
    "InvalidSpec", "volume " BC " has the name" },
  { "to write", WITH (OURS, MOUNT ("ai-models-shared-minilm", "/data/modelcache/models/minilm")), NULL, "InvalidSpec",
    "container main mounts volume ai-models-shared-minilm at /data/modelcache/models/minilm to write" },
  { "to write, said so",
    WITH (OURS, "{'name':'ai-models-shared-minilm','mountPath':'/data/modelcache/models/minilm','readOnly':false}"),
    NULL, "InvalidSpec", "to write" },
  { "a block device",
    "{'spec':{'containers':[{'name':'main','volumeDevices':[{'name':'d','devicePath':'/data/modelcache/d'}]}]}}",
    NULL, "InvalidSpec", "container main has device d" },

  { "a volume of the node cache", WITH (CSI ("mine"), ""), NULL, "NodeCacheDeliveryDisabled",
    "volume mine is of the node cache" },
  { "one with our name that we did not write", WITH (CSI ("ai-models-node-cache-minilm"), ""), NULL,
    "NodeCacheDeliveryDisabled", "volume ai-models-node-cache-minilm" },
  { "one of the mode before",
    "{'metadata':{'annotations':{'ai.deckhouse.io/resolved-delivery-mode':'NodeCache'}},'spec':{'volumes':[" CSI (
      "ai-models-node-cache-minilm") "]}}",
    NULL, NULL, NULL },
  { "one beside that of the mode before",
    "{'metadata':{'annotations':{'ai.deckhouse.io/resolved-delivery-mode':'NodeCache'}},'spec':{'volumes':[" CSI (
      "mine") "]}}",
    NULL, "NodeCacheDeliveryDisabled", "volume mine" },
};

static void
test_rows (void)
{
  g_autoptr (GPtrArray) references = model_references_parse ("minilm", "b.c", NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = g_strdelimit (g_strdup (rows[i].template), "'", '"');
      g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), 4096, JSON_STRICT, &error);
      g_assert_no_error (error);
      g_autoptr (yyjson_mut_doc) copy = yyjson_doc_mut_copy (doc, NULL);
      gboolean is_good = pod_template_check (yyjson_mut_doc_get_root (copy), rows[i].claims, references, &error);
      g_test_message ("%s: %s", rows[i].what, error != NULL ? error->message : "good");
      g_assert_cmpint (is_good, ==, rows[i].reason == NULL);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_true (is_good || am_error_is (error, AM_ERROR_FAILED_PRECONDITION));
      g_assert_true (is_good || strstr (error->message, rows[i].message) != NULL);
    }
}

/* Two names whose volumes have one name: found by trying two million. */
static void
test_same_volume (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) references = model_references_parse ("a-a.a-a-a.a.a-a.a.a.a.a.a-a-a-a.a-a.a-a-a.a-a-a-a-a-a,"
                                                             "a-a-a-a-a-a-a-a.a-a-a-a.a.a.a-a-a-a.a-a.a.a-a-a-a-a-a",
                                                             NULL, NULL);
  g_assert_false (pod_template_check (NULL, NULL, references, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "InvalidSpec");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pod-template-check/rows", test_rows);
  g_test_add_func ("/pod-template-check/same-volume", test_same_volume);
  return g_test_run ();
}
