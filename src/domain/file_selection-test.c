#include "domain/file_selection.h"

#include <string.h>

/* A list of paths, separated by spaces; every file has 10 bytes. */
static FileSelection *
select_files (const char *list, const SelectionWish *wish, GError **error)
{
  g_auto (GStrv) paths = g_strsplit (list, " ", -1);
  g_autoptr (GArray) files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  for (guint i = 0; paths[i] != NULL; i++)
    {
      SourceFile file = { paths[i], 10, FALSE };
      if (paths[i][0] != '\0')
        g_array_append_val (files, file);
    }
  return file_selection_new ((const SourceFile *) (gpointer) files->data, files->len, wish, error);
}

/* Kept targets, separated by spaces. */
static char *
kept (const FileSelection *selection)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      if (selected_file_is_kept (file))
        g_string_append_printf (text, "%s%s", text->len > 0 ? " " : "", file->target);
      g_assert_cmpstr (file->why, !=, "");
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
expect_kept (const char *list, const SelectionWish *wish, ModelFormat format, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (FileSelection) selection = select_files (list, wish, &error);
  g_assert_no_error (error);
  g_assert_cmpint (selection->format, ==, format);
  g_autofree char *text = kept (selection);
  g_assert_cmpstr (text, ==, expected);
}

static void
expect_error (const char *list, const SelectionWish *wish, const char *reason, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (FileSelection) selection = select_files (list, wish, &error);
  g_assert_null (selection);
  g_assert_cmpstr (am_error_reason (error), ==, reason);
  if (strstr (error->message, part) == NULL)
    g_error ("\"%s\" lacks \"%s\"", error->message, part);
}

/* publication-pipeline.md, "Per-file classification". */
static const struct {
  const char *path;
  FileRole safetensors, gguf, diffusers;
} rows[] = {
  { "config.json", FILE_CONFIG, FILE_COMPANION, FILE_COMPANION },
  { "model_index.json", FILE_DROPPED, FILE_DROPPED, FILE_CONFIG },
  { "model.safetensors", FILE_WEIGHTS, FILE_DROPPED, FILE_WEIGHTS },
  { "Model.SafeTensors", FILE_WEIGHTS, FILE_DROPPED, FILE_WEIGHTS },
  { "sub/model.safetensors", FILE_WEIGHTS, FILE_DROPPED, FILE_WEIGHTS },
  { "x.gguf", FILE_DROPPED, FILE_WEIGHTS, FILE_DROPPED },
  { "Q4_K_M/x.gguf", FILE_DROPPED, FILE_WEIGHTS, FILE_DROPPED },
  { "__MACOSX/config.json", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { ".git/config.json", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { ".gitattributes", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "original/model.safetensors", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "onnx/model.onnx", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "a/Tests/config.json", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "tokenizer.json", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "merges.txt", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "params", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "sub/params", FILE_DROPPED, FILE_DROPPED, FILE_COMPANION },
  { "spiece.model", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "tokenizer_2/spiece.model", FILE_DROPPED, FILE_DROPPED, FILE_COMPANION },
  { "1_Pooling/config.json", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "sentence_bert_config.json", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "tekken.json", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "chat_template.jinja", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "model.safetensors.index.json", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "pytorch_model.bin.index.json", FILE_COMPANION, FILE_COMPANION, FILE_COMPANION },
  { "results.json", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "modeling_custom.py", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "run.sh", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "pytorch_model.bin", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "pytorch_model-00001-of-00002.bin", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "unet/diffusion_pytorch_model.bin", FILE_DROPPED, FILE_DROPPED, FILE_WEIGHTS },
  { "text_encoder/model.bin", FILE_DROPPED, FILE_DROPPED, FILE_WEIGHTS },
  { "unet/other.bin", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "tf_model.h5", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "model.ckpt-100.index", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "x.pth", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "README.md", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "LICENSE", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "USE_POLICY.md", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "pic.PNG", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "requirements.txt", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "evil.so", FILE_REJECTED, FILE_REJECTED, FILE_REJECTED },
  { "a/b.EXE", FILE_REJECTED, FILE_REJECTED, FILE_REJECTED },
  { "data.tar.gz", FILE_REJECTED, FILE_REJECTED, FILE_REJECTED },
  { "onnx/evil.so", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
  { "readme.zip", FILE_DROPPED, FILE_DROPPED, FILE_REJECTED },
  { "anything.xyz", FILE_DROPPED, FILE_DROPPED, FILE_DROPPED },
};

static void
test_rules (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("%s", rows[i].path);
      g_assert_cmpint (file_rule (MODEL_FORMAT_SAFETENSORS, rows[i].path, FALSE).role, ==, rows[i].safetensors);
      g_assert_cmpint (file_rule (MODEL_FORMAT_GGUF, rows[i].path, FALSE).role, ==, rows[i].gguf);
      g_assert_cmpint (file_rule (MODEL_FORMAT_DIFFUSERS, rows[i].path, FALSE).role, ==, rows[i].diffusers);
    }
  g_assert_cmpint (file_rule (MODEL_FORMAT_GGUF, "blob", TRUE).role, ==, FILE_WEIGHTS);
  g_assert_cmpint (file_rule (MODEL_FORMAT_GGUF, "blob.xyz", TRUE).role, ==, FILE_DROPPED);
}

static void
test_formats (void)
{
  const SelectionWish gguf = { TRUE, MODEL_FORMAT_GGUF, NULL, NULL };
  const SelectionWish safetensors = { TRUE, MODEL_FORMAT_SAFETENSORS, NULL, NULL };
  const char *both = "config.json model.safetensors x.gguf README.md";
  expect_kept ("config.json model.safetensors README.md LICENSE", NULL, MODEL_FORMAT_SAFETENSORS,
               "config.json model.safetensors");
  expect_kept ("x.gguf README.md config.json", NULL, MODEL_FORMAT_GGUF, "x.gguf config.json");
  expect_kept ("model_index.json unet/config.json unet/diffusion_pytorch_model.safetensors", NULL,
               MODEL_FORMAT_DIFFUSERS, "model_index.json unet/config.json unet/diffusion_pytorch_model.safetensors");
  expect_error (both, NULL, "AmbiguousFormat", "Safetensors and GGUF");
  expect_kept (both, &gguf, MODEL_FORMAT_GGUF, "config.json x.gguf");
  expect_kept (both, &safetensors, MODEL_FORMAT_SAFETENSORS, "config.json model.safetensors");
  expect_error ("config.json pytorch_model.bin", NULL, "PickleRejected", "there are no .safetensors weights");
  expect_error (
    "README.md x.onnx", NULL, "UnsupportedFormat",
    "Diffusers: there is no model_index.json; Safetensors: there is no config.json; GGUF: there are no .gguf");
  expect_error ("", NULL, "UnsupportedFormat", "no supported model");
  expect_error ("model.safetensors", NULL, "UnsupportedFormat", "there is no config.json");
  expect_error ("sub/config.json sub/model.safetensors", NULL, "UnsupportedFormat", "there is no config.json");
  expect_error ("config.json onnx/model.safetensors", NULL, "UnsupportedFormat", "there are no .safetensors");
  expect_error ("x.gguf", &safetensors, "UnsupportedFormat", "Safetensors");
  g_autoptr (GError) error = NULL;
  const SourceFile blob = { "blob", 10, TRUE };
  g_autoptr (FileSelection) selection = file_selection_new (&blob, 1, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (selection->format, ==, MODEL_FORMAT_GGUF);
  g_assert_cmpuint (file_selection_n_kept (selection), ==, 1);
  g_assert_cmpuint (file_selection_kept_bytes (selection), ==, 10);
}

/* Pitfalls A25. */
static void
test_rejects (void)
{
  expect_error ("config.json model.safetensors evil.so", NULL, "FileRejected", "evil.so");
  expect_error ("config.json model.safetensors ../x", NULL, "FileRejected", "unsafe");
  expect_error ("config.json model.safetensors ..\\x", NULL, "FileRejected", "unsafe");
  expect_error ("config.json model.safetensors /etc/passwd", NULL, "FileRejected", "unsafe");
  expect_error ("config.json model.safetensors a//b", NULL, "FileRejected", "unsafe");
  expect_error ("config.json model.safetensors config.json", NULL, "FileRejected", "twice");
  expect_error ("config.json model.safetensors Config.json", NULL, "FileRejected", "case");
  const SelectionWish fp16 = { .variant = "fp16" };
  expect_error ("model_index.json unet/config.json unet/diffusion_pytorch_model.fp16.safetensors "
                "unet/diffusion_pytorch_model.safetensors.index.fp16.json "
                "unet/diffusion_pytorch_model.safetensors.index.fp16.json",
                &fp16, "FileRejected", "twice");
  expect_kept ("config.json model.safetensors README.md readme.md", NULL, MODEL_FORMAT_SAFETENSORS,
               "config.json model.safetensors");
}

static void
test_within (void)
{
  const char *list
    = "README.md config.json model.safetensors Q4/x-Q4-00001-of-00002.gguf Q4/x-Q4-00002-of-00002.gguf "
      "Q8/x-Q8.gguf Q8/config.json a.gguf a-00001-of-00002.gguf";
  static const struct {
    const char *within;
    ModelFormat format;
    const char *expected;
  } places[] = {
    { "Q8", MODEL_FORMAT_GGUF, "x-Q8.gguf config.json" },
    { "Q8/", MODEL_FORMAT_GGUF, "x-Q8.gguf config.json" },
    { "Q8\\x-Q8.gguf", MODEL_FORMAT_GGUF, "x-Q8.gguf" },
    { "a.gguf", MODEL_FORMAT_GGUF, "a.gguf" },
    { "Q4", MODEL_FORMAT_GGUF, "x-Q4-00001-of-00002.gguf x-Q4-00002-of-00002.gguf" },
    { "Q4/x-Q4-00002-of-00002.gguf", MODEL_FORMAT_GGUF, "x-Q4-00001-of-00002.gguf x-Q4-00002-of-00002.gguf" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      const SelectionWish wish = { .within = places[i].within };
      expect_kept (list, &wish, places[i].format, places[i].expected);
    }
  const SelectionWish nowhere = { .within = "Q5" }, half = { .within = "a-00001-of-00002.gguf" };
  expect_error (list, &nowhere, NULL, "no file or folder \"Q5\"");
  expect_error (list, &half, "ShardMissing", "missing: 2");
}

/* Pitfalls B36 B38. */
static void
test_sets (void)
{
  expect_error ("x-00001-of-00002.gguf", NULL, "ShardMissing", "x-*-of-00002.gguf");
  expect_error ("config.json model-00002-of-00002.safetensors", NULL, "ShardMissing", "missing: 1");
  expect_kept ("a-00001-of-00002.gguf b-00001-of-00001.gguf a-00002-of-00002.gguf mmproj.gguf", NULL,
               MODEL_FORMAT_GGUF, "a-00001-of-00002.gguf b-00001-of-00001.gguf a-00002-of-00002.gguf mmproj.gguf");
  expect_kept ("config.json model.safetensors consolidated.safetensors model.fp16.safetensors", NULL,
               MODEL_FORMAT_SAFETENSORS, "config.json model.safetensors");
  expect_kept ("config.json consolidated.safetensors", NULL, MODEL_FORMAT_SAFETENSORS,
               "config.json consolidated.safetensors");
}

/* Contents by path: pairs, ended by NULL. */
static GBytes *
load_from (const char *path, gpointer data, GError **error)
{
  const char *const *pairs = data;
  for (; *pairs != NULL; pairs += 2)
    if (strcmp (pairs[0], path) == 0)
      return g_bytes_new (pairs[1], strlen (pairs[1]));
  return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "%s was not expected to be read", path);
}

static void
expect_refined (const char *list, const SelectionWish *wish, const char *const *contents, const char *expected,
                const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (FileSelection) selection = select_files (list, wish, &error);
  g_assert_no_error (error);
  gboolean good = file_selection_refine (selection, load_from, (gpointer) contents, &error);
  if (reason != NULL)
    {
      g_assert_false (good);
      g_assert_cmpstr (am_error_reason (error), ==, reason);
      if (strstr (error->message, expected) == NULL)
        g_error ("\"%s\" lacks \"%s\"", error->message, expected);
      return;
    }
  g_assert_no_error (error);
  g_autofree char *text = kept (selection);
  g_assert_cmpstr (text, ==, expected);
}

#define MAP(a, b) "{\"weight_map\":{\"x\":\"" a "\",\"y\":\"" b "\"}}"
#define TWO "model-00001-of-00002.safetensors model-00002-of-00002.safetensors"

/* Pitfalls B36 B37 B38. */
static void
test_index (void)
{
  const char *const good[] = { "model.safetensors.index.json",
                               MAP ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"), NULL };
  const char *const bad[] = { "model.safetensors.index.json", "{", NULL };
  const char *const adapter[] = { "model.safetensors.index.json", MAP ("a.safetensors", "b.safetensors"),
                                  "other.safetensors.index.json", MAP ("c.safetensors", "c.safetensors"), NULL };
  const char *head = "config.json model.safetensors.index.json ";
  g_autofree char *complete = g_strconcat (head, TWO " extra.safetensors consolidated.safetensors", NULL);
  g_autofree char *kept_list = g_strconcat (head, TWO, NULL);
  g_autofree char *partial = g_strconcat (head, "model-00001-of-00002.safetensors", NULL);
  g_autofree char *stale = g_strconcat (head, "model-00001-of-00001.safetensors", NULL);
  expect_refined (complete, NULL, good, kept_list, NULL);
  expect_refined (partial, NULL, good, "missing: model-00002-of-00002.safetensors", "ShardMissing");
  expect_refined (stale, NULL, good, "stale", "StaleIndex");
  expect_refined (partial, NULL, bad, "bad JSON", "FormatInvalid");
  expect_refined ("config.json model.safetensors.index.json other.safetensors.index.json a.safetensors b.safetensors "
                  "c.safetensors d.safetensors sub/e.safetensors",
                  NULL, adapter,
                  "config.json model.safetensors.index.json other.safetensors.index.json a.safetensors b.safetensors "
                  "c.safetensors sub/e.safetensors",
                  NULL);
  /* A pickle index that stayed behind concerns nobody. */
  expect_refined ("config.json model.safetensors pytorch_model.bin.index.json", NULL, bad,
                  "config.json model.safetensors pytorch_model.bin.index.json", NULL);
}

#define PIPELINE                                                                                                   \
  "{\"_class_name\":\"StableDiffusionPipeline\",\"_diffusers_version\":\"0.30\",\"requires_safety_checker\":true," \
  "\"scheduler\":[\"diffusers\",\"PNDMScheduler\"],\"text_encoder\":[\"transformers\",\"CLIPTextModel\"],"         \
  "\"tokenizer\":[\"transformers\",\"CLIPTokenizer\"],\"unet\":[\"diffusers\",\"UNet2DConditionModel\"],"          \
  "\"safety_checker\":[null,null],\"feature_extractor\":[\"transformers\",\"CLIPImageProcessor\"]}"
#define PARTS                                                                                                  \
  "model_index.json scheduler/scheduler_config.json text_encoder/config.json tokenizer/tokenizer_config.json " \
  "tokenizer/vocab.json tokenizer/merges.txt unet/config.json feature_extractor/preprocessor_config.json"

/* Formats page 5, pitfalls B40 B41 B42. */
static void
test_pipeline (void)
{
  const char *const contents[] = { "model_index.json", PIPELINE, NULL };
  const SelectionWish fp16 = { .variant = "fp16" };
  expect_refined (
    PARTS " unet/diffusion_pytorch_model.safetensors unet/diffusion_pytorch_model.bin "
          "unet/diffusion_pytorch_model.fp16.safetensors unet/diffusion_pytorch_model.non_ema.safetensors "
          "text_encoder/model.safetensors text_encoder/pytorch_model.bin text_encoder/model.fp16.safetensors "
          "sd_xl_base_1.0.safetensors vae_1_0/config.json vae_1_0/diffusion_pytorch_model.safetensors "
          "unet/deep/x.safetensors picture.png",
    NULL, contents, PARTS " unet/diffusion_pytorch_model.safetensors text_encoder/model.safetensors", NULL);
  expect_refined (PARTS " unet/diffusion_pytorch_model.safetensors unet/diffusion_pytorch_model.fp16.safetensors "
                        "text_encoder/model.safetensors text_encoder/model.fp16.bin",
                  &fp16, contents,
                  PARTS " unet/diffusion_pytorch_model.fp16.safetensors text_encoder/model.safetensors", NULL);
  expect_refined (PARTS " unet/diffusion_pytorch_model.bin text_encoder/model.safetensors", NULL, contents,
                  PARTS " unet/diffusion_pytorch_model.bin text_encoder/model.safetensors", NULL);
  expect_refined (PARTS " unet/diffusion_pytorch_model.safetensors", NULL, contents, "weights of text_encoder",
                  "PipelineIncomplete");
  expect_refined ("model_index.json unet/diffusion_pytorch_model.safetensors", NULL, contents, "unet/config.json",
                  "PipelineIncomplete");
  expect_error (PARTS " unet/diffusion_pytorch_model.fp16.safetensors text_encoder/model.safetensors", NULL,
                "PipelineIncomplete", "without a variant: unet");
  expect_error (PARTS " unet/diffusion_pytorch_model.safetensors text_encoder/model.safetensors", &fp16,
                "PipelineIncomplete", "variant fp16");
}

/* Pitfalls B41: sharded plain weights and a single file in the variant, and the other way round. */
static void
test_pipeline_shards (void)
{
  const char *const contents[] = {
    "model_index.json",
    "{\"_class_name\":\"FluxPipeline\",\"transformer\":[\"diffusers\",\"FluxTransformer2DModel\"]}",
    "transformer/diffusion_pytorch_model.safetensors.index.json",
    MAP ("diffusion_pytorch_model-00001-of-00002.safetensors", "diffusion_pytorch_model-00002-of-00002.safetensors"),
    "transformer/diffusion_pytorch_model.safetensors.index.fp16.json",
    MAP ("diffusion_pytorch_model.fp16-00001-of-00001.safetensors",
         "diffusion_pytorch_model.fp16-00001-of-00001.safetensors"),
    NULL
  };
  const SelectionWish fp16 = { .variant = "fp16" };
  const char *list = "model_index.json transformer/config.json "
                     "transformer/diffusion_pytorch_model-00001-of-00002.safetensors "
                     "transformer/diffusion_pytorch_model-00002-of-00002.safetensors "
                     "transformer/diffusion_pytorch_model.fp16-00001-of-00001.safetensors "
                     "transformer/diffusion_pytorch_model.safetensors.index.json "
                     "transformer/diffusion_pytorch_model.safetensors.index.fp16.json";
  expect_refined (list, NULL, contents,
                  "model_index.json transformer/config.json "
                  "transformer/diffusion_pytorch_model-00001-of-00002.safetensors "
                  "transformer/diffusion_pytorch_model-00002-of-00002.safetensors "
                  "transformer/diffusion_pytorch_model.safetensors.index.json",
                  NULL);
  expect_refined (list, &fp16, contents,
                  "model_index.json transformer/config.json "
                  "transformer/diffusion_pytorch_model.fp16-00001-of-00001.safetensors "
                  "transformer/diffusion_pytorch_model.safetensors.index.fp16.json",
                  NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/file-selection/rules", test_rules);
  g_test_add_func ("/file-selection/formats", test_formats);
  g_test_add_func ("/file-selection/rejects", test_rejects);
  g_test_add_func ("/file-selection/within", test_within);
  g_test_add_func ("/file-selection/sets", test_sets);
  g_test_add_func ("/file-selection/index", test_index);
  g_test_add_func ("/file-selection/pipeline", test_pipeline);
  g_test_add_func ("/file-selection/pipeline-shards", test_pipeline_shards);
  return g_test_run ();
}
