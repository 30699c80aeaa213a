#include "formats/gguf_facts.h"

#include <string.h>

#include "formats/chat_template.h"

static const struct {
  gsize offset;
  const char *suffix;
} number_rows[] = {
  { G_STRUCT_OFFSET (ModelFacts, n_layers), "block_count" },
  { G_STRUCT_OFFSET (ModelFacts, hidden_size), "embedding_length" },
  { G_STRUCT_OFFSET (ModelFacts, ffn_size), "feed_forward_length" },
  { G_STRUCT_OFFSET (ModelFacts, n_heads), "attention.head_count" },
  { G_STRUCT_OFFSET (ModelFacts, n_kv_heads), "attention.head_count_kv" },
  { G_STRUCT_OFFSET (ModelFacts, head_size), "attention.key_length" },
  { G_STRUCT_OFFSET (ModelFacts, sliding_window), "attention.sliding_window" },
  { G_STRUCT_OFFSET (ModelFacts, vocab_size), "vocab_size" },
  { G_STRUCT_OFFSET (ModelFacts, n_experts), "expert_count" },
  { G_STRUCT_OFFSET (ModelFacts, n_active_experts), "expert_used_count" },
  { G_STRUCT_OFFSET (ModelFacts, n_shared_experts), "expert_shared_count" },
  { G_STRUCT_OFFSET (ModelFacts, expert_ffn_size), "expert_feed_forward_length" },
};

/* Tensor types that hold plain numbers, in ModelPack's words; the rest is quantization. */
static const struct {
  const char *type, *precision;
} precisions[] = {
  { "F32", "float32" },
  { "F16", "float16" },
  { "BF16", "bfloat16" },
  { "F64", "float64" },
};

enum { POOLING_NONE = 0, POOLING_RANK = 4 };

GgufKind
gguf_kind (const GgufHeader *header)
{
  static const struct {
    const char *type;
    GgufKind kind;
  } types[] = {
    { "model", GGUF_KIND_MODEL },
    { "mmproj", GGUF_KIND_PROJECTOR },
    { "projector", GGUF_KIND_PROJECTOR },
    { "adapter", GGUF_KIND_ADAPTER },
  };
  const char *type = gguf_string (header, "general.type");
  if (g_strcmp0 (gguf_string (header, "general.architecture"), "clip") == 0)
    return GGUF_KIND_PROJECTOR;
  if (type == NULL)
    return GGUF_KIND_MODEL;
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (strcmp (type, types[i].type) == 0)
      return types[i].kind;
  return GGUF_KIND_OTHER;
}

static void
read_numbers (const GgufHeader *header, ModelFacts *facts)
{
  for (guint i = 0; i < G_N_ELEMENTS (number_rows); i++)
    gguf_value_u64 (gguf_find_arch (header, number_rows[i].suffix),
                    (guint64 *) ((guint8 *) facts + number_rows[i].offset));
  if (facts->n_kv_heads == 0)
    facts->n_kv_heads = facts->n_heads;
  if (facts->head_size == 0 && facts->n_heads > 0)
    facts->head_size = facts->hidden_size / facts->n_heads;
  const GgufValue *tokens = gguf_find (header, "tokenizer.ggml.tokens");
  if (facts->vocab_size == 0 && tokens != NULL && tokens->is_array)
    facts->vocab_size = tokens->n;
  guint64 tokens_limit;
  if (gguf_value_u64 (gguf_find_arch (header, "context_length"), &tokens_limit) && tokens_limit > 0
      && tokens_limit <= MODEL_FACTS_MAX_TOKENS)
    {
      facts->context_tokens = tokens_limit;
      facts->context_origin = FACT_READ;
      facts->context_source = g_strdup ("context_length");
    }
}

static void
read_flags (const GgufHeader *header, ModelFacts *facts)
{
  guint64 pooling = POOLING_NONE;
  const GgufValue *causal = gguf_find_arch (header, "attention.causal");
  const char *architecture = gguf_string (header, "general.architecture");
  gguf_value_u64 (gguf_find_arch (header, "pooling_type"), &pooling);
  facts->is_sentence_transformer = pooling != POOLING_NONE;
  facts->is_reranker = pooling == POOLING_RANK;
  facts->is_encoder = causal != NULL && causal->type == GGUF_BOOL && !causal->is_array
                      && g_array_index (causal->integers, gint64, 0) == 0;
  facts->is_encoder_decoder = g_strcmp0 (architecture, "t5") == 0;
}

static void
read_template (const GgufHeader *header, ModelFacts *facts)
{
  ChatTemplate template = { 0 };
  for (guint i = 0; i < header->values->len; i++)
    {
      const GgufValue *value = &g_array_index (header->values, GgufValue, i);
      gboolean named = strcmp (value->key, "tokenizer.chat_template") == 0
                       || g_str_has_prefix (value->key, "tokenizer.chat_template.");
      if (named && value->strings != NULL && value->strings->len == 1)
        chat_template_add_text (&template, CHAT_TEMPLATE_TOKENIZER, value->strings->pdata[0],
                                strlen (value->strings->pdata[0]));
    }
  chat_template_apply (&template, facts);
}

void
gguf_facts_read (const GgufHeader *header, ModelFacts *facts)
{
  facts->architecture = model_facts_text (gguf_string (header, "general.architecture"));
  facts->model_type = g_strdup (facts->architecture);
  facts->name = model_facts_text (gguf_string (header, "general.name"));
  read_numbers (header, facts);
  read_flags (header, facts);
  read_template (header, facts);
}

void
gguf_facts_count (const GgufHeader *header, ModelFacts *facts, guint64 histogram[GGUF_FACTS_N_TYPES])
{
  for (guint i = 0; i < header->tensors->len; i++)
    {
      const GgufTensor *tensor = &g_array_index (header->tensors, GgufTensor, i);
      guint64 *slot = &histogram[MIN (tensor->type, GGUF_FACTS_N_TYPES - 1)];
      if (__builtin_add_overflow (facts->n_parameters, tensor->n_elements, &facts->n_parameters))
        facts->n_parameters = G_MAXUINT64;
      if (tensor->n_dims >= 2 && __builtin_add_overflow (*slot, tensor->n_elements, slot))
        *slot = G_MAXUINT64;
    }
  facts->parameters_origin = facts->n_parameters > 0 ? FACT_READ : FACT_UNKNOWN;
}

static const char *
dominant_type (const guint64 histogram[GGUF_FACTS_N_TYPES])
{
  guint best = GGUF_FACTS_N_TYPES - 1;
  for (guint i = 0; i < GGUF_FACTS_N_TYPES; i++)
    if (histogram[i] > histogram[best])
      best = i;
  return histogram[best] > 0 ? gguf_tensor_type (best)->name : NULL;
}

void
gguf_facts_quantization (const GgufHeader *header, const guint64 histogram[GGUF_FACTS_N_TYPES], ModelFacts *facts)
{
  guint64 file_type;
  const char *label = NULL;
  if (gguf_value_u64 (gguf_find (header, "general.file_type"), &file_type))
    label = gguf_file_type_name (file_type);
  facts->quantization_origin = label != NULL ? FACT_READ : FACT_DERIVED;
  if (label == NULL)
    label = dominant_type (histogram);
  if (label == NULL)
    return;
  facts->quantization = g_strdup (label);
  for (guint i = 0; i < G_N_ELEMENTS (precisions); i++)
    if (strcmp (label, precisions[i].type) == 0)
      facts->precision = g_strdup (precisions[i].precision);
}
