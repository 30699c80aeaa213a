#include "controllers/source_spec.h"

#include "controllers/controllers_fixture.h"

#define HUB "'url':'https://huggingface.co/owner/name'"

static const struct {
  const char *source;
  gboolean is_cluster_wide;
  ModelSourceKind kind;
  const char *type, *reason, *words;
} rows[] = {
  { HUB, FALSE, MODEL_SOURCE_REMOTE, "HuggingFace", NULL, NULL },
  { "'url':'https://ollama.com/library/llama3.2:1b'", TRUE, MODEL_SOURCE_REMOTE, "Ollama", NULL, NULL },
  { "'upload':{}", FALSE, MODEL_SOURCE_UPLOAD, "Upload", NULL, NULL },
  { "'catalog':{'name':'x'}", FALSE, MODEL_SOURCE_CATALOG, NULL, NULL, NULL },
  { HUB ",'authSecretRef':{'name':'s'}", FALSE, MODEL_SOURCE_REMOTE, "HuggingFace", NULL, NULL },
  { HUB ",'authSecretRef':{'name':'s','namespace':'ns'}", FALSE, MODEL_SOURCE_REMOTE, "HuggingFace", NULL, NULL },
  { HUB ",'authSecretRef':{'name':'s','namespace':'other'}", FALSE, MODEL_SOURCE_REMOTE, "HuggingFace",
    "PublicationFailed", "namespace other" },
  { HUB ",'authSecretRef':{'name':''}", FALSE, MODEL_SOURCE_REMOTE, "HuggingFace", "PublicationFailed",
    "names no Secret" },
  { HUB ",'authSecretRef':{'name':'s'}", TRUE, MODEL_SOURCE_REMOTE, "HuggingFace", "PublicationFailed",
    "a ClusterModel cannot" },
  { "'url':'https://ollama.com/library/x','authSecretRef':{'name':'s'}", FALSE, MODEL_SOURCE_REMOTE, "Ollama",
    "PublicationFailed", "models of Hugging Face" },
  { "'url':'https://example.com/x'", FALSE, MODEL_SOURCE_UNSUPPORTED, NULL, "UnsupportedSource", "neither" },
  { "'url':'https://huggingface.co/datasets/a/b'", FALSE, MODEL_SOURCE_UNSUPPORTED, "HuggingFace",
    "UnsupportedSource", "delete the object and create it anew" },
  { "", FALSE, MODEL_SOURCE_UNSUPPORTED, NULL, "UnsupportedSource", "none of url, upload and catalog" },
};

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      SourceSpec spec;
      ModelOwner owner = { "Model", "m", rows[i].is_cluster_wide ? NULL : "ns", "u" };
      g_autofree char *text = g_strdup_printf ("{'metadata':{},'spec':{'source':{%s}}}", rows[i].source);
      g_autoptr (KubeObject) model = object_of (text);
      source_spec_read (model, &owner, &spec);
      g_test_message ("%s: %s", rows[i].source, spec.problem);
      g_assert_cmpint (spec.kind, ==, rows[i].kind);
      g_assert_cmpstr (spec.type, ==, rows[i].type);
      g_assert_cmpstr (spec.problem_reason, ==, rows[i].reason);
      g_assert_true (rows[i].words == NULL ? spec.problem == NULL : strstr (spec.problem, rows[i].words) != NULL);
      source_spec_clear (&spec);
    }
}

static void
test_long_name (void)
{
  SourceSpec spec;
  g_autofree char *name = g_strnfill (253, 'n');
  ModelOwner owner = { "ClusterModel", name, NULL, "01234567-0123-0123-0123-0123456789ab" };
  g_autoptr (KubeObject) model = object_of ("{'metadata':{},'spec':{'source':{'upload':{}}}}");
  source_spec_read (model, &owner, &spec);
  g_assert_cmpstr (spec.problem_reason, ==, "PublicationFailed");
  g_assert_nonnull (strstr (spec.problem, "too long"));
  source_spec_clear (&spec);
}

/* The first that is not empty, without white space around it. */
static void
test_tokens (void)
{
  static const struct {
    const char *data, *token;
  } cases[] = {
    { "'token':'YQ=='", "a" },
    { "'token':'IGEK'", "a" },
    { "'token':'','HF_TOKEN':'Yg=='", "b" },
    { "'HUGGING_FACE_HUB_TOKEN':'Yw==','HF_TOKEN':'Yg=='", "b" },
    { "'HUGGING_FACE_HUB_TOKEN':'Yw=='", "c" },
    { "'token':'ICA='", NULL },
    { "'Token':'YQ=='", NULL },
    { "'token':5", NULL },
    { "", NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'s'},'data':{%s}}", cases[i].data);
      g_autoptr (KubeObject) secret = object_of (text);
      g_autofree char *token = source_token_read (secret, &error);
      g_assert_cmpstr (token, ==, cases[i].token);
      g_assert_true ((token != NULL) == (error == NULL));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/source-spec/rows", test_rows);
  g_test_add_func ("/source-spec/long-name", test_long_name);
  g_test_add_func ("/source-spec/tokens", test_tokens);
  return g_test_run ();
}
