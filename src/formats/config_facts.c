#include "formats/config_facts.h"

#include <string.h>

#include "formats/config_value.h"

#define MAX_KEYS 8

/* One number of ModelFacts and the keys it goes by, first found wins. */
typedef struct {
  gsize offset;
  const char *keys[MAX_KEYS];
} NumberRow;

#define ROW(member, ...)                  \
  {                                       \
    G_STRUCT_OFFSET (ModelFacts, member), \
    {                                     \
      __VA_ARGS__                         \
    }                                     \
  }

static const NumberRow rows[] = {
  ROW (hidden_size, "hidden_size", "d_model", "n_embd", "n_embed", "dim"),
  ROW (n_layers, "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers"),
  ROW (n_heads, "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
       "encoder_attention_heads"),
  ROW (n_kv_heads, "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups",
       "num_key_value_heads_per_layer"),
  ROW (head_size, "head_dim", "hidden_size_per_head", "kv_channels", "attention_head_dim", "d_kv"),
  ROW (ffn_size, "intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size",
       "encoder_ffn_dim"),
  ROW (ffn_size, "hidden_dim", "inner_dim", "block_ff_dim"),
  ROW (vocab_size, "vocab_size", "padded_vocab_size"),
  ROW (n_experts, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
  ROW (n_active_experts, "num_experts_per_tok", "num_experts_per_token", "num_selected_experts", "top_k_experts",
       "moe_topk", "moe_top_k", "moe_k"),
  ROW (n_shared_experts, "n_shared_experts", "num_shared_experts"),
  ROW (expert_ffn_size, "moe_intermediate_size", "expert_ffn_hidden_size"),
  ROW (sliding_window, "sliding_window", "attention_window_size", "window_size", "interleaved_sliding_window",
       "attention_chunk_size"),
};

/* Numbers one level down. */
static const struct {
  gsize offset;
  const char *object, *key;
} nested_rows[] = {
  { G_STRUCT_OFFSET (ModelFacts, n_kv_heads), "attn_config", "kv_n_heads" },   /* MPT, DBRX */
  { G_STRUCT_OFFSET (ModelFacts, ffn_size), "ffn_config", "ffn_hidden_size" }, /* DBRX */
  { G_STRUCT_OFFSET (ModelFacts, n_experts), "ffn_config", "moe_num_experts" },
  { G_STRUCT_OFFSET (ModelFacts, n_active_experts), "ffn_config", "moe_top_k" },
};

/* What a class assumes when the file leaves a key out: formats-config-facts.md 5. */
static const struct {
  const char *model_type;
  gsize offset;
  guint64 value;
} defaults[] = {
  { "gemma3", G_STRUCT_OFFSET (ModelFacts, n_heads), 8 },
  { "gemma3", G_STRUCT_OFFSET (ModelFacts, n_kv_heads), 4 },
  { "gemma3", G_STRUCT_OFFSET (ModelFacts, head_size), 256 },
  { "gemma3", G_STRUCT_OFFSET (ModelFacts, vocab_size), 262208 },
  { "gemma4", G_STRUCT_OFFSET (ModelFacts, n_heads), 8 },
  { "gemma4", G_STRUCT_OFFSET (ModelFacts, n_kv_heads), 4 },
  { "gemma4", G_STRUCT_OFFSET (ModelFacts, head_size), 256 },
  { "gemma4", G_STRUCT_OFFSET (ModelFacts, vocab_size), 262144 },
  { "gemma4", G_STRUCT_OFFSET (ModelFacts, sliding_window), 512 },
  { "llama4", G_STRUCT_OFFSET (ModelFacts, n_kv_heads), 8 },
  { "llama4", G_STRUCT_OFFSET (ModelFacts, head_size), 128 },
  { "llama4", G_STRUCT_OFFSET (ModelFacts, n_experts), 16 },
  { "llama4", G_STRUCT_OFFSET (ModelFacts, n_active_experts), 1 },
  { "deepseek_v4", G_STRUCT_OFFSET (ModelFacts, n_kv_heads), 1 },
  { "deepseek_v4", G_STRUCT_OFFSET (ModelFacts, head_size), 512 },
  { "qwen3_next", G_STRUCT_OFFSET (ModelFacts, n_experts), 512 },
};

static guint64 *
slot (ModelFacts *facts, gsize offset)
{
  return (guint64 *) ((guint8 *) facts + offset);
}

static void
read_numbers (const ConfigScope *scope, ModelFacts *facts)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 *number = slot (facts, rows[i].offset);
      if (*number == 0)
        *number = config_scope_first_u64 (scope, rows[i].keys);
    }
  for (guint i = 0; i < G_N_ELEMENTS (nested_rows); i++)
    {
      guint64 *number = slot (facts, nested_rows[i].offset), value;
      yyjson_val *object = config_scope_get (scope, nested_rows[i].object);
      if (*number == 0 && config_u64 (object, nested_rows[i].key, &value))
        *number = value;
    }
}

/* Layers of hybrids are a list or a pattern; encoder-decoders have two numbers. */
static void
read_layers (const ConfigScope *scope, ModelFacts *facts)
{
  static const char *const lists[] = { "layers_block_type", "block_configs", "layer_types", NULL };
  static const char *const decoder[] = { "decoder_layers", "num_decoder_layers", "num_hidden_layers", "num_layers",
                                         NULL };
  static const char *const encoder[] = { "encoder_layers", "num_encoder_layers", "num_layers", "num_hidden_layers",
                                         NULL };
  if (facts->is_encoder_decoder)
    {
      facts->n_layers = config_scope_first_u64 (scope, decoder);
      facts->n_encoder_layers = config_scope_first_u64 (scope, encoder);
    }
  for (guint i = 0; facts->n_layers == 0 && lists[i] != NULL; i++)
    facts->n_layers = yyjson_arr_size (config_scope_get (scope, lists[i]));
  yyjson_val *pattern = config_scope_get (scope, "hybrid_override_pattern");
  if (facts->n_layers == 0 && yyjson_is_str (pattern))
    facts->n_layers = yyjson_get_len (pattern);
}

/* Nemotron-NAS: heads per key-value group, of the first layer that has attention. */
static guint64
group_size (const ConfigScope *scope)
{
  yyjson_val *blocks = config_scope_get (scope, "block_configs");
  if (!yyjson_is_arr (blocks))
    return 0;
  yyjson_arr_iter iter = yyjson_arr_iter_with (blocks);
  for (yyjson_val *block = yyjson_arr_iter_next (&iter); block != NULL; block = yyjson_arr_iter_next (&iter))
    {
      guint64 size;
      if (config_u64 (config_object (block, "attention"), "n_heads_in_group", &size) && size > 0)
        return size;
    }
  return 0;
}

static void
read_heads (const ConfigScope *scope, ModelFacts *facts)
{
  static const char *const stateful[] = {
    "mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", NULL
  };
  guint64 groups;
  if (config_is_one_of (facts->model_type, stateful))
    {
      facts->n_heads = facts->n_kv_heads = facts->head_size = 0; /* their "heads" are no attention */
      return;
    }
  if (yyjson_is_true (config_scope_get (scope, "multi_query_attention")) /* ChatGLM */
      && config_value_u64 (config_scope_get (scope, "multi_query_group_num"), &groups))
    facts->n_kv_heads = groups;
  if (yyjson_is_true (config_scope_get (scope, "multi_query"))
      && !yyjson_is_true (config_scope_get (scope, "new_decoder_architecture")))
    facts->n_kv_heads = 1;
  groups = group_size (scope);
  if (groups > 0 && facts->n_kv_heads == 0)
    facts->n_kv_heads = facts->n_heads / groups;
}

static void
read_ffn (const ConfigScope *scope, ModelFacts *facts)
{
  static const char *const four_times[] = { "gpt2",        "gptj",  "gpt_neo", "codegen",
                                            "gpt_bigcode", "bloom", "falcon",  NULL };
  double ratio = config_is_one_of (facts->model_type, four_times) ? 4 : 0;
  if (facts->ffn_size != 0)
    return;
  config_value_double (config_scope_get (scope, "expansion_ratio"), &ratio); /* MPT */
  if (ratio > 0 && ratio <= 64 && facts->hidden_size < G_MAXINT32)
    facts->ffn_size = (guint64) (ratio * (double) facts->hidden_size);
}

/* "gemma3" covers "gemma3_text", but not "gemma3n". */
static gboolean
is_family (const char *model_type, const char *family)
{
  gsize length = strlen (family);
  return model_type != NULL && strncmp (model_type, family, length) == 0
         && (model_type[length] == '\0' || strcmp (model_type + length, "_text") == 0);
}

static void
fill_gaps (ModelFacts *facts)
{
  const char *model_type = facts->text_model_type != NULL ? facts->text_model_type : facts->model_type;
  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    if (is_family (model_type, defaults[i].model_type) && *slot (facts, defaults[i].offset) == 0)
      *slot (facts, defaults[i].offset) = defaults[i].value;
  if (facts->n_kv_heads == 0)
    facts->n_kv_heads = facts->n_heads;
  if (facts->head_size == 0 && facts->n_heads > 0)
    facts->head_size = facts->hidden_size / facts->n_heads;
}

/* The first non-empty string of `architectures`. */
static const char *
first_architecture (yyjson_val *object)
{
  yyjson_val *list = config_get (object, "architectures");
  if (!yyjson_is_arr (list))
    return NULL;
  yyjson_arr_iter iter = yyjson_arr_iter_with (list);
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    if (yyjson_get_len (item) > 0)
      return yyjson_get_str (item);
  return NULL;
}

static void
read_names (const ConfigScope *scope, ModelFacts *facts)
{
  const char *architecture = first_architecture (scope->root);
  const char *model_type = config_string (scope->root, "model_type");
  const char *text_type = scope->text != scope->root ? config_string (scope->text, "model_type") : NULL;
  if (architecture == NULL)
    architecture = first_architecture (scope->text);
  if (architecture == NULL)
    architecture = config_string (scope->root, "architecture"); /* timm */
  facts->architecture = model_facts_text (architecture);
  facts->model_type = model_facts_text (model_type != NULL ? model_type : text_type);
  facts->text_model_type = model_facts_text (text_type);
  const char *dtype = NULL;
  yyjson_val *const objects[] = { scope->root, scope->text };
  for (guint i = 0; i < G_N_ELEMENTS (objects) && dtype == NULL; i++)
    {
      dtype = config_string (objects[i], "dtype");
      if (dtype == NULL)
        dtype = config_string (objects[i], "torch_dtype");
    }
  if (dtype != NULL)
    facts->declared_dtype = model_facts_text (g_str_has_prefix (dtype, "torch.") ? dtype + 6 : dtype);
}

static gboolean
has_any (yyjson_val *object, const char *const *keys)
{
  for (; *keys != NULL; keys++)
    if (config_has (object, *keys))
      return TRUE;
  return FALSE;
}

static void
read_flags (const ConfigScope *scope, ModelFacts *facts)
{
  static const char *const vision[] = { "vision_config",  "visual_config",   "vision_tower", "image_token_index",
                                        "image_token_id", "mm_vision_tower", "visual",       NULL };
  static const char *const audio[] = { "audio_config", "audio_processor", "mm_audio_tower", NULL };
  yyjson_val *thinker = config_object (scope->root, "thinker_config");
  facts->has_vision = has_any (scope->root, vision) || has_any (thinker, vision);
  facts->has_audio = has_any (scope->root, audio) || has_any (thinker, audio);
  facts->is_encoder_decoder = config_true (scope->root, "is_encoder_decoder");
  facts->has_remote_code = config_has (scope->root, "auto_map");
  facts->n_labels = yyjson_obj_size (config_object (scope->root, "id2label"));
  if (facts->n_labels == 0)
    config_u64 (scope->root, "num_labels", &facts->n_labels);
}

void
config_facts_read (yyjson_val *root, ModelFacts *facts)
{
  ConfigScope scope = config_scope (root);
  read_names (&scope, facts);
  read_flags (&scope, facts);
  read_numbers (&scope, facts);
  read_layers (&scope, facts);
  read_heads (&scope, facts);
  read_ffn (&scope, facts);
  yyjson_val *use_window = config_scope_get (&scope, "use_sliding_window");
  if (yyjson_is_false (use_window))
    facts->sliding_window = 0;
  fill_gaps (facts);
  static const char *const declared[] = { "num_parameters", "parameter_count", NULL };
  facts->n_parameters = config_scope_first_u64 (&scope, declared);
  facts->parameters_origin = facts->n_parameters > 0 ? FACT_READ : FACT_UNKNOWN;
}
