#include "formats/config_facts.h"

#include <string.h>

#include "formats/chat_template.h"
#include "formats/config_quantization.h"
#include "formats/config_value.h"
#include "formats/diffusers_index.h"
#include "formats/formats_fixture.h"
#include "formats/parameter_count.h"

static yyjson_doc *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  yyjson_doc *doc = json_parse (text, strlen (text), CONFIG_MAX_BYTES, JSON_WILD, &error);
  g_assert_no_error (error);
  return doc;
}

static ModelFacts *
facts_of (const char *text, ContextHints hints)
{
  ModelFacts *facts = model_facts_new (MODEL_FORMAT_SAFETENSORS);
  g_autoptr (yyjson_doc) doc = parse (text);
  config_facts_read (yyjson_doc_get_root (doc), facts);
  config_context_read (yyjson_doc_get_root (doc), &hints, facts);
  return facts;
}

/* One file of each main family, cut to what matters (formats-config-facts.md 5). */
static const struct {
  const char *text;
  const char *architecture, *model_type;
  guint64 context, layers, hidden, heads, kv, head, ffn, vocab;
} families[] = {
  { "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":4096,\"intermediate_size\":14336,"
    "\"max_position_embeddings\":131072,\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
    "\"rope_scaling\":{\"factor\":8.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
    "\"vocab_size\":128256}",
    "LlamaForCausalLM", "llama", 131072, 32, 4096, 32, 8, 128, 14336, 128256 },
  { "{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\",\"hidden_size\":896,\"intermediate_size\":4864,"
    "\"max_position_embeddings\":32768,\"num_attention_heads\":14,\"num_hidden_layers\":24,\"num_key_value_heads\":2,"
    "\"sliding_window\":32768,\"use_sliding_window\":false,\"vocab_size\":151936}",
    "Qwen2ForCausalLM", "qwen2", 32768, 24, 896, 14, 2, 64, 4864, 151936 },
  { "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"text_config\":{"
    "\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,"
    "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024},\"vision_config\":{}}",
    "Gemma3ForConditionalGeneration", "gemma3", 131072, 34, 2560, 8, 4, 256, 10240, 262208 },
  { "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,"
    "\"intermediate_size\":18432,\"max_position_embeddings\":163840,\"num_attention_heads\":128,\"num_hidden_layers\":61,"
    "\"num_key_value_heads\":128,\"rope_scaling\":{\"factor\":40,\"original_max_position_embeddings\":4096,"
    "\"type\":\"yarn\"},\"vocab_size\":129280}",
    "DeepseekV3ForCausalLM", "deepseek_v3", 163840, 61, 7168, 128, 128, 56, 18432, 129280 },
  { "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\",\"head_dim\":64,\"hidden_size\":2880,"
    "\"intermediate_size\":2880,\"max_position_embeddings\":131072,\"num_attention_heads\":64,\"num_hidden_layers\":24,"
    "\"num_key_value_heads\":8,\"rope_scaling\":{\"factor\":32.0,\"original_max_position_embeddings\":4096,"
    "\"rope_type\":\"yarn\"},\"vocab_size\":201088}",
    "GptOssForCausalLM", "gpt_oss", 131072, 24, 2880, 64, 8, 64, 2880, 201088 },
  { "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_ctx\":1024,\"n_embd\":768,\"n_head\":12,"
    "\"n_layer\":12,\"n_positions\":1024,\"n_inner\":null,\"vocab_size\":50257}",
    "GPT2LMHeadModel", "gpt2", 1024, 12, 768, 12, 12, 64, 3072, 50257 },
  { "{\"architectures\":[\"FalconForCausalLM\"],\"model_type\":\"falcon\",\"hidden_size\":4544,\"multi_query\":true,"
    "\"num_attention_heads\":71,\"num_hidden_layers\":32,\"num_kv_heads\":71,\"vocab_size\":65024}",
    "FalconForCausalLM", "falcon", 2048, 32, 4544, 71, 1, 64, 18176, 65024 },
  { "{\"architectures\":[\"MPTForCausalLM\"],\"model_type\":\"mpt\",\"d_model\":4096,\"n_heads\":32,\"n_layers\":32,"
    "\"max_seq_len\":2048,\"expansion_ratio\":4,\"attn_config\":{\"kv_n_heads\":8},\"vocab_size\":50432}",
    "MPTForCausalLM", "mpt", 2048, 32, 4096, 32, 8, 128, 16384, 50432 },
  { "{\"architectures\":[\"DbrxForCausalLM\"],\"model_type\":\"dbrx\",\"d_model\":6144,\"n_heads\":48,\"n_layers\":40,"
    "\"max_seq_len\":32768,\"attn_config\":{\"kv_n_heads\":8},\"ffn_config\":{\"ffn_hidden_size\":10752,"
    "\"moe_num_experts\":16,\"moe_top_k\":4},\"vocab_size\":100352}",
    "DbrxForCausalLM", "dbrx", 32768, 40, 6144, 48, 8, 128, 10752, 100352 },
  { "{\"architectures\":[\"ChatGLMModel\"],\"model_type\":\"chatglm\",\"hidden_size\":4096,\"ffn_hidden_size\":13696,"
    "\"kv_channels\":128,\"multi_query_attention\":true,\"multi_query_group_num\":2,\"num_attention_heads\":32,"
    "\"num_layers\":28,\"padded_vocab_size\":65024,\"seq_length\":8192}",
    "ChatGLMModel", "chatglm", 8192, 28, 4096, 32, 2, 128, 13696, 65024 },
  { "{\"architectures\":[\"T5ForConditionalGeneration\"],\"model_type\":\"t5\",\"is_encoder_decoder\":true,\"d_ff\":2048,"
    "\"d_kv\":64,\"d_model\":512,\"n_positions\":512,\"num_decoder_layers\":6,\"num_heads\":8,\"num_layers\":8,"
    "\"vocab_size\":32128}",
    "T5ForConditionalGeneration", "t5", 512, 6, 512, 8, 8, 64, 2048, 32128 },
  { "{\"architectures\":[\"WhisperForConditionalGeneration\"],\"model_type\":\"whisper\",\"is_encoder_decoder\":true,"
    "\"d_model\":384,\"decoder_attention_heads\":6,\"encoder_ffn_dim\":1536,\"decoder_layers\":4,\"encoder_layers\":4,"
    "\"max_target_positions\":448,\"max_source_positions\":1500,\"vocab_size\":51865}",
    "WhisperForConditionalGeneration", "whisper", 448, 4, 384, 6, 6, 64, 1536, 51865 },
  { "{\"architectures\":[\"XLMRobertaModel\"],\"model_type\":\"xlm-roberta\",\"hidden_size\":768,\"intermediate_size\":3072,"
    "\"max_position_embeddings\":514,\"num_attention_heads\":12,\"num_hidden_layers\":12,\"pad_token_id\":1,"
    "\"vocab_size\":250002}",
    "XLMRobertaModel", "xlm-roberta", 512, 12, 768, 12, 12, 64, 3072, 250002 },
  { "{\"architectures\":[\"DistilBertForMaskedLM\"],\"model_type\":\"distilbert\",\"dim\":768,\"hidden_dim\":3072,"
    "\"max_position_embeddings\":512,\"n_heads\":12,\"n_layers\":6,\"vocab_size\":30522}",
    "DistilBertForMaskedLM", "distilbert", 512, 6, 768, 12, 12, 64, 3072, 30522 },
  { "{\"architectures\":[\"LlavaForConditionalGeneration\"],\"model_type\":\"llava\",\"image_token_index\":32000,"
    "\"text_config\":{\"architectures\":[\"LlamaForCausalLM\"],\"max_position_embeddings\":4096,\"model_type\":\"llama\","
    "\"vocab_size\":32064},\"hidden_size\":4096,\"vision_config\":{\"hidden_size\":1024}}",
    "LlavaForConditionalGeneration", "llava", 4096, 0, 4096, 0, 0, 0, 0, 32064 },
  { "{\"architectures\":[\"CohereForCausalLM\"],\"model_type\":\"cohere\",\"max_position_embeddings\":8192,"
    "\"model_max_length\":131072,\"hidden_size\":8192,\"num_attention_heads\":64,\"num_hidden_layers\":40,"
    "\"num_key_value_heads\":64,\"intermediate_size\":22528,\"vocab_size\":256000}",
    "CohereForCausalLM", "cohere", 131072, 40, 8192, 64, 64, 128, 22528, 256000 },
  { "{\"architectures\":[\"Mamba2ForCausalLM\"],\"model_type\":\"mamba2\",\"hidden_size\":4096,\"num_heads\":128,"
    "\"head_dim\":64,\"num_hidden_layers\":64,\"time_step_limit\":[0.0,Infinity],\"vocab_size\":32768}",
    "Mamba2ForCausalLM", "mamba2", 0, 64, 4096, 0, 0, 0, 0, 32768 },
  { "{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\",\"hidden_size\":4480,"
    "\"hybrid_override_pattern\":\"M-M*-M-\",\"max_position_embeddings\":8192,\"num_attention_heads\":40,"
    "\"num_key_value_heads\":8,\"head_dim\":128,\"intermediate_size\":15680,\"time_step_limit\":[0.0,Infinity],"
    "\"vocab_size\":131072}",
    "NemotronHForCausalLM", "nemotron_h", 8192, 7, 4480, 40, 8, 128, 15680, 131072 },
  { "{\"architectures\":[\"DeciLMForCausalLM\"],\"model_type\":\"nemotron-nas\",\"block_configs\":[{\"attention\":{"
    "\"n_heads_in_group\":null,\"no_op\":true}},{\"attention\":{\"n_heads_in_group\":8}}],\"hidden_size\":8192,"
    "\"max_position_embeddings\":131072,\"num_attention_heads\":64,\"num_key_value_heads\":null,\"vocab_size\":128256}",
    "DeciLMForCausalLM", "nemotron-nas", 131072, 2, 8192, 64, 8, 128, 0, 128256 },
  { "{\"architectures\":[\"Llama4ForConditionalGeneration\"],\"model_type\":\"llama4\",\"text_config\":{\"model_type\":"
    "\"llama4_text\",\"hidden_size\":5120,\"intermediate_size\":8192,\"intermediate_size_mlp\":16384,\"num_attention_heads\":"
    "40,\"num_hidden_layers\":48,\"vocab_size\":202048},\"vision_config\":{\"x\":1}}",
    "Llama4ForConditionalGeneration", "llama4", 131072, 48, 5120, 40, 8, 128, 16384, 202048 },
  { "{\"architectures\":[\"Qwen3OmniMoeForConditionalGeneration\"],\"model_type\":\"qwen3_omni_moe\",\"thinker_config\":{"
    "\"text_config\":{\"hidden_size\":2048,\"max_position_embeddings\":65536,\"num_attention_heads\":32,"
    "\"num_key_value_heads\":4,\"num_hidden_layers\":48,\"intermediate_size\":768,\"vocab_size\":152064},"
    "\"audio_config\":{\"x\":1},\"vision_config\":{\"x\":1}}}",
    "Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe", 65536, 48, 2048, 32, 4, 64, 768, 152064 },
  { "{\"architectures\":[\"CLIPModel\"],\"model_type\":\"clip\",\"text_config\":{\"max_position_embeddings\":77,"
    "\"hidden_size\":512,\"num_attention_heads\":8,\"num_hidden_layers\":12,\"intermediate_size\":2048,"
    "\"vocab_size\":49408},\"vision_config\":{\"image_size\":224}}",
    "CLIPModel", "clip", 77, 12, 512, 8, 8, 64, 2048, 49408 },
  { "{\"architectures\":[\"OpenELMForCausalLM\"],\"model_type\":\"openelm\",\"num_query_heads\":[12,16],\"head_dim\":64,"
    "\"num_kv_heads\":[3,4],\"model_dim\":1280,\"num_transformer_layers\":16,\"max_context_length\":2048,"
    "\"vocab_size\":32000}",
    "OpenELMForCausalLM", "openelm", 0, 0, 0, 0, 4, 64, 0, 32000 },
};

static void
test_families (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    {
      g_autoptr (ModelFacts) facts = facts_of (families[i].text, (ContextHints){ 0 });
      g_test_message ("%s", families[i].model_type);
      g_assert_cmpstr (facts->architecture, ==, families[i].architecture);
      g_assert_cmpstr (facts->model_type, ==, families[i].model_type);
      g_assert_cmpuint (facts->context_tokens, ==, families[i].context);
      g_assert_cmpuint (facts->n_layers, ==, families[i].layers);
      g_assert_cmpuint (facts->hidden_size, ==, families[i].hidden);
      g_assert_cmpuint (facts->n_heads, ==, families[i].heads);
      g_assert_cmpuint (facts->n_kv_heads, ==, families[i].kv);
      g_assert_cmpuint (facts->head_size, ==, families[i].head);
      g_assert_cmpuint (facts->ffn_size, ==, families[i].ffn);
      g_assert_cmpuint (facts->vocab_size, ==, families[i].vocab);
    }
}

#define LLAMA(rest) "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"," rest "}"
#define BERT(rest) "{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\"," rest "}"

/* formats-config-facts.md 3, 4; pitfalls B44 B45 B46. */
static const struct {
  const char *text;
  ContextHints hints;
  guint64 context;
  FactOrigin origin;
} contexts[] = {
  { LLAMA ("\"max_position_embeddings\":4096,\"rope_scaling\":null"), { 0 }, 4096, FACT_READ },
  { LLAMA ("\"max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"linear\",\"factor\":8.0}"),
    { 0 },
    32768,
    FACT_DERIVED },
  { LLAMA ("\"max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":null}"),
    { 0 },
    4096,
    FACT_READ },
  { LLAMA ("\"max_position_embeddings\":32768,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
           "\"original_max_position_embeddings\":32768}"),
    { 0 },
    131072,
    FACT_DERIVED },
  { LLAMA ("\"max_position_embeddings\":131072,\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":32.0}"),
    { 0 },
    131072,
    FACT_READ },
  { LLAMA (
      "\"max_position_embeddings\":8192,\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":2},"
      "\"sliding_attention\":{\"rope_type\":\"default\"}}"),
    { 0 },
    16384,
    FACT_DERIVED },
  { LLAMA ("\"max_position_embeddings\":8192,\"rope_scaling\":{\"type\":\"mrope\",\"factor\":8}"),
    { 0 },
    8192,
    FACT_READ },
  { LLAMA ("\"max_position_embeddings\":\"4096\""), { 0 }, 4096, FACT_READ },
  { LLAMA ("\"max_position_embeddings\":4096.0"), { 0 }, 4096, FACT_READ },
  { LLAMA ("\"max_position_embeddings\":true"), { 0 }, 0, FACT_UNKNOWN },
  { LLAMA ("\"max_position_embeddings\":4096,\"text_config\":{\"max_position_embeddings\":null,\"vocab_size\":1}"),
    { 0 },
    4096,
    FACT_READ },
  { LLAMA ("\"max_position_embeddings\":4096,\"model_max_length\":1000000000000000"), { 0 }, 4096, FACT_READ },
  { LLAMA ("\"max_position_embeddings\":-1"), { 0 }, 0, FACT_UNKNOWN },
  { LLAMA ("\"max_position_embeddings\":1000000000000000019884624838656"), { 0 }, 0, FACT_UNKNOWN },
  { LLAMA ("\"max_position_embeddings\":1,\"max_position_embeddings\":4096"), { 0 }, 4096, FACT_READ },
  { LLAMA ("\"max_position_embeddings\":163840"), { 16384, 0 }, 163840, FACT_READ }, /* DeepSeek-R1's tokenizer */
  { LLAMA ("\"x\":1"), { 16384, 0 }, 16384, FACT_READ },
  { BERT ("\"max_position_embeddings\":512"), { 128, 0 }, 128, FACT_READ },
  { BERT ("\"max_position_embeddings\":512"), { 512, 256 }, 256, FACT_READ },
  { BERT ("\"max_position_embeddings\":512"), { 0, 8192 }, 512, FACT_READ },
};

static void
test_context (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      g_test_message ("%s", contexts[i].text);
      g_autoptr (ModelFacts) facts = facts_of (contexts[i].text, contexts[i].hints);
      g_assert_cmpuint (facts->context_tokens, ==, contexts[i].context);
      g_assert_cmpint (facts->context_origin, ==, contexts[i].origin);
      g_assert_true ((facts->context_source != NULL) == (contexts[i].context != 0));
    }
}

static void
test_tokenizer (void)
{
  static const struct {
    const char *text;
    guint64 tokens;
  } cases[] = {
    { "{\"model_max_length\":512}", 512 }, { "{\"model_max_length\":1000000000000000019884624838656}", 0 },
    { "{\"model_max_length\":1e+30}", 0 }, { "{\"model_max_length\":1000000000000000019884624838656.0}", 0 },
    { "{\"model_max_length\":null}", 0 },  { "{}", 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      guint64 tokens = 0;
      g_autoptr (yyjson_doc) doc = parse (cases[i].text);
      g_assert_cmpint (config_tokenizer_tokens (yyjson_doc_get_root (doc), &tokens), ==, cases[i].tokens != 0);
      g_assert_cmpuint (tokens, ==, cases[i].tokens);
    }
}

/* metadata-profile.md, "Quantization from quantization_config"; formats-config-facts.md 7. */
static void
test_quantization (void)
{
  static const struct {
    const char *text, *label;
    QuantizationScheme scheme;
  } cases[] = {
    { "{}", NULL, QUANTIZATION_NONE },
    { "{\"quantization_config\":null}", NULL, QUANTIZATION_NONE },
    { "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}", "gptq-4bit", QUANTIZATION_PACKED },
    { "{\"quantization_config\":{\"quant_method\":\"awq\",\"w_bit\":4}}", "awq-4bit", QUANTIZATION_PACKED },
    { "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\"}}",
      "bitsandbytes-4bit", QUANTIZATION_BITSANDBYTES },
    { "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}}", "bitsandbytes-8bit",
      QUANTIZATION_BITSANDBYTES },
    { "{\"quantization_config\":{\"bits\":8}}", "8bit", QUANTIZATION_OTHER },
    { "{\"quantization_config\":{\"bnb_4bit_quant_type\":\"nf4\",\"load_in_4bit\":true}}", "bnb-nf4",
      QUANTIZATION_BITSANDBYTES },
    { "{\"quantization_config\":{\"load_in_4bit\":true}}", "4bit", QUANTIZATION_BITSANDBYTES },
    { "{\"quantization_config\":{\"load_in_8bit\":true}}", "8bit", QUANTIZATION_BITSANDBYTES },
    { "{\"quantization_config\":{\"quant_method\":\"fp8\"}}", "fp8", QUANTIZATION_FP8 },
    { "{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", "mxfp4", QUANTIZATION_MXFP4 },
    { "{\"text_config\":{\"quantization_config\":{\"quant_method\":\"fp8\"}}}", "fp8", QUANTIZATION_FP8 },
    { "{\"quantization_config\":{\"quant_method\":\"hqq\"}}", "hqq", QUANTIZATION_OTHER },
    { "{\"quantization\":{\"group_size\":64,\"bits\":4}}", "4bit", QUANTIZATION_MLX },
    { "{\"quantization\":{\"group_size\":64,\"bits\":4},\"quantization_config\":{\"group_size\":64,\"bits\":4}}",
      "4bit", QUANTIZATION_MLX },
    { "{\"compression_config\":{\"format\":\"x\"}}", "compressed-tensors", QUANTIZATION_COMPRESSED },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s", cases[i].text);
      g_autoptr (yyjson_doc) doc = parse (cases[i].text);
      g_autoptr (Quantization) quantization = quantization_new ();
      quantization_read_config (quantization, yyjson_doc_get_root (doc));
      g_assert_cmpstr (quantization->label, ==, cases[i].label);
      g_assert_cmpint (quantization->scheme, ==, cases[i].scheme);
    }
}

static void
test_quantization_files (void)
{
  static const struct {
    const char *name, *text, *label;
  } cases[] = {
    { "hf_quant_config.json", "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":\"NVFP4\"}}",
      "nvfp4" },
    { "quantize_config.json", "{\"bits\":4,\"group_size\":128}", "gptq-4bit" },
    { "quant_config.json", "{\"w_bit\":4,\"q_group_size\":128}", "awq-4bit" },
    { "other.json", "{\"bits\":4}", NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (yyjson_doc) doc = parse (cases[i].text);
      g_autoptr (Quantization) quantization = quantization_new ();
      quantization_read_side_file (quantization, cases[i].name, yyjson_doc_get_root (doc));
      g_assert_cmpstr (quantization->label, ==, cases[i].label);
    }
}

static void
test_glob (void)
{
  static const struct {
    const char *pattern, *text;
    gboolean matches;
  } cases[] = {
    { "a.b", "a.b", TRUE },    { "a.b", "a.bc", FALSE }, { "*", "", TRUE },          { "a*", "abc", TRUE },
    { "*c", "abc", TRUE },     { "a*c", "abc", TRUE },   { "a*b*c", "aXbYc", TRUE }, { "a*b*c", "aXcYb", FALSE },
    { "ab*ba", "aba", FALSE }, { "*b*", "abc", TRUE },   { "abc*", "ab", FALSE },    { "", "", TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpint (quantization_glob (cases[i].pattern, cases[i].text), ==, cases[i].matches);
}

/* formats-safetensors-diffusers.md 3; pitfalls A23 B47 B48. Tensors as "name dtype dim,dim". */
static const struct {
  const char *config;
  const char *tensors;
  guint64 n;
  gboolean is_exact;
} counts[] = {
  { "{}", "a.weight BF16 4,8;a.bias BF16 4;scalar F32 ", 36, TRUE },
  { "{}", "x F8_E8M0 4;y F8_E4M3 4", 4, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}",
    "m.qweight I32 16,128;m.qzeros I32 1,16;m.scales F16 1,128;m.g_idx I32 128;n.weight F16 10", 16 * 128 * 8 + 10,
    TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}}", "m.qweight I32 96,128", 1024 * 128, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"awq\"}}",
    "m.qweight I32 128,16;m.qzeros I32 1,2;m.scales F16 1,128", 128 * 16 * 8, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}}",
    "m.weight U8 512,1;m.weight.absmax U8 16;m.weight.quant_map F32 16;m.weight.nested_absmax F32 1;"
    "m.weight.nested_quant_map F32 256;m.weight.quant_state.bitsandbytes__nf4 U8 90;n.weight BF16 7",
    1024 + 7, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}}",
    "m.weight I8 16,16;m.SCB F32 16;m.weight_format U8 ", 256, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"config_groups\":{"
    "\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4}}}}}",
    "m.weight_packed I32 16,4;m.weight_scale BF16 16,1;m.weight_shape I64 2;n.weight BF16 5", 16 * 32 + 5, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
    "\"a\":{\"targets\":[\"re:.*mlp.*\"],\"weights\":{\"num_bits\":8}},"
    "\"b\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4}}}}}",
    "l.mlp.up.weight_packed I32 4,4;l.attn.weight_packed I32 4,4", 16 * 4 + 16 * 8, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\"}}",
    "m.weight_packed U8 4,4;m.weight_scale F8_E4M3 4,1;"
    "m.weight_global_scale F32 1",
    32, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"modelopt\"}}",
    "m.weight U8 8,8;m.weight_scale F8_E4M3 8,1;m.weight_scale_2 F32 ;m.input_scale F32 ;n.weight BF16 3", 131,
    TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
    "e.gate_up_proj_blocks U8 2,4,16;e.gate_up_proj_scales U8 2,4;e.gate_up_proj_bias BF16 8", 2 * 2 * 4 * 16 + 8,
    TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"fp8\"}}", "m.weight F8_E4M3 8,8;m.weight_scale_inv F32 1,1", 64,
    TRUE },
  { "{\"expert_dtype\":\"fp4\",\"quantization_config\":{\"quant_method\":\"fp8\"}}",
    "l.mlp.experts.0.w1.weight I8 8,8;l.mlp.shared_experts.w1.weight F8_E4M3 8,8;l.mlp.experts.0.w1.scale F8_E8M0 8",
    192, TRUE },
  { "{\"quantization\":{\"group_size\":64,\"bits\":4,\"l.1\":{\"bits\":8}}}",
    "l.0.weight U32 4,8;l.0.scales BF16 4,1;l.0.biases BF16 4,1;l.1.weight U32 4,8;l.1.scales BF16 4,1;n.weight BF16 6;"
    "n.bias BF16 6",
    256 + 128 + 12, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"bitnet\"}}",
    "m.weight U8 4,4;m.weight_scale BF16 1;n.weight BF16 2", 66, TRUE },
  { "{\"quantization_config\":{\"quant_method\":\"hqq\"}}", "m.W_q U8 4,4", 16, FALSE },
};

static SafetensorsHeader *
header_of (const char *list)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) text = g_string_new ("{");
  g_auto (GStrv) tensors = g_strsplit (list, ";", -1);
  guint64 offset = 0;
  for (guint i = 0; tensors[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (tensors[i], " ", 3);
      g_auto (GStrv) dims = g_strsplit (parts[2], ",", -1);
      guint64 n = 1, bits = 0;
      for (guint j = 0; dims[j] != NULL; j++)
        n *= g_ascii_strtoull (dims[j], NULL, 10);
      for (guint j = 0; j < SAFETENSORS_N_DTYPES; j++)
        if (strcmp (safetensors_dtype_info (j)->name, parts[1]) == 0)
          bits = safetensors_dtype_info (j)->bits;
      g_string_append_printf (text,
                              "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" G_GUINT64_FORMAT
                              ",%" G_GUINT64_FORMAT "]}",
                              i > 0 ? "," : "", parts[0], parts[1], parts[2], offset, offset + n * bits / 8);
      offset += n * bits / 8;
    }
  g_string_append_c (text, '}');
  SafetensorsHeader *header = safetensors_parse (text->str, text->len, &error);
  g_assert_no_error (error);
  return header;
}

static void
test_counts (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      g_test_message ("%s", counts[i].tensors);
      ParameterCount count;
      g_autoptr (yyjson_doc) doc = parse (counts[i].config);
      g_autoptr (Quantization) quantization = quantization_new ();
      quantization_read_config (quantization, yyjson_doc_get_root (doc));
      g_autoptr (SafetensorsHeader) header = header_of (counts[i].tensors);
      parameter_count (header->by_name, quantization, &count);
      g_assert_cmpuint (count.n_parameters, ==, counts[i].n);
      g_assert_cmpint (count.is_exact, ==, counts[i].is_exact);
    }
}

static void
test_templates (void)
{
  static const struct {
    const char *text;
    gboolean tools, reasoning;
  } cases[] = {
    { "{% for m in messages %}{{ m.content }}{% endfor %}", FALSE, FALSE },
    { "{%- if tools %}", TRUE, FALSE },
    { "{%- IF Tools %}", TRUE, FALSE },
    { "{% for tool in tools %}", TRUE, FALSE },
    { "gift tools, if tools are there", FALSE, FALSE },
    { "<tools>", TRUE, FALSE },
    { "{{ message.tool_calls }}", TRUE, FALSE },
    { "<think>", FALSE, TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      ChatTemplate template = { 0 };
      chat_template_add_text (&template, CHAT_TEMPLATE_TOKENIZER, cases[i].text, strlen (cases[i].text));
      g_assert_cmpint (template.has_tools, ==, cases[i].tools);
      g_assert_cmpint (template.has_reasoning, ==, cases[i].reasoning);
    }
  ChatTemplate template = { 0 };
  g_autoptr (yyjson_doc) list = parse ("{\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"},"
                                       "{\"name\":\"tool_use\",\"template\":\"{% if tools %}\"}]}");
  chat_template_add_json (&template, CHAT_TEMPLATE_TOKENIZER, yyjson_doc_get_root (list));
  g_assert_true (template.has_tools);
  chat_template_add_text (&template, CHAT_TEMPLATE_JINJA, "x", 1); /* pitfalls B49: it hides the other */
  g_assert_false (template.has_tools);
  chat_template_add_json (&template, CHAT_TEMPLATE_TOKENIZER, yyjson_doc_get_root (list));
  g_assert_false (template.has_tools);
}

static void
test_pipelines (void)
{
  static const struct {
    const char *text, *part;
  } bad[] = {
    { "", "empty" },
    { "[]", "object" },
    { "{}", "_class_name" },
    { "{\"_class_name\":\"X\",\"../unet\":[\"diffusers\",\"Y\"]}", "letters" },
    { "{\"_class_name\":\"X\",\"unet\":[\"diffusers\",\"Y\"],\"unet\":[\"diffusers\",\"Y\"]}", "twice" },
  };
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_null (diffusers_index_parse (bad[i].text, strlen (bad[i].text), &error));
      fixture_assert_error (&error, bad[i].part);
    }
  const char *text = "{\"_class_name\":[\"pipeline\",\"CustomPipeline\"],\"vae\":[null,null],\"flag\":true,"
                     "\"pair\":[1,2],\"scheduler\":[\"diffusers\",\"EulerScheduler\"],"
                     "\"tokenizer_2\":[\"transformers\",\"T5TokenizerFast\"],\"unet\":[\"diffusers\",\"UNet\"]}";
  g_autoptr (DiffusersIndex) index = diffusers_index_parse (text, strlen (text), &error);
  g_assert_no_error (error);
  g_assert_cmpstr (index->class_name, ==, "CustomPipeline");
  g_assert_cmpuint (index->components->len, ==, 3);
  g_assert_cmpint (diffusers_index_find (index, "scheduler")->kind, ==, DIFFUSERS_SCHEDULER);
  g_assert_cmpint (diffusers_index_find (index, "tokenizer_2")->kind, ==, DIFFUSERS_TOKENIZER);
  g_assert_cmpstr (diffusers_index_denoiser (index)->name, ==, "unet");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/config-facts/families", test_families);
  g_test_add_func ("/config-facts/context", test_context);
  g_test_add_func ("/config-facts/tokenizer", test_tokenizer);
  g_test_add_func ("/config-facts/quantization", test_quantization);
  g_test_add_func ("/config-facts/quantization-files", test_quantization_files);
  g_test_add_func ("/config-facts/glob", test_glob);
  g_test_add_func ("/config-facts/counts", test_counts);
  g_test_add_func ("/config-facts/templates", test_templates);
  g_test_add_func ("/config-facts/pipelines", test_pipelines);
  return g_test_run ();
}
