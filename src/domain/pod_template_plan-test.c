#include "domain/pod_template_plan.h"

#include <string.h>

#include "domain/delivery_names.h"
#include "domain/model_references.h"

#define ONE "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define TWO "sha256:2222222222222222222222222222222222222222222222222222222222222222"

/* Texts are JSON with ' for ", and words for what is long. */
static const struct {
  const char *word, *text;
} words[] = {
  { "@1", ONE },
  { "@2", TWO },
  { "@GATE", "{'name':'ai.deckhouse.io/model-delivery'}" },
  { "@VOLUME", "{'name':'ai-models-shared-minilm','persistentVolumeClaim':{'claimName':'@CLAIM','readOnly':true}}" },
  { "@SHARED", "{'name':'ai-models-shared-big','persistentVolumeClaim':{'claimName':'@BIG','readOnly':true}}" },
  { "@CLAIM", NULL },
  { "@BIG", NULL },
  { "@MOUNT", "{'name':'ai-models-shared-minilm','mountPath':'/data/modelcache/models/minilm','readOnly':true,"
              "'subPath':'model'}" },
  { "@SECOND", "{'name':'ai-models-shared-big','mountPath':'/data/modelcache/models/big','readOnly':true,"
               "'subPath':'model'}" },
  { "@DIR", "{'name':'AI_MODELS_MODELS_DIR','value':'/data/modelcache/models'}" },
  { "@MODELS",
    "{'name':'AI_MODELS_MODELS','value':'[{~name~:~minilm~,~path~:~/data/modelcache/models/minilm~,~digest~:~" ONE
    "~,~family~:~bert~}]'}" },
  { "@BOTH",
    "{'name':'AI_MODELS_MODELS','value':'[{~name~:~minilm~,~path~:~/data/modelcache/models/minilm~,~digest~:~" ONE
    "~,~family~:~bert~},{~name~:~big~,~path~:~/data/modelcache/models/big~,~digest~:~" TWO "~}]'}" },
  { "@STATE",
    "'ai.deckhouse.io/resolved-digest':'" ONE "','ai.deckhouse.io/resolved-artifact-uri':'r/m',"
    "'ai.deckhouse.io/resolved-artifact-family':'bert','ai.deckhouse.io/resolved-delivery-mode':'SharedPVC',"
    "'ai.deckhouse.io/resolved-delivery-reason':'RWXSharedVolume','ai.deckhouse.io/resolved-models':"
    "'[{~name~:~minilm~,~uri~:~r/m~,~digest~:~" ONE "~,~family~:~bert~}]'" },
  { "~", "\\'" },
  { "'", "\"" },
};

static char *claims[2]; /* of minilm, of big */

static char *
spelled (const char *text)
{
  GString *spelt = g_string_new (text);
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    {
      const char *as = strcmp (words[i].word, "@CLAIM") == 0 ? claims[0] : words[i].text;
      g_string_replace (spelt, words[i].word, as != NULL ? as : claims[1], 0);
    }
  return g_string_free (spelt, FALSE);
}

static yyjson_mut_doc *
template_of (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *json = spelled (text);
  g_autoptr (yyjson_doc) doc = json_parse (json, strlen (json), 65536, JSON_STRICT, &error);
  g_assert_no_error (error);
  return yyjson_doc_mut_copy (doc, NULL);
}

static const DeliveredModel minilm = { (char *) "minilm", (char *) "r/m", (char *) ONE, (char *) "bert", 0 };
static const DeliveredModel big = { (char *) "big", (char *) "r/b", (char *) TWO, NULL, 0 };

static PodTemplatePlan *
plan_of (const DeliveredModel *first, const DeliveredModel *second, const guint8 *key)
{
  g_auto (DeliveryState) state = { 0 };
  g_auto (DeliveryAnnotations) annotations = { 0 };
  g_autoptr (GError) error = NULL;
  delivery_state_init (&state, DELIVERY_SHARED_PVC);
  delivery_state_add (&state, first);
  if (second != NULL)
    delivery_state_add (&state, second);
  delivery_state_write (&state, "team", key, &annotations);
  g_autoptr (GPtrArray) references = model_references_parse (first->name, second != NULL ? second->name : NULL, NULL);
  PodTemplatePlan *plan = pod_template_plan_new (&state, &annotations, references, "team", &error);
  g_assert_no_error (error);
  return plan;
}

typedef enum { NOTHING, HOLD, CLEAR, ONE_MODEL, TWO_MODELS } Form;

static gboolean
bring (yyjson_mut_doc *doc, Form form)
{
  yyjson_mut_val *template = yyjson_mut_doc_get_root (doc);
  g_autoptr (PodTemplatePlan) plan = form >= ONE_MODEL ? plan_of (&minilm, form == TWO_MODELS ? &big : NULL, NULL)
                                                       : NULL;
  if (form == HOLD)
    return pod_template_hold (doc, template);
  return form == CLEAR ? pod_template_clear (doc, template) : pod_template_deliver (doc, template, plan);
}

static const struct {
  const char *what;
  Form form;
  const char *before, *after; /* NULL: as before */
} rows[] = {
  { "hold", HOLD, "{'metadata':{},'spec':{'containers':[{'name':'a'}]}}",
    "{'metadata':{},'spec':{'containers':[{'name':'a'}],'schedulingGates':[@GATE]}}" },
  { "hold beside another gate", HOLD, "{'spec':{'schedulingGates':[{'name':'x'}]}}",
    "{'spec':{'schedulingGates':[{'name':'x'},@GATE]}}" },
  { "hold what is held", HOLD, "{'spec':{'schedulingGates':[@GATE,{'name':'x'}]}}", NULL },
  { "hold twice the gate", HOLD, "{'spec':{'schedulingGates':[@GATE,@GATE]}}",
    "{'spec':{'schedulingGates':[@GATE]}}" },
  { "hold leaves a variable that we did not write", HOLD,
    "{'spec':{'containers':[{'env':[{'name':'AI_MODELS_MODELS_DIR','value':'/x'}]}],'schedulingGates':[@GATE]}}",
    NULL },
  { "hold what was delivered", HOLD,
    "{'metadata':{'annotations':{@STATE,'mine':'x'}},'spec':{'containers':[{'name':'a','env':[@DIR,@MODELS],"
    "'volumeMounts':[@MOUNT]}],'volumes':[@VOLUME]}}",
    "{'metadata':{'annotations':{'mine':'x'}},'spec':{'containers':[{'name':'a'}],'schedulingGates':[@GATE]}}" },

  { "deliver", ONE_MODEL, "{'metadata':{'labels':{}},'spec':{'containers':[{'name':'a'}],'schedulingGates':[@GATE]}}",
    "{'metadata':{'labels':{},'annotations':{@STATE}},'spec':{'containers':[{'name':'a','volumeMounts':[@MOUNT],"
    "'env':[@DIR,@MODELS]}],'volumes':[@VOLUME]}}" },
  { "deliver without the gate having been there", ONE_MODEL, "{'spec':{'containers':[{'name':'a'}]}}",
    "{'spec':{'containers':[{'name':'a','volumeMounts':[@MOUNT],'env':[@DIR,@MODELS]}],'volumes':[@VOLUME]},"
    "'metadata':{'annotations':{@STATE}}}" },
  { "every container and init container", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'initContainers':[{'name':'i'}],'containers':[{'name':'a'},"
    "{'name':'b'}],'volumes':[@VOLUME]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'initContainers':[{'name':'i','volumeMounts':[@MOUNT],'env':[@DIR,"
    "@MODELS]}],'containers':[{'name':'a','volumeMounts':[@MOUNT],'env':[@DIR,@MODELS]},{'name':'b','volumeMounts':"
    "[@MOUNT],'env':[@DIR,@MODELS]}],'volumes':[@VOLUME]}}" },
  { "beside the user's own, variables first", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'containers':[{'volumeMounts':[{'name':'d','mountPath':'/d'}],'env':"
    "[{'name':'M','value':'$(AI_MODELS_MODELS_DIR)/minilm'}]}],'volumes':[{'name':'d','emptyDir':{}}],"
    "'schedulingGates':[{'name':'x'},@GATE]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'containers':[{'volumeMounts':[{'name':'d','mountPath':'/d'},@MOUNT],"
    "'env':[@DIR,@MODELS,{'name':'M','value':'$(AI_MODELS_MODELS_DIR)/minilm'}]}],'volumes':[{'name':'d','emptyDir':{}},"
    "@VOLUME],'schedulingGates':[{'name':'x'}]}}" },
  { "what is right stays where it is", ONE_MODEL,
    "{'metadata':{'annotations':{'z':'',@STATE}},'spec':{'volumes':[@VOLUME,{'name':'d'}],'containers':[{'env':"
    "[{'name':'M'},@MODELS,@DIR],'volumeMounts':[@MOUNT,{'name':'d'}]}]}}",
    NULL },
  { "in another order of members too", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[{'persistentVolumeClaim':{'readOnly':true,'claimName':"
    "'@CLAIM'},'name':'ai-models-shared-minilm'}],'containers':[{'env':[@DIR,@MODELS],'volumeMounts':[@MOUNT]}]}}",
    NULL },
  { "with a signature of another key", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE,'ai.deckhouse.io/resolved-signature':'x'}},'spec':{'volumes':[@VOLUME],"
    "'containers':[{'env':[@DIR,@MODELS],'volumeMounts':[@MOUNT]}]}}",
    NULL },
  { "variables of ours with other values, of earlier releases", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[@VOLUME],'containers':[{'env':[{'name':"
    "'AI_MODELS_MODELS_DIR','value':'/x'},{'name':'M'},{'name':'AI_MODELS_MODEL_PATH'},{'name':'AI_MODELS_MODEL_X_DIGEST'"
    "},{'name':'AI_MODELS_MODEL_FAMILY'},{'name':'AI_MODELS_MODEL_NAME'}],'volumeMounts':[@MOUNT]}]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[@VOLUME],'containers':[{'env':[@MODELS,@DIR,{'name':'M'},"
    "{'name':'AI_MODELS_MODEL_NAME'}],'volumeMounts':[@MOUNT]}]}}" },
  { "a claim of another digest", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[{'name':'ai-models-shared-minilm','persistentVolumeClaim':{"
    "'claimName':'ai-models-cache-0','readOnly':true}},{'name':'d'}],'containers':[{'env':[@DIR,@MODELS],'volumeMounts':"
    "[@MOUNT]}]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[@VOLUME,{'name':'d'}],'containers':[{'env':[@DIR,@MODELS],"
    "'volumeMounts':[@MOUNT]}]}}" },
  { "a mount that somebody changed, and one more", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[@VOLUME],'containers':[{'env':[@DIR,@MODELS],'volumeMounts':"
    "[{'name':'ai-models-shared-minilm','mountPath':'/y'},@MOUNT]}]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[@VOLUME],'containers':[{'env':[@DIR,@MODELS],'volumeMounts':"
    "[@MOUNT]}]}}" },
  { "a second model", TWO_MODELS,
    "{'spec':{'containers':[{'volumeMounts':[@MOUNT],'env':[@DIR,@MODELS]}],'volumes':[@VOLUME]}}",
    "{'spec':{'containers':[{'volumeMounts':[@MOUNT,@SECOND],'env':[@DIR,@BOTH]}],'volumes':[@VOLUME,@SHARED]},"
    "'metadata':{'annotations':{'ai.deckhouse.io/resolved-digest':'@1','ai.deckhouse.io/resolved-artifact-uri':'r/m',"
    "'ai.deckhouse.io/resolved-artifact-family':'bert','ai.deckhouse.io/resolved-delivery-mode':'SharedPVC',"
    "'ai.deckhouse.io/resolved-delivery-reason':'RWXSharedVolume','ai.deckhouse.io/resolved-models':"
    "'[{~name~:~minilm~,~uri~:~r/m~,~digest~:~@1~,~family~:~bert~},{~name~:~big~,~uri~:~r/b~,~digest~:~@2~}]'}}}" },
  { "one model fewer", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'containers':[{'volumeMounts':[@SECOND,@MOUNT],'env':[@DIR,@BOTH]}],"
    "'volumes':[@SHARED,@VOLUME]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'containers':[{'volumeMounts':[@MOUNT],'env':[@DIR,@MODELS]}],"
    "'volumes':[@VOLUME]}}" },
  { "after the node cache", ONE_MODEL,
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[{'name':'ai-models-node-cache-minilm','csi':{'driver':"
    "'node-cache.ai-models.deckhouse.io'}}],'containers':[{'env':[@DIR,@MODELS],'volumeMounts':[{'name':"
    "'ai-models-node-cache-minilm','mountPath':'/data/modelcache/models/minilm','readOnly':true}]}]}}",
    "{'metadata':{'annotations':{@STATE}},'spec':{'volumes':[@VOLUME],'containers':[{'env':[@DIR,@MODELS],"
    "'volumeMounts':[@MOUNT]}]}}" },

  { "clear", CLEAR,
    "{'metadata':{'labels':{},'annotations':{@STATE}},'spec':{'initContainers':[{'env':[@DIR,@MODELS,{'name':'M'}],"
    "'volumeMounts':[@MOUNT]}],'containers':[{'env':[@MODELS,@DIR],'volumeMounts':[{'name':'d'},@MOUNT]}],'volumes':"
    "[{'name':'d'},@VOLUME],'schedulingGates':[@GATE]}}",
    "{'metadata':{'labels':{}},'spec':{'initContainers':[{'env':[{'name':'M'}]}],'containers':[{'volumeMounts':"
    "[{'name':'d'}]}],'volumes':[{'name':'d'}]}}" },
  { "clear the gate alone", CLEAR,
    "{'spec':{'containers':[{'env':[{'name':'AI_MODELS_MODELS','value':'x'}]}],"
    "'schedulingGates':[@GATE,{'name':'x'}]}}",
    "{'spec':{'containers':[{'env':[{'name':'AI_MODELS_MODELS','value':'x'}]}],'schedulingGates':[{'name':'x'}]}}" },
  { "clear what has nothing", CLEAR, "{'metadata':{'annotations':{'a':'b'}},'spec':{'volumes':[],'containers':[]}}",
    NULL },
  { "clear the volume of a release before", CLEAR,
    "{'spec':{'volumes':[{'name':'ai-models-shared-pvc','persistentVolumeClaim':{'claimName':'ai-models-cache-0'}}],"
    "'containers':[{'volumeMounts':[{'name':'ai-models-shared-pvc','mountPath':'/data/modelcache'}]}]}}",
    "{'spec':{'containers':[{}]}}" },
  { "leave a user's volume with a name like ours", CLEAR,
    "{'spec':{'volumes':[{'name':'ai-models-shared-mine','emptyDir':{}}],'containers':[{'volumeMounts':[{'name':"
    "'ai-models-shared-mine','mountPath':'/mine'}]}]}}",
    NULL },
  { "what is no template", HOLD, "{'spec':7}", NULL },
  { "what is no template either", ONE_MODEL, "[]", NULL },
};

static void
assert_text (yyjson_mut_doc *doc, const char *expected)
{
  g_autofree char *text = json_write (doc, NULL);
  g_assert_cmpstr (text, ==, expected);
}

/* Each brings the template into its form; a second time changes nothing. */
static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (yyjson_mut_doc) doc = template_of (rows[i].before);
      g_autofree char *expected = spelled (rows[i].after != NULL ? rows[i].after : rows[i].before);
      g_test_message ("%s", rows[i].what);
      g_assert_cmpint (bring (doc, rows[i].form), ==, rows[i].after != NULL);
      assert_text (doc, expected);
      g_assert_false (bring (doc, rows[i].form));
      assert_text (doc, expected);
      gboolean has_gate = strstr (expected, DELIVERY_GATE "\"") != NULL;
      g_assert_cmpint (pod_template_has_gate (yyjson_mut_doc_get_root (doc)), ==, has_gate);
      if (rows[i].after != NULL)
        g_assert_cmpint (pod_template_is_managed (yyjson_mut_doc_get_root (doc)), ==, rows[i].form != CLEAR);
    }
}

/* Held and delivered in any order, a template ends as it would have otherwise, and cleared as it began. */
static void
test_ways (void)
{
  static const Form ways[][4] = {
    { HOLD, ONE_MODEL, NOTHING },       { ONE_MODEL, NOTHING },          { TWO_MODELS, HOLD, ONE_MODEL, NOTHING },
    { TWO_MODELS, ONE_MODEL, NOTHING }, { HOLD, TWO_MODELS, ONE_MODEL }, { ONE_MODEL, HOLD, CLEAR, ONE_MODEL },
  };
  static const char begin[]
    = "{'metadata':{'labels':{'a':'b'}},'spec':{'containers':[{'name':'a','env':[{'name':'X'}]}]}}";
  g_autofree char *cleared = spelled (begin);
  g_autoptr (yyjson_mut_doc) straight = template_of (begin);
  bring (straight, ONE_MODEL);
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autoptr (yyjson_mut_doc) doc = template_of (begin);
      for (gsize k = 0; k < G_N_ELEMENTS (ways[i]) && ways[i][k] != NOTHING; k++)
        bring (doc, ways[i][k]);
      g_assert_true (yyjson_mut_equals (yyjson_mut_doc_get_root (doc), yyjson_mut_doc_get_root (straight)));
      bring (doc, CLEAR);
      assert_text (doc, cleared);
    }
}

/* The family is a word of a stranger's file: it is no name of another variable. */
static void
test_dollar (void)
{
  DeliveredModel sly = minilm;
  sly.family = (char *) "$(PASSWORD) $$ $x";
  g_autoptr (PodTemplatePlan) plan = plan_of (&sly, NULL, NULL);
  g_autoptr (yyjson_mut_doc) doc = template_of ("{'spec':{'containers':[{}]}}");
  pod_template_deliver (doc, yyjson_mut_doc_get_root (doc), plan);
  g_autofree char *text = json_write (doc, NULL);
  g_assert_nonnull (strstr (text, "\\\"family\\\":\\\"$$(PASSWORD) $$$$ $$x\\\""));
}

static void
test_signature (void)
{
  guint8 key[DELIVERY_KEY_SIZE];
  delivery_key ("salt", key);
  g_autoptr (PodTemplatePlan) plan = plan_of (&minilm, NULL, key), other = plan_of (&big, NULL, key);
  g_autoptr (yyjson_mut_doc) doc = template_of ("{'spec':{'containers':[{}]}}");
  yyjson_mut_val *template = yyjson_mut_doc_get_root (doc);
  const PodTemplatePlan *const plans[] = { plan, other };
  for (gsize i = 0; i < G_N_ELEMENTS (plans); i++)
    {
      g_auto (DeliveryAnnotations) annotations = { 0 };
      g_assert_true (pod_template_deliver (doc, template, plans[i]));
      pod_template_annotations (template, &annotations);
      g_assert_true (delivery_annotations_are_signed (&annotations, "team", key));
    }
}

/* A state is planned only for just the references it was resolved from. */
static void
test_refused (void)
{
  static const struct {
    DeliveryMode mode;
    const char *references;
  } cases[] = {
    { DELIVERY_NODE_CACHE, "minilm" },     { DELIVERY_SHARED_PVC, "big" },        { DELIVERY_SHARED_PVC, "" },
    { DELIVERY_SHARED_PVC, "big,minilm" }, { DELIVERY_SHARED_PVC, "minilm,big" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_auto (DeliveryState) state = { 0 };
      g_auto (DeliveryAnnotations) annotations = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) references = model_references_parse (cases[i].references, NULL, NULL);
      delivery_state_init (&state, cases[i].mode);
      delivery_state_add (&state, &minilm);
      g_assert_null (pod_template_plan_new (&state, &annotations, references, "team", &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  claims[0] = delivery_object_name (DELIVERY_CLAIM_PREFIX, "team", FALSE, "minilm", ONE);
  claims[1] = delivery_object_name (DELIVERY_CLAIM_PREFIX, "team", TRUE, "big", TWO);
  g_test_add_func ("/pod-template-plan/rows", test_rows);
  g_test_add_func ("/pod-template-plan/ways", test_ways);
  g_test_add_func ("/pod-template-plan/dollar", test_dollar);
  g_test_add_func ("/pod-template-plan/signature", test_signature);
  g_test_add_func ("/pod-template-plan/refused", test_refused);
  int status = g_test_run ();
  g_free (claims[0]);
  g_free (claims[1]);
  return status;
}
