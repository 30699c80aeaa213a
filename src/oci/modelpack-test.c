#include "oci/modelpack.h"

#include <string.h>

#include "oci/path_set.h"

#define CNCF "application/vnd.cncf.model."
#define CNAI "application/vnd.cnai.model."
#define EMPTY_HEX "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

static ModelpackFile
file_of (const char *path, guint8 mark)
{
  ModelpackFile file = { .path = path, .size_bytes = 100u + mark };
  digest_of (DIGEST_SHA256, &mark, 1, &file.digest);
  return file;
}

/* What is built from these files in this order. */
static void
build (const ModelpackFile *files, gsize n, const ModelpackFacts *facts, GBytes **config, GBytes **manifest)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (modelpack_build (files, n, facts, config, manifest, &error));
  g_assert_no_error (error);
}

static char *
text_of (GBytes *bytes)
{
  return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static void
test_build_is_deterministic (void)
{
  static const char *const paths[] = { "README.md", "b/model-2.safetensors", "config.json", "modeling.py",
                                       "a.gguf",    "tokenizer.model",       "LICENSE",     "strange.xyz" };
  static const char *const order[] = { "config.json",           "strange.xyz", "tokenizer.model", "a.gguf",
                                       "b/model-2.safetensors", "modeling.py", "LICENSE",         "README.md" };
  ModelpackFile files[G_N_ELEMENTS (paths)], reversed[G_N_ELEMENTS (paths)];
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    files[i] = reversed[G_N_ELEMENTS (paths) - 1 - i] = file_of (paths[i], (guint8) i);
  g_autoptr (GBytes) config = NULL, manifest = NULL, config2 = NULL, manifest2 = NULL;
  build (files, G_N_ELEMENTS (files), NULL, &config, &manifest);
  build (reversed, G_N_ELEMENTS (files), NULL, &config2, &manifest2);
  g_assert_true (g_bytes_equal (config, config2));
  g_assert_true (g_bytes_equal (manifest, manifest2));
  g_autoptr (Manifest) parsed = manifest_parse (manifest, OCI_MANIFEST, NULL);
  g_assert_cmpstr (parsed->artifact_type, ==, MODEL_ARTIFACT);
  g_assert_cmpstr (parsed->config->media_type, ==, MODEL_CONFIG);
  g_autoptr (Modelpack) pack = modelpack_read (parsed, NULL);
  g_assert_cmpint (pack->form, ==, MODELPACK_FORM_CNCF);
  g_assert_cmpuint (pack->layers->len, ==, G_N_ELEMENTS (order));
  g_auto (ModelpackFacts) facts = { 0 };
  g_assert_true (modelpack_read_config (config, &facts, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (order); i++)
    {
      const ModelpackLayer *layer = &g_array_index (pack->layers, ModelpackLayer, i);
      g_assert_cmpstr (layer->path, ==, order[i]);
      g_assert_cmpint (layer->codec, ==, MODELPACK_RAW);
      g_assert_cmpstr (descriptor_annotation (layer->descriptor, ANNOTATION_TITLE), ==, order[i]);
      g_autofree char *digest = digest_to_string (&layer->descriptor->digest);
      g_assert_cmpstr (g_ptr_array_index (facts.diff_ids, i), ==, digest);
    }
}

static void
test_exact_bytes (void)
{
  ModelpackFile file = { .path = "d/config.json", .size_bytes = 2 };
  digest_of (DIGEST_SHA256, "{}", 2, &file.digest);
  g_autoptr (GBytes) config = NULL, manifest = NULL;
  build (&file, 1, NULL, &config, &manifest);
  g_autofree char *config_text = text_of (config);
  g_assert_cmpstr (config_text, ==,
                   "{\"config\":{},\"descriptor\":{},\"modelfs\":{\"diffIds\":[\"sha256:" EMPTY_HEX
                   "\"],\"type\":\"layers\"}}");
  Digest digest;
  digest_of (DIGEST_SHA256, config_text, strlen (config_text), &digest);
  g_autofree char *config_digest = digest_to_string (&digest);
  g_autofree char *wanted = g_strdup_printf (
    "{\"artifactType\":\"" MODEL_ARTIFACT "\",\"config\":{\"digest\":\"%s\",\"mediaType\":\"" MODEL_CONFIG
    "\",\"size\":%zu},\"layers\":[{\"annotations\":{\"org.cncf.model.file.metadata+json\":\"{\\\"gid\\\":0,\\\"mode\\\":420,"
    "\\\"mtime\\\":\\\"1970-01-01T00:00:00Z\\\",\\\"name\\\":\\\"config.json\\\",\\\"size\\\":2,\\\"typeflag\\\":48,"
    "\\\"uid\\\":0}\",\"org.cncf.model.filepath\":\"d/config.json\",\"org.opencontainers.image.title\":\"d/config.json\"},"
    "\"digest\":\"sha256:" EMPTY_HEX
    "\",\"mediaType\":\"application/vnd.cncf.model.weight.config.v1.raw\",\"size\":2}],"
    "\"mediaType\":\"" OCI_MANIFEST "\",\"schemaVersion\":2}",
    config_digest, strlen (config_text));
  g_autofree char *manifest_text = text_of (manifest);
  g_assert_cmpstr (manifest_text, ==, wanted);
}

static GPtrArray *
strings (const char *first, ...)
{
  GPtrArray *array = g_ptr_array_new_with_free_func (g_free);
  va_list args;
  va_start (args, first);
  for (const char *text = first; text != NULL; text = va_arg (args, const char *))
    g_ptr_array_add (array, g_strdup (text));
  va_end (args);
  return array;
}

static void
test_config_is_strict (void)
{
  g_auto (ModelpackFacts) facts = { 0 };
  facts.name = g_strdup ("n");
  facts.family = g_strdup ("");
  facts.source_url = g_strdup ("https://user:secret@hub.example/team/model?token=secret#x");
  facts.doc_url = g_strdup ("not a url");
  facts.created_at = g_strdup ("2026-01-01T00:00:00Z");
  facts.licenses = strings ("MIT", "", NULL);
  facts.authors = strings ("", NULL);
  facts.architecture = g_strdup ("transformer");
  facts.param_size = g_strdup ("7B");
  facts.precision = g_strdup ("bfloat16, mxfp4,float8_e4m3");
  facts.languages = strings ("en", "EN", "deu", NULL);
  facts.input_types = strings ("text", "smell", NULL);
  facts.tool_usage = TRUE;
  ModelpackFile file = file_of ("m.gguf", 1);
  g_autoptr (GBytes) config = NULL, manifest = NULL;
  build (&file, 1, &facts, &config, &manifest);
  g_autofree char *text = text_of (config);
  g_autofree char *digest = digest_to_string (&file.digest);
  g_autofree char *wanted = g_strdup_printf (
    "{\"config\":{\"architecture\":\"transformer\",\"capabilities\":{\"inputTypes\":[\"text\"],\"languages\":[\"en\"],"
    "\"toolUsage\":true},\"paramSize\":\"7B\",\"precision\":\"bfloat16,float8_e4m3\",\"quantization\":\"mxfp4\"},"
    "\"descriptor\":{\"licenses\":[\"MIT\"],\"name\":\"n\",\"sourceURL\":\"https://hub.example/team/model\"},"
    "\"modelfs\":{\"diffIds\":[\"%s\"],\"type\":\"layers\"}}",
    digest);
  g_assert_cmpstr (text, ==, wanted);
}

static const struct {
  const char *text;
  gboolean is_readable;
  const char *name, *param_size;
  guint n_diff_ids;
} configs[] = {
  { "{}", TRUE, NULL, NULL, 0 },
  { "{\"descriptor\":{\"name\":\"n\",\"unknown\":1},\"other\":[]}", TRUE, "n", NULL, 0 },
  { "{\"descriptor\":{\"name\":7,\"family\":\"f\"},\"config\":{\"paramSize\":\"8b\"}}", TRUE, NULL, "8b", 0 },
  { "{\"config\":{\"paramSize\":8}}", TRUE, NULL, NULL, 0 },
  { "{\"config\":[],\"descriptor\":null,\"modelfs\":{\"type\":\"x\",\"diffIds\":[\"sha256:0\"]}}", TRUE, NULL, NULL,
    1 },
  { "{\"modelfs\":{\"diffIds\":[1]}}", TRUE, NULL, NULL, 0 },
  { "[]", FALSE, NULL, NULL, 0 },
  { "", FALSE, NULL, NULL, 0 },
};

static void
test_config_is_read_leniently (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (configs); i++)
    {
      g_autoptr (GBytes) bytes = g_bytes_new (configs[i].text, strlen (configs[i].text));
      g_auto (ModelpackFacts) facts = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_cmpint (modelpack_read_config (bytes, &facts, &error), ==, configs[i].is_readable);
      g_assert_true (configs[i].is_readable || am_error_has_reason (error, "ManifestInvalid"));
      g_assert_cmpstr (facts.name, ==, configs[i].name);
      g_assert_cmpstr (facts.param_size, ==, configs[i].param_size);
      g_assert_cmpuint (facts.diff_ids == NULL ? 0 : facts.diff_ids->len, ==, configs[i].n_diff_ids);
    }
}

static void
test_build_refuses (void)
{
  static const char *const paths[][2] = {
    { "../x", NULL }, { "/x", NULL },   { "a//b", NULL }, { "a\\b", NULL },
    { "", NULL },     { ".", NULL },    { "x/", NULL },   { "a/./b", NULL },
    { "a", "a" },     { "A", "a" },     { "a", "a/b" },   { "a/b", "a" },
    { "a/b", "A" },   { "a\nb", NULL }, { "\xff", NULL }, { "caf\u00e9", "cafe\u0301" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      ModelpackFile files[2] = { file_of (paths[i][0], 1), file_of (paths[i][1], 2) };
      g_autoptr (GBytes) config = NULL, manifest = NULL;
      g_autoptr (GError) error = NULL;
      g_assert_false (modelpack_build (files, paths[i][1] == NULL ? 1 : 2, NULL, &config, &manifest, &error));
      g_test_message ("%u: %s", i, error->message);
      g_assert_cmpstr (am_error_reason (error), ==, "PathInvalid");
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
    }
  g_autofree char *segment = g_strnfill (256, 's');
  ModelpackFile file = file_of (segment, 1);
  g_autoptr (GBytes) config = NULL, manifest = NULL;
  g_assert_false (modelpack_build (&file, 1, NULL, &config, &manifest, NULL));
  g_assert_false (modelpack_build (NULL, 0, NULL, &config, &manifest, NULL));
}

static void
test_build_too_large (void)
{
  guint n = 9000;
  g_autofree ModelpackFile *files = g_new0 (ModelpackFile, n);
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < n; i++)
    {
      char *path = g_strdup_printf ("some/rather/long/folder/name/%u.json", i);
      g_ptr_array_add (paths, path);
      files[i] = file_of (path, (guint8) i);
    }
  g_autoptr (GBytes) config = NULL, manifest = NULL;
  g_autoptr (GError) error = NULL;
  g_assert_false (modelpack_build (files, n, NULL, &config, &manifest, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "TooManyFiles");
  build (files, 2000, NULL, &config, &manifest);
}

static const struct {
  const char *path;
  ModelpackKind kind;
} kinds[] = {
  { "model.safetensors", MODELPACK_WEIGHT },
  { "MODEL.GGUF", MODELPACK_WEIGHT },
  { "x/pytorch_model-00001-of-00002.bin", MODELPACK_WEIGHT },
  { "model.safetensors.index.json", MODELPACK_WEIGHT_CONFIG },
  { "tokenizer.model", MODELPACK_WEIGHT_CONFIG },
  { "tokenizer.model.v3", MODELPACK_WEIGHT_CONFIG },
  { "merges.txt", MODELPACK_WEIGHT_CONFIG },
  { "chat_template.jinja", MODELPACK_WEIGHT_CONFIG },
  { "notes.txt", MODELPACK_DOC },
  { "LICENSE", MODELPACK_DOC },
  { "LICENSE.json.txt", MODELPACK_DOC },
  { "figures/a.png", MODELPACK_DOC },
  { "modeling_x.py", MODELPACK_CODE },
  { "train.csv", MODELPACK_DATASET },
  { "unknown", MODELPACK_WEIGHT_CONFIG },
};

static void
test_kinds (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      gboolean guessed;
      g_assert_cmpint (modelpack_kind_of_path (kinds[i].path, &guessed), ==, kinds[i].kind);
      g_assert_cmpint (guessed, ==, strcmp (kinds[i].path, "unknown") == 0);
    }
}

/* One or two layers of a foreign manifest and what becomes of them. */
static const struct {
  const char *type1, *annotations1, *type2, *annotations2;
  const char *reason; /* NULL: readable, as follows */
  guint n_layers;
  const char *path;
  ModelpackCodec codec;
  ModelpackForm form;
} foreign[] = {
#define PATH(p) "\"org.cncf.model.filepath\":\"" p "\""
#define TITLE(p) "\"org.opencontainers.image.title\":\"" p "\""
  { CNCF "weight.v1.tar", PATH ("m"), NULL, NULL, NULL, 1, "m", MODELPACK_TAR, MODELPACK_FORM_CNCF },
  { CNCF "weight.config.v1.tar+gzip", PATH ("m"), NULL, NULL, NULL, 1, "m", MODELPACK_TAR_GZIP, MODELPACK_FORM_CNCF },
  { CNCF "doc.v1.tar+zstd", PATH ("m"), NULL, NULL, NULL, 1, "m", MODELPACK_TAR_ZSTD, MODELPACK_FORM_CNCF },
  { CNCF "doc.v1.tar", "", NULL, NULL, NULL, 1, NULL, MODELPACK_TAR, MODELPACK_FORM_CNCF },
  { CNCF "weight.v1.raw", TITLE ("t"), NULL, NULL, NULL, 1, "t", MODELPACK_RAW, MODELPACK_FORM_CNCF },
  { CNCF "weight.v1.raw", TITLE ("t") "," PATH ("p"), NULL, NULL, NULL, 1, "p", MODELPACK_RAW, MODELPACK_FORM_CNCF },
  { CNCF "weight.v1.gguf", PATH ("a.gguf"), NULL, NULL, NULL, 1, "a.gguf", MODELPACK_RAW, MODELPACK_FORM_CNCF },
  { CNCF "weight.v1.raw", "", NULL, NULL, "ManifestInvalid", 0, NULL, 0, 0 },
  { CNCF "x", PATH ("p"), NULL, NULL, "NotAModel", 0, NULL, 0, 0 },
  { CNCF "weight.v2.raw", PATH ("p"), NULL, NULL, "NotAModel", 0, NULL, 0, 0 },
  { CNCF "x", PATH ("p"), CNCF "doc.v1.raw", PATH ("q"), NULL, 1, "q", MODELPACK_RAW, MODELPACK_FORM_CNCF },
  { CNAI "weight.v1.tar", "\"org.cnai.model.filepath\":\"m\"", NULL, NULL, NULL, 1, "m", MODELPACK_TAR,
    MODELPACK_FORM_LEGACY },
  { CNAI "doc.v1.raw", "\"org.cnai.model.filepath\":\"m\"", NULL, NULL, NULL, 1, "m", MODELPACK_RAW,
    MODELPACK_FORM_LEGACY },
  { "application/octet-stream", TITLE ("a/b"), NULL, NULL, NULL, 1, "a/b", MODELPACK_RAW, MODELPACK_FORM_FILES },
  { "application/octet-stream", "", NULL, NULL, "NotAModel", 0, NULL, 0, 0 },
  { "application/vnd.oci.image.layer.v1.tar+gzip", TITLE ("dir") ",\"io.deis.oras.content.unpack\":\"true\"", NULL,
    NULL, NULL, 1, "dir", MODELPACK_TAR_GZIP, MODELPACK_FORM_FILES },
  { "application/vnd.oci.image.layer.v1.tar+gzip", "", NULL, NULL, "NotAModel", 0, NULL, 0, 0 },
  { OCI_EMPTY, TITLE ("t"), NULL, NULL, "NotAModel", 0, NULL, 0, 0 },
  { "application/vnd.docker.ai.gguf.v3", PATH ("m.gguf"), NULL, NULL, NULL, 1, "m.gguf", MODELPACK_RAW,
    MODELPACK_FORM_DOCKER },
  { "application/vnd.docker.ai.dir.tar", PATH ("d"), NULL, NULL, NULL, 1, "d", MODELPACK_TAR, MODELPACK_FORM_DOCKER },
  /* Paths. */
  { CNCF "weight.v1.raw", PATH ("../x"), NULL, NULL, "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.raw", PATH ("/x"), NULL, NULL, "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.tar", PATH ("a//b"), NULL, NULL, "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.raw", PATH ("a\\\\b"), NULL, NULL, "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.raw", PATH (""), NULL, NULL, "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.raw", PATH ("a"), CNCF "doc.v1.raw", PATH ("A"), "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.raw", PATH ("a"), CNCF "doc.v1.raw", PATH ("a/b"), "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.raw", PATH ("a/b"), CNCF "doc.v1.raw", PATH ("a"), "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.tar", PATH ("a"), CNCF "doc.v1.tar", PATH ("a"), "PathInvalid", 0, NULL, 0, 0 },
  { CNCF "weight.v1.tar", PATH ("m"), CNCF "weight.v1.raw", PATH ("m/w.bin"), NULL, 2, "m", MODELPACK_TAR,
    MODELPACK_FORM_CNCF },
  { CNCF "weight.v1.raw", PATH ("m/w.bin"), CNCF "weight.v1.tar", PATH ("m"), NULL, 2, "m/w.bin", MODELPACK_RAW,
    MODELPACK_FORM_CNCF },
  /* File metadata is never taken, so it cannot be wrong. */
  { CNCF "weight.v1.raw", PATH ("m") ",\"org.cncf.model.file.metadata+json\":\"{\\\"mode\\\":2541,\\\"size\\\":-1}\"",
    NULL, NULL, NULL, 1, "m", MODELPACK_RAW, MODELPACK_FORM_CNCF },
  { CNCF "weight.v1.raw", PATH ("m") ",\"org.cncf.model.file.metadata+json\":\"{\"", NULL, NULL, NULL, 1, "m",
    MODELPACK_RAW, MODELPACK_FORM_CNCF },
};

static void
append_layer (GString *text, const char *type, const char *annotations)
{
  if (type != NULL)
    g_string_append_printf (
      text, "%s{\"mediaType\":\"%s\",\"digest\":\"sha512:" EMPTY_HEX EMPTY_HEX "\",\"size\":5,\"annotations\":{%s}}",
      g_str_has_suffix (text->str, "}") ? "," : "", type, annotations);
}

static Manifest *
foreign_manifest (const char *type1, const char *annotations1, const char *type2, const char *annotations2)
{
  g_autoptr (GString) text = g_string_new (
    "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"a/b\",\"digest\":\"sha256:" EMPTY_HEX
    "\",\"size\":2},\"layers\":[");
  append_layer (text, type1, annotations1);
  append_layer (text, type2, annotations2);
  g_string_append (text, "]}");
  g_autoptr (GBytes) bytes = g_bytes_new (text->str, text->len);
  g_autoptr (GError) error = NULL;
  Manifest *manifest = manifest_parse (bytes, NULL, &error);
  g_assert_no_error (error);
  return manifest;
}

static void
test_foreign (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (foreign); i++)
    {
      g_autoptr (Manifest) manifest = foreign_manifest (foreign[i].type1, foreign[i].annotations1, foreign[i].type2,
                                                        foreign[i].annotations2);
      g_autoptr (GError) error = NULL;
      g_autoptr (Modelpack) pack = modelpack_read (manifest, &error);
      g_test_message ("%u: %s", i, error != NULL ? error->message : "read");
      g_assert_cmpstr (am_error_reason (error), ==, foreign[i].reason);
      if (foreign[i].reason != NULL)
        continue;
      g_assert_cmpuint (pack->layers->len, ==, foreign[i].n_layers);
      const ModelpackLayer *layer = &g_array_index (pack->layers, ModelpackLayer, 0);
      g_assert_cmpstr (layer->path, ==, foreign[i].path);
      g_assert_cmpint (layer->codec, ==, foreign[i].codec);
      g_assert_cmpint (pack->form, ==, foreign[i].form);
    }
}

static const struct {
  const char *path1, *path2;
  const char *type2;
  const char *dir;
} dirs[] = {
  { "model.safetensors", "config.json", CNCF "weight.v1.raw", "" },
  { "m/model.safetensors", "m/config.json", CNCF "weight.v1.raw", "m" },
  { "m/a/x.bin", "m/b/y.bin", CNCF "weight.v1.raw", "m" },
  { "m/a/x.bin", "m/ab/y.bin", CNCF "weight.v1.raw", "m" },
  { "m/x.bin", "README.md", CNCF "doc.v1.raw", "m" },
  { "model/x.bin", "model", CNCF "weight.v1.tar", "model" },
  { "m/x.bin", "m/config.json", CNCF "weight.config.v1.tar", "m" },
  { "m/x.bin", "n/x.bin", CNCF "weight.v1.raw", "" },
};

static void
test_model_dir (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (dirs); i++)
    {
      g_autofree char *first = g_strdup_printf (PATH ("%s"), dirs[i].path1);
      g_autofree char *second = g_strdup_printf (PATH ("%s"), dirs[i].path2);
      g_autoptr (Manifest) manifest = foreign_manifest (CNCF "weight.v1.raw", first, dirs[i].type2, second);
      g_autoptr (Modelpack) pack = modelpack_read (manifest, NULL);
      g_autofree char *dir = modelpack_model_dir (pack);
      g_assert_cmpstr (dir, ==, dirs[i].dir);
    }
}

#define ENTRY(type) \
  "{\"mediaType\":\"" OCI_MANIFEST "\",\"digest\":\"sha256:" EMPTY_HEX "\",\"size\":2,\"artifactType\":\"" type "\"}"

static const struct {
  const char *entries;
  const char *artifact_type; /* NULL: ambiguous */
} indexes[] = {
  { ENTRY ("x/y") "," ENTRY (MODEL_ARTIFACT), MODEL_ARTIFACT },
  { ENTRY ("x/y"), "x/y" },
  { ENTRY ("x/y") "," ENTRY ("x/z"), NULL },
  { ENTRY (MODEL_ARTIFACT) "," ENTRY (MODEL_ARTIFACT), NULL },
  { ENTRY ("x/y") "," ENTRY ("application/vnd.cnai.model.manifest.v1+json"),
    "application/vnd.cnai.model.manifest.v1+json" },
  { "", NULL },
};

static void
test_choose (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (indexes); i++)
    {
      g_autofree char *text = g_strdup_printf ("{\"schemaVersion\":2,\"manifests\":[%s]}", indexes[i].entries);
      g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text));
      g_autoptr (Manifest) index = manifest_parse (bytes, NULL, NULL);
      g_autoptr (GError) error = NULL;
      const Descriptor *chosen = modelpack_choose (index, &error);
      g_assert_cmpstr (chosen != NULL ? chosen->artifact_type : NULL, ==, indexes[i].artifact_type);
      g_assert_true (chosen != NULL || am_error_has_reason (error, "Ambiguous"));
      g_assert_null (modelpack_read (index, NULL));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/modelpack/build-is-deterministic", test_build_is_deterministic);
  g_test_add_func ("/modelpack/exact-bytes", test_exact_bytes);
  g_test_add_func ("/modelpack/config-is-strict", test_config_is_strict);
  g_test_add_func ("/modelpack/config-is-read-leniently", test_config_is_read_leniently);
  g_test_add_func ("/modelpack/build-refuses", test_build_refuses);
  g_test_add_func ("/modelpack/build-too-large", test_build_too_large);
  g_test_add_func ("/modelpack/kinds", test_kinds);
  g_test_add_func ("/modelpack/foreign", test_foreign);
  g_test_add_func ("/modelpack/model-dir", test_model_dir);
  g_test_add_func ("/modelpack/choose", test_choose);
  return g_test_run ();
}
