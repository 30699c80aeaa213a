/* What the caches of delivery keep is enough to decide, and little. */
#include "controllers/delivery_trim.h"

#include "controllers/controllers_fixture.h"
#include "controllers/delivery_caches.h"

static KubeObject *
trimmed (const char *text, KubeTrim trim, char **out_text)
{
  g_autoptr (KubeObject) object = object_of (text);
  gsize size = 0;
  return kube_object_trimmed (object, trim, out_text, &size);
}

#define META "'name':'n','namespace':'u','uid':'1','resourceVersion':'7'"
#define GATE "'schedulingGates':[{'name':'ai.deckhouse.io/model-delivery'}]"
#define VOLUMES                                                                                    \
  "'volumes':[{'name':'ai-models-shared-m','persistentVolumeClaim':{'claimName':'ai-models-cache-" \
  "0123456789abcdef','readOnly':true}}]"
#define REPLICA_SET_OF(spec)                                                                                           \
  "{'metadata':{" META                                                                                                 \
  ",'labels':{'a':'b'},'ownerReferences':[{'controller':true,'kind':'Deployment','name':'d','uid':'2'}]},'spec':" spec \
  ",'status':{'replicas':1}}"
#define POD_OF(owner, spec)                                                    \
  "{'metadata':{" META ",'ownerReferences':[{'controller':true,'kind':'" owner \
  "','name':'d','uid':'2'}]},'spec':" spec ",'status':{'phase':'Pending'}}"

static const struct {
  const char *name, *object;
  KubeTrim trim;
  void (*index) (const KubeObject *object, GPtrArray *out_values);
  const char *kept, *values; /* joined by blanks */
} rows[] = {
  { "a stranger",
    "{'kind':'Deployment','metadata':{" META
    ",'labels':{'a':'b'},'annotations':{'x':'y'}},'spec':{'template':{'spec':{'containers':[{'name':'c'}]}}},'status':"
    "{'replicas':1}}",
    workload_trim, workload_index, "{'metadata':{" META "}}", "" },
  { "one that asks",
    "{'metadata':{" META
    ",'labels':{'a':'b'},'annotations':{'x':'y','ai.deckhouse.io/model':'m','ai.deckhouse.io/clustermodel':'k'}},"
    "'spec':{'selector':{},'template':{'metadata':{'labels':{'a':'b'}},'spec':{'containers':[{'name':'c','image':'i',"
    "'env':[{'name':'X','value':'y'},{'name':'AI_MODELS_MODELS','value':'[]'}],'volumeMounts':[{'name':'v','mountPath':"
    "'/v'}]}],'volumes':[{'name':'v','emptyDir':{}}],'nodeSelector':{}}}},'status':{'observedGeneration':3,"
    "'conditions':[]}}",
    workload_trim, workload_index,
    "{'spec':{'template':{'metadata':{},'spec':{'containers':[{'name':'c','env':[{'name':'AI_MODELS_MODELS','value':"
    "'[]'}],'volumeMounts':[{'name':'v','mountPath':'/v'}]}],'volumes':[{'name':'v'}]}}},'status':"
    "{'observedGeneration':3},'metadata':{" META
    ",'annotations':{'ai.deckhouse.io/model':'m','ai.deckhouse.io/clustermodel':'k'}}}",
    "Model/u/m ClusterModel//k //u" },
  { "one that has a report and a delivery, and asks for nothing",
    "{'metadata':{" META
    ",'annotations':{'ai.deckhouse.io/model-delivery-blocked-reason':'R'}},'spec':{'jobTemplate':{'spec':{'template':"
    "{'spec':{" VOLUMES "}}}}}}",
    workload_trim, workload_index,
    "{'spec':{'jobTemplate':{'spec':{'template':{'spec':{'volumes':[{'name':'ai-models-shared-m',"
    "'persistentVolumeClaim':{'claimName':'ai-models-cache-0123456789abcdef','readOnly':true}}]}}}}},'metadata':{" META
    ",'annotations':{'ai.deckhouse.io/model-delivery-blocked-reason':'R'}}}",
    "//u blocked u/ai-models-cache-0123456789abcdef" },
  { "a gated ReplicaSet",
    REPLICA_SET_OF ("{'replicas':2,'selector':{},'template':{'spec':{'containers':[]," GATE "}}}"), replica_set_trim,
    replica_set_index,
    "{'status':{},'spec':{'replicas':2,'template':{'spec':{" GATE "}}},'metadata':{" META
    ",'ownerReferences':[{'controller':true,'kind':'Deployment','name':'d','uid':'2'}]}}",
    "2" },
  { "one that would make Pods with a claim", REPLICA_SET_OF ("{'replicas':2,'template':{'spec':{" VOLUMES "}}}"),
    replica_set_trim, replica_set_index, NULL, "2 u/ai-models-cache-0123456789abcdef" },
  { "one that would make none", REPLICA_SET_OF ("{'replicas':0,'template':{'spec':{" VOLUMES "}}}"), replica_set_trim,
    replica_set_index, NULL, "2" },
  { "a stranger's ReplicaSet", REPLICA_SET_OF ("{'replicas':2,'template':{'spec':{'containers':[]}}}"),
    replica_set_trim, replica_set_index,
    "{'status':{},'spec':{'replicas':2},'metadata':{" META
    ",'ownerReferences':[{'controller':true,'kind':'Deployment','name':'d','uid':'2'}]}}",
    "2" },
  { "a stranger's Pod", POD_OF ("ReplicaSet", "{'containers':[]}"), pending_pod_trim, pending_pod_index,
    "{'metadata':{" META "}}", "" },
  { "a Pod with a claim", POD_OF ("ReplicaSet", "{'containers':[]," VOLUMES "}"), pending_pod_trim, pending_pod_index,
    NULL, "2 u/ai-models-cache-0123456789abcdef" },
  { "a gated Pod of a Job", POD_OF ("Job", "{'containers':[]," GATE "}"), pending_pod_trim, pending_pod_index,
    "{'metadata':{" META ",'ownerReferences':[{'controller':true,'kind':'Job','name':'d','uid':'2'}]},'spec':{" GATE
    "}}",
    "2 //u" },
};

static void
same_json (const char *one, const char *other)
{
  g_autoptr (yyjson_doc) a = yyjson_read (one, strlen (one), 0), b = yyjson_read (other, strlen (other), 0);
  if (!yyjson_equals (yyjson_doc_get_root (a), yyjson_doc_get_root (b)))
    g_assert_cmpstr (one, ==, other);
}

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *text = NULL;
      g_autoptr (KubeObject) object = trimmed (rows[i].object, rows[i].trim, &text);
      g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
      rows[i].index (object, values);
      g_ptr_array_add (values, NULL);
      g_autofree char *joined = g_strjoinv (" ", (char **) values->pdata);
      g_test_message ("%s", rows[i].name);
      g_assert_cmpstr (joined, ==, rows[i].values);
      g_autofree char *kept = rows[i].kept != NULL ? g_strdelimit (g_strdup (rows[i].kept), "'", '"') : NULL;
      if (kept != NULL)
        same_json (text, kept);
      g_autofree char *again_text = NULL;
      gsize size = 0;
      g_autoptr (KubeObject) again = kube_object_trimmed (object, rows[i].trim, &again_text, &size);
      same_json (again_text, text);
    }
}

static void
test_owners (void)
{
  g_autoptr (KubeObject) claim = object_of ("{'metadata':{'ownerReferences':[{'uid':'1'},{'uid':'2'},{'uid':3}]}}");
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  owners_index (claim, values);
  g_assert_cmpuint (values->len, ==, 2);
}

#define DIGEST "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define CLAIM(name, more, annotation)                                                     \
  "{'metadata':{'name':'" name "','namespace':'team'," more "'annotations':{" annotation  \
  "'ai.deckhouse.io/owner-kind-full':'Model','ai.deckhouse.io/owner-name-full':'minilm'," \
  "'ai.deckhouse.io/artifact-digest':'" DIGEST "'}}}"
#define OURS(more, annotation) CLAIM ("ai-models-cache-c2a1d30d88596d31", more, annotation)
#define HELD "'ownerReferences':[{'uid':'1'}],"
#define WHOLE "'ai.deckhouse.io/materialized-digest':'d',"

/* Claims of which something is left to do are found; what only has the label is nobody's: it may be anybody's data. */
static void
test_unsettled (void)
{
  static const struct {
    const char *claim, *values;
  } claims[] = {
    { OURS (HELD, WHOLE), "1" },
    { OURS (HELD, ""), "1 unsettled" },
    { OURS ("", WHOLE), "unsettled" },
    { OURS (HELD, WHOLE "'ai.deckhouse.io/released-at':'t',"), "1 unsettled" },
    { OURS ("'deletionTimestamp':'t'," HELD, WHOLE), "1 unsettled" },
    { CLAIM ("data", "", ""), "" },
    { CLAIM ("data", HELD, WHOLE), "" },
    { CLAIM ("ai-models-cache-0000000000000000", HELD, WHOLE), "" },
    { "{'metadata':{'name':'data','namespace':'team'}}", "" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (claims); i++)
    {
      g_autoptr (KubeObject) claim = object_of (claims[i].claim);
      g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
      claim_index (claim, values);
      g_ptr_array_add (values, NULL);
      g_autofree char *joined = g_strjoinv (" ", (char **) values->pdata);
      g_assert_cmpstr (joined, ==, claims[i].values);
    }
}

static void
test_kinds (void)
{
  g_autoptr (KubeObject) set = object_of ("{'metadata':{'name':'s'},'spec':{'volumeClaimTemplates':[{'metadata':{"
                                          "'name':'data'}},{'metadata':{}}]}}");
  const WorkloadKind *kind = workload_kind_named ("StatefulSet");
  g_autofree const char **names = workload_claim_templates (kind, set);
  g_autofree const char **none = workload_claim_templates (workload_kind_named ("Deployment"), set);
  g_autofree char *key = workload_key (kind, "u", "s");
  g_assert_cmpstr (names[0], ==, "data");
  g_assert_null (names[1]);
  g_assert_null (none[0]);
  g_assert_cmpstr (key, ==, "StatefulSet/u/s");
  g_assert_cmpint (workload_kind_index (kind), ==, WORKLOAD_STATEFUL_SET);
  g_assert_null (workload_kind_named ("Pod"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery_trim/rows", test_rows);
  g_test_add_func ("/delivery_trim/owners", test_owners);
  g_test_add_func ("/delivery_trim/unsettled", test_unsettled);
  g_test_add_func ("/delivery_trim/kinds", test_kinds);
  return g_test_run ();
}
