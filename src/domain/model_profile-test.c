#include "domain/model_profile.h"

#include <string.h>

#include "domain/model_task.h"
#include "domain/name_hints.h"
#include "formats/formats_fixture.h"
#include "formats/model_inspector.h"

/* Adds a file; takes `bytes` over. */
static gboolean
add (ModelInspector *inspector, const char *path, GBytes *bytes, GError **error)
{
  g_autoptr (Reader) reader = fixture_reader (bytes);
  return model_inspector_add_file (NULL, inspector, path, reader, error);
}

static void
add_good (ModelInspector *inspector, const char *path, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  add (inspector, path, bytes, &error);
  g_assert_no_error (error);
}

static void
add_text (ModelInspector *inspector, const char *path, const char *text)
{
  add_good (inspector, path, fixture_text (text));
}

static ModelProfile *
finish (ModelInspector *inspector, const ModelDeclaration *declaration)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelFacts) facts = model_inspector_finish (inspector, &error);
  g_assert_no_error (error);
  return model_profile_new (facts, declaration);
}

static void
expect_finish_error (ModelInspector *inspector, const char *reason, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelFacts) facts = model_inspector_finish (inspector, &error);
  g_assert_null (facts);
  g_assert_cmpstr (am_error_reason (error), ==, reason);
  fixture_assert_error (&error, part);
}

static char *
join (const GPtrArray *list)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < list->len; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? " " : "", (const char *) list->pdata[i]);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
expect_list (const GPtrArray *list, const char *expected)
{
  g_autofree char *text = join (list);
  g_assert_cmpstr (text, ==, expected);
}

#define QWEN                                                                                                       \
  "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"hidden_size\":8,\"intermediate_size\":16," \
  "\"max_position_embeddings\":40960,\"num_attention_heads\":2,\"num_hidden_layers\":1,\"num_key_value_heads\":1," \
  "\"vocab_size\":10,\"torch_dtype\":\"bfloat16\"}"
#define TENSOR(name, from, to) "\"" name "\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[" #from "," #to "]}"

static void
test_safetensors (void)
{
  g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_SAFETENSORS);
  add_text (inspector, "config.json", QWEN);
  add_text (inspector, "tokenizer_config.json",
            "{\"chat_template\":\"{%- if tools %}<think>\",\"model_max_length\":131072}");
  add_text (inspector, "tokenizer.json", "{}");
  add_good (inspector, "model.safetensors",
            fixture_safetensors ("{" TENSOR ("a", 0, 8) "," TENSOR ("b", 8, 16) "}", 16));
  g_autoptr (ModelProfile) profile = finish (inspector, NULL);
  g_assert_cmpstr (profile->architecture, ==, "Qwen3ForCausalLM");
  g_assert_cmpstr (profile->family, ==, "qwen3");
  g_assert_cmpstr (profile->task, ==, "text-generation");
  g_assert_cmpint (profile->task_confidence, ==, CONFIDENCE_DERIVED);
  g_assert_cmpuint (profile->parameter_count, ==, 8);
  g_assert_cmpint (profile->parameter_confidence, ==, CONFIDENCE_EXACT);
  g_assert_cmpuint (profile->context_tokens, ==, 40960);
  g_assert_cmpint (profile->context_confidence, ==, CONFIDENCE_EXACT);
  g_assert_null (profile->quantization);
  g_assert_cmpstr (profile->precision, ==, "bfloat16");
  g_assert_true (profile->has_reasoning);
  g_assert_false (profile->is_partial);
  g_assert_cmpuint (profile->working_set_gib, ==, 1);
  g_assert_cmpuint (profile->n_weight_files, ==, 1);
  g_assert_cmpfloat (profile->bytes_per_parameter, ==, 2);
  expect_list (profile->endpoints, "Chat TextGeneration");
  expect_list (profile->features, "ToolCalling");
}

/* A sentence-transformers folder, as MiniLM's is. */
static void
test_sentence_transformer (void)
{
  g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_SAFETENSORS);
  add_text (inspector, "config.json",
            "{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\",\"max_position_embeddings\":512}");
  add_text (inspector, "modules.json", "[]");
  add_text (inspector, "sentence_bert_config.json", "{\"max_seq_length\":256}");
  add_text (inspector, "tokenizer_config.json", "{\"model_max_length\":512}");
  add_text (inspector, "1_Pooling/config.json", "{}");
  add_good (inspector, "model.safetensors", fixture_safetensors ("{" TENSOR ("a", 0, 8) "}", 8));
  g_autoptr (ModelProfile) profile = finish (inspector, NULL);
  g_assert_cmpstr (profile->task, ==, "feature-extraction");
  g_assert_cmpuint (profile->context_tokens, ==, 256);
  expect_list (profile->endpoints, "Embeddings");
}

static void
test_declarations (void)
{
  static const struct {
    ModelDeclaration declaration;
    const char *task;
    Confidence confidence;
    const char *endpoints;
    gboolean is_partial;
  } cases[] = {
    { { .explicit_task = "Text_Classification", .declared_task = "fill-mask" },
      "text-classification",
      CONFIDENCE_EXACT,
      "",
      FALSE },
    { { .declared_task = "sentence-similarity" }, "sentence-similarity", CONFIDENCE_DECLARED, "Embeddings", FALSE },
    { { .declared_task = "any-to-any" }, "text2text-generation", CONFIDENCE_DERIVED, "Chat TextGeneration", FALSE },
    { { .hinted_task = "rerank" }, "text2text-generation", CONFIDENCE_DERIVED, "Chat TextGeneration", FALSE },
    { { .declared_task = "no-such-task" }, "text2text-generation", CONFIDENCE_DERIVED, "Chat TextGeneration", FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (ModelFacts) facts = model_facts_new (MODEL_FORMAT_SAFETENSORS);
      facts->architecture = g_strdup ("T5ForConditionalGeneration");
      g_autoptr (ModelProfile) profile = model_profile_new (facts, &cases[i].declaration);
      g_assert_cmpstr (profile->task, ==, cases[i].task);
      g_assert_cmpint (profile->task_confidence, ==, cases[i].confidence);
      expect_list (profile->endpoints, cases[i].endpoints);
    }
  g_autoptr (ModelFacts) unknown = model_facts_new (MODEL_FORMAT_SAFETENSORS);
  const char *const tasks[] = { "Text-Generation", "text-generation", "other", NULL };
  const ModelDeclaration hinted = { .hinted_task = "text-generation", .provider_tasks = tasks };
  g_autoptr (ModelProfile) profile = model_profile_new (unknown, &hinted);
  g_assert_cmpint (profile->task_confidence, ==, CONFIDENCE_HINT);
  g_assert_true (profile->is_partial);
  expect_list (profile->endpoints, "");
  expect_list (profile->source_tasks, "text-generation other");
}

static void
test_tasks (void)
{
  static const struct {
    const char *architecture, *model_type;
    gboolean has_vision;
    guint64 n_labels;
    const char *task;
  } cases[] = {
    { "LlamaForCausalLM", "llama", FALSE, 0, "text-generation" },
    { "Qwen3Model", "qwen3", FALSE, 0, "text-generation" },
    { "GPTNeoXForCausalLM", "gpt_neox", FALSE, 0, "text-generation" },
    { "UnknownForCausalLM", "x", FALSE, 0, "text-generation" },
    { "GPT2LMHeadModel", "gpt2", FALSE, 0, "text-generation" },
    { "T5ForConditionalGeneration", "t5", FALSE, 0, "text2text-generation" },
    { "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", TRUE, 0, "image-text-to-text" },
    { "WhisperForConditionalGeneration", "whisper", FALSE, 0, "automatic-speech-recognition" },
    { "BertForSequenceClassification", "bert", FALSE, 3, "text-classification" },
    { "XLMRobertaForSequenceClassification", "xlm-roberta", FALSE, 1, "rerank" },
    { "LlamaForSequenceClassification", "llama", FALSE, 1, "text-classification" },
    { "BertForTokenClassification", "bert", FALSE, 9, "token-classification" },
    { "BertForQuestionAnswering", "bert", FALSE, 0, "question-answering" },
    { "BertForMaskedLM", "bert", FALSE, 0, "fill-mask" },
    { "Wav2Vec2ForCTC", "wav2vec2", FALSE, 0, "automatic-speech-recognition" },
    { "ViTForImageClassification", "vit", FALSE, 1000, "image-classification" },
    { "BertModel", "bert", FALSE, 0, NULL },
    { "CLIPModel", "clip", TRUE, 0, NULL },
    { NULL, NULL, FALSE, 0, NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (ModelFacts) facts = model_facts_new (MODEL_FORMAT_SAFETENSORS);
      facts->architecture = g_strdup (cases[i].architecture);
      facts->model_type = g_strdup (cases[i].model_type);
      facts->has_vision = cases[i].has_vision;
      facts->n_labels = cases[i].n_labels;
      g_assert_cmpstr (task_of_safetensors (facts), ==, cases[i].task);
    }
  g_assert_cmpstr (task_normalise ("Text Ranking"), ==, "rerank");
  g_assert_cmpstr (task_normalise ("STS"), ==, "sentence-similarity");
  g_assert_cmpstr (task_normalise ("translation_en_to_fr"), ==, "translation");
  g_assert_null (task_normalise ("nonsense"));
  g_assert_null (task_normalise (NULL));
  const char *const same[] = { "text-generation", "text_generation", NULL }, *const mixed[] = { "fill-mask", "rerank",
                                                                                                NULL };
  g_assert_cmpstr (task_declared (same, "fill-mask"), ==, "text-generation");
  g_assert_cmpstr (task_declared (mixed, "summarization"), ==, "summarization");
  g_assert_cmpstr (task_declared (NULL, "summarization"), ==, "summarization");
  g_assert_null (task_declared (NULL, NULL));
}

static void
test_pipeline_names (void)
{
  static const struct {
    const char *class_name, *task, *family;
  } cases[] = {
    { "StableDiffusionPipeline", "text-to-image", "stable-diffusion" },
    { "StableDiffusionXLPipeline", "text-to-image", "stable-diffusion" },
    { "StableDiffusionXLImg2ImgPipeline", "image-to-image", "stable-diffusion" },
    { "StableDiffusionInpaintPipeline", "inpainting", "stable-diffusion" },
    { "StableVideoDiffusionPipeline", "image-to-video", NULL },
    { "FluxPipeline", "text-to-image", "flux" },
    { "CogVideoXImageToVideoPipeline", "image-to-video", "cogvideo" },
    { "HunyuanVideoPipeline", NULL, "hunyuan-video" },
    { "TextToVideoSDPipeline", "text-to-video", NULL },
    { "WanPipeline", NULL, "wan" },
    { "AudioLDM2Pipeline", "text-to-audio", "audioldm" },
    { "PixArtAlphaPipeline", "text-to-image", NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s", cases[i].class_name);
      g_assert_cmpstr (task_of_pipeline (cases[i].class_name), ==, cases[i].task);
      g_assert_cmpstr (family_of_pipeline (cases[i].class_name), ==, cases[i].family);
    }
  g_autofree char *family = family_of_architecture ("MistralForCausalLM");
  g_assert_cmpstr (family, ==, "mistral");
}

static GBytes *
gguf_model (guint file_type, guint64 n_elements)
{
  GgufBuilder *b = gguf_builder_new (3, 1, 6);
  gguf_builder_pair_string (b, "general.architecture", "llama");
  gguf_builder_pair_u32 (b, "general.file_type", file_type);
  gguf_builder_pair_u64 (b, "llama.context_length", 131072);
  gguf_builder_pair_u32 (b, "llama.attention.head_count", 0);
  gguf_builder_pair_strings (b, "tokenizer.ggml.tokens", 3, "t");
  gguf_builder_pair_string (b, "tokenizer.chat_template", "{% if tools %}");
  gguf_builder_tensor (b, "w", n_elements, 1, 0, 0);
  return gguf_builder_finish (b, 32, n_elements * 4);
}

static void
test_gguf (void)
{
  g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_GGUF);
  add_good (inspector, "Llama-3.1-8B-Q4_K_M.gguf", gguf_model (15, 64));
  add_text (inspector, "config.json", "{}");
  g_autoptr (ModelProfile) profile = finish (inspector, NULL);
  g_assert_cmpstr (profile->architecture, ==, "llama");
  g_assert_cmpstr (profile->family, ==, "llama");
  g_assert_cmpstr (profile->quantization, ==, "Q4_K_M");
  g_assert_cmpint (profile->quantization_confidence, ==, CONFIDENCE_EXACT);
  g_assert_cmpuint (profile->context_tokens, ==, 131072);
  g_assert_cmpuint (profile->parameter_count, ==, 64);
  g_assert_cmpstr (profile->task, ==, "text-generation");
  g_assert_false (profile->is_partial);
  expect_list (profile->features, "ToolCalling");
  /* Ollama's word on what its files leave open, or mean otherwise. */
  g_autoptr (ModelInspector) again = model_inspector_new (MODEL_FORMAT_GGUF);
  add_good (again, "x.gguf", gguf_model (15, 64));
  const ModelDeclaration ollama = { .family = "llama3", .parameter_text = "8.0B", .context_tokens = 8192 };
  g_autoptr (ModelProfile) declared = finish (again, &ollama);
  g_assert_cmpstr (declared->family, ==, "llama3");
  g_assert_cmpuint (declared->context_tokens, ==, 8192);
  g_assert_cmpint (declared->context_confidence, ==, CONFIDENCE_DECLARED);
  g_assert_cmpuint (declared->parameter_count, ==, 64);
}

/* The same model in two quantizations with a projector beside them. */
static void
test_gguf_collection (void)
{
  g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_GGUF);
  GgufBuilder *b = gguf_builder_new (3, 0, 1);
  gguf_builder_pair_string (b, "general.architecture", "clip");
  add_good (inspector, "mmproj-f16.gguf", gguf_builder_finish (b, 32, 0));
  add_good (inspector, "m-Q4_K_M.gguf", gguf_model (15, 64));
  add_good (inspector, "m-Q8_0.gguf", gguf_model (7, 64));
  g_autoptr (ModelProfile) profile = finish (inspector, NULL);
  g_assert_null (profile->quantization);
  g_assert_cmpuint (profile->parameter_count, ==, 64);
  g_assert_true (profile->has_vision);
  g_assert_cmpstr (profile->task, ==, "image-text-to-text");
  g_assert_cmpuint (profile->warnings->len, ==, 1);
  g_assert_cmpuint (profile->n_weight_files, ==, 3);
}

/* A header without facts: only the name is left to guess from. */
static void
test_gguf_hints (void)
{
  g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_GGUF);
  add_good (inspector, "Mystery-8x7b-instruct-IQ3_XS.gguf", gguf_builder_finish (gguf_builder_new (3, 0, 0), 32, 0));
  g_autoptr (ModelProfile) profile = finish (inspector, NULL);
  g_assert_cmpstr (profile->family, ==, "mystery-instruct");
  g_assert_cmpstr (profile->quantization, ==, "iq3_xs");
  g_assert_cmpuint (profile->parameter_count, ==, 56000000000);
  g_assert_cmpint (profile->parameter_confidence, ==, CONFIDENCE_HINT);
  g_assert_true (profile->is_partial);
  static const struct {
    const char *stem, *family, *quantization;
    guint64 n;
  } cases[] = {
    { "qwen2.5-0.5b-instruct-q4_k_m", "qwen2.5-instruct", "q4_k_m", 500000000 },
    { "model-bf16", "model", "bf16", 0 },
    { "model-F16", "model", "f16", 0 },
    { "model", "model", NULL, 0 },
    { "gemma-q9", "gemma-q9", NULL, 0 },
    { "mistral.Q5_K_S", "mistral", "q5_k_s", 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_auto (NameHints) hints = name_hints_read (cases[i].stem);
      g_assert_cmpstr (hints.family, ==, cases[i].family);
      g_assert_cmpstr (hints.quantization, ==, cases[i].quantization);
      g_assert_cmpuint (hints.n_parameters, ==, cases[i].n);
    }
}

static void
test_split_gguf (void)
{
  for (guint n_given = 1; n_given <= 2; n_given++)
    {
      g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_GGUF);
      for (guint i = 0; i < n_given; i++)
        {
          GgufBuilder *b = gguf_builder_new (3, 1, i == 0 ? 4 : 3);
          if (i == 0)
            gguf_builder_pair_string (b, "general.architecture", "llama");
          gguf_builder_pair_u16 (b, "split.no", (guint16) i);
          gguf_builder_pair_u16 (b, "split.count", 2);
          gguf_builder_pair_i32 (b, "split.tensors.count", 2);
          gguf_builder_tensor (b, i == 0 ? "a" : "b", 8, 0, 0, 0);
          g_autofree char *path = g_strdup_printf ("Q8/m-%05u-of-00002.gguf", i + 1);
          add_good (inspector, path, gguf_builder_finish (b, 32, 32));
        }
      if (n_given == 1)
        {
          expect_finish_error (inspector, "ShardMissing", "missing: 2");
          continue;
        }
      g_autoptr (ModelProfile) profile = finish (inspector, NULL);
      g_assert_cmpuint (profile->parameter_count, ==, 16);
      g_assert_cmpuint (profile->n_weight_files, ==, 2);
    }
}

#define INDEX(total)                                                                                     \
  "{\"metadata\":{\"total_size\":" total "},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\"," \
  "\"b\":\"model-00002-of-00002.safetensors\"}}"

static ModelInspector *
sharded (const char *index, const char *second)
{
  ModelInspector *inspector = model_inspector_new (MODEL_FORMAT_SAFETENSORS);
  add_text (inspector, "config.json", QWEN);
  if (index != NULL)
    add_text (inspector, "model.safetensors.index.json", index);
  add_good (inspector, "model-00001-of-00002.safetensors", fixture_safetensors ("{" TENSOR ("a", 0, 8) "}", 8));
  if (second != NULL)
    add_good (inspector, "model-00002-of-00002.safetensors", fixture_safetensors (second, 8));
  return inspector;
}

/* Pitfalls B36 B37 B38. */
static void
test_shards (void)
{
  const char *good = "{" TENSOR ("b", 0, 8) "}", *twin = "{" TENSOR ("a", 0, 8) "}",
             *other = "{" TENSOR ("c", 0, 8) "}";
  g_autoptr (ModelInspector) whole = sharded (INDEX ("16"), good);
  add_good (whole, "consolidated.safetensors", fixture_safetensors ("{" TENSOR ("x", 0, 8) "}", 8));
  g_autoptr (ModelProfile) profile = finish (whole, NULL);
  g_assert_cmpuint (profile->parameter_count, ==, 8); /* the extra file does not count */
  g_assert_cmpuint (profile->warnings->len, ==, 1);
  g_autoptr (ModelInspector) wrong_total = sharded (INDEX ("17"), good);
  g_autoptr (ModelProfile) warned = finish (wrong_total, NULL);
  g_assert_cmpuint (warned->warnings->len, ==, 1);
  g_autoptr (ModelInspector) missing = sharded (INDEX ("16"), NULL);
  expect_finish_error (missing, "ShardMissing", "model-00002-of-00002.safetensors");
  g_autoptr (ModelInspector) mismatch = sharded (INDEX ("16"), other);
  expect_finish_error (mismatch, "ShardMismatch", "\"c\" is not in the shard index");
  g_autoptr (ModelInspector) no_index = sharded (NULL, good);
  g_autoptr (ModelProfile) unindexed = finish (no_index, NULL);
  g_assert_cmpuint (unindexed->parameter_count, ==, 8);
  g_autoptr (ModelInspector) half = sharded (NULL, NULL);
  expect_finish_error (half, "ShardMissing", "missing: 2");
  g_autoptr (ModelInspector) doubled = sharded (NULL, twin);
  expect_finish_error (doubled, "ShardMismatch", "tensor \"a\" is both in");
}

static void
test_pipeline (void)
{
  const char *index = "{\"_class_name\":\"StableDiffusionPipeline\",\"scheduler\":[\"diffusers\",\"PNDMScheduler\"],"
                      "\"text_encoder\":[\"transformers\",\"CLIPTextModel\"],\"unet\":[\"diffusers\",\"UNet2D\"]}";
  for (guint with_text = 0; with_text < 2; with_text++)
    {
      g_autoptr (ModelInspector) inspector = model_inspector_new (MODEL_FORMAT_DIFFUSERS);
      add_text (inspector, "model_index.json", index);
      add_text (inspector, "unet/config.json", "{}");
      add_good (inspector, "unet/diffusion_pytorch_model.safetensors",
                fixture_safetensors ("{" TENSOR ("a", 0, 8) "}", 8));
      if (with_text)
        add_good (inspector, "text_encoder/model.safetensors", fixture_safetensors ("{" TENSOR ("a", 0, 8) "}", 8));
      if (!with_text)
        {
          expect_finish_error (inspector, "PipelineIncomplete", "text_encoder");
          continue;
        }
      g_autoptr (ModelProfile) profile = finish (inspector, NULL);
      g_assert_cmpstr (profile->architecture, ==, "StableDiffusionPipeline");
      g_assert_cmpstr (profile->family, ==, "stable-diffusion");
      g_assert_cmpint (profile->family_confidence, ==, CONFIDENCE_DERIVED);
      g_assert_cmpuint (profile->parameter_count, ==, 4);
      g_assert_cmpuint (profile->parameters_in_all, ==, 8);
      expect_list (profile->endpoints, "ImageGeneration");
      expect_list (profile->features, "ImageOutput");
    }
}

static void
expect_add_error (ModelFormat format, const char *path, GBytes *bytes, const char *reason, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelInspector) inspector = model_inspector_new (format);
  g_assert_false (add (inspector, path, bytes, &error));
  g_assert_cmpstr (am_error_reason (error), ==, reason);
  g_assert_true (g_str_has_prefix (error->message, path));
  fixture_assert_error (&error, part);
}

static void
test_bad_files (void)
{
  const char *lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  expect_add_error (MODEL_FORMAT_SAFETENSORS, "model.safetensors", fixture_text (lfs), "LfsPointer", "git lfs pull");
  expect_add_error (MODEL_FORMAT_SAFETENSORS, "tokenizer.json", fixture_text (lfs), "LfsPointer", "git lfs pull");
  expect_add_error (MODEL_FORMAT_SAFETENSORS, "config.json", fixture_text ("<html>"), "FormatInvalid", "web page");
  expect_add_error (MODEL_FORMAT_SAFETENSORS, "config.json", fixture_text ("{"), "FormatInvalid", "bad JSON");
  expect_add_error (MODEL_FORMAT_SAFETENSORS, "config.json", fixture_text ("[]"), "FormatInvalid", "object");
  expect_add_error (MODEL_FORMAT_GGUF, "x.gguf", fixture_text ("GGUF"), "FormatInvalid", "truncated");
  expect_add_error (MODEL_FORMAT_DIFFUSERS, "unet/diffusion_pytorch_model.bin", fixture_text ("text"),
                    "FormatInvalid", "no PyTorch weight file");
  g_autoptr (ModelInspector) empty = model_inspector_new (MODEL_FORMAT_SAFETENSORS);
  expect_finish_error (empty, "FormatInvalid", "no weights");
  g_autoptr (ModelInspector) bare = model_inspector_new (MODEL_FORMAT_SAFETENSORS);
  add_good (bare, "model.safetensors", fixture_safetensors ("{}", 0));
  expect_finish_error (bare, "FormatInvalid", "config.json is missing");
  g_autoptr (ModelInspector) lenient = model_inspector_new (MODEL_FORMAT_SAFETENSORS);
  add_text (lenient, "config.json", QWEN);
  add_text (lenient, "tokenizer_config.json", "{ broken");
  add_good (lenient, "model.safetensors", fixture_safetensors ("{}", 0));
  g_autoptr (ModelProfile) profile = finish (lenient, NULL);
  g_assert_cmpuint (profile->warnings->len, ==, 1);
  /* No tensor table to count: metadata-profile.md's formula, which is not public. */
  g_assert_cmpuint (profile->parameter_count, ==, 10 * 8 + 2 * 64 + 2 * 8 * 4 + 3 * 8 * 16);
  g_assert_cmpint (profile->parameter_confidence, ==, CONFIDENCE_ESTIMATED);
  g_assert_true (profile->is_partial);
}

static void
test_counts (void)
{
  static const struct {
    const char *text;
    guint64 n;
  } cases[] = {
    { "8B", 8000000000 },
    { "7.6B", 7600000000 },
    { "566.70M", 566700000 },
    { "12k", 12000 },
    { "1000B", 1000000000000 },
    { "12", 12 },
    { "", 0 },
    { "x", 0 },
    { "-1B", 0 },
    { "7 B", 0 },
    { "1e300B", 0 },
    { NULL, 0 },
    { "7BB", 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpuint (model_profile_parse_count (cases[i].text), ==, cases[i].n);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-profile/safetensors", test_safetensors);
  g_test_add_func ("/model-profile/sentence-transformer", test_sentence_transformer);
  g_test_add_func ("/model-profile/declarations", test_declarations);
  g_test_add_func ("/model-profile/tasks", test_tasks);
  g_test_add_func ("/model-profile/pipeline-names", test_pipeline_names);
  g_test_add_func ("/model-profile/gguf", test_gguf);
  g_test_add_func ("/model-profile/gguf-collection", test_gguf_collection);
  g_test_add_func ("/model-profile/gguf-hints", test_gguf_hints);
  g_test_add_func ("/model-profile/split-gguf", test_split_gguf);
  g_test_add_func ("/model-profile/shards", test_shards);
  g_test_add_func ("/model-profile/pipeline", test_pipeline);
  g_test_add_func ("/model-profile/bad-files", test_bad_files);
  g_test_add_func ("/model-profile/counts", test_counts);
  return g_test_run ();
}
