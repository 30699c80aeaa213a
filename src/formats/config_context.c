#include "formats/config_facts.h"

#include <math.h>
#include <string.h>

#include "formats/config_value.h"

#define UNSET_TOKENS 1e20 /* tokenizers write int(1e30) for "no limit" */

/* formats-config-facts.md 3, then what single families call it. */
static const char *const context_keys[] = {
  "max_position_embeddings",
  "n_positions",
  "max_seq_len",
  "seq_length",
  "max_sequence_length",
  "max_seq_length",
  "seq_len",
  "n_ctx",
  "max_encoder_position_embeddings",
  "context_length",
};

typedef enum { ROPE_SAME, ROPE_TIMES, ROPE_YARN } RopeEffect;

/* What a rope type does to the number in max_position_embeddings; unknown ones do nothing. */
static const struct {
  const char *type;
  RopeEffect effect;
} rope_types[] = {
  { "linear", ROPE_TIMES }, { "dynamic", ROPE_TIMES },      { "ntk", ROPE_TIMES },
  { "yarn", ROPE_YARN },    { "deepseek_yarn", ROPE_YARN },
};

/* Class defaults for files that leave every key out. */
static const struct {
  const char *model_type;
  guint64 tokens;
} default_tokens[] = {
  { "gemma3", 131072 },      { "gemma3_text", 131072 }, { "gemma3n", 32768 },
  { "gemma3n_text", 32768 }, { "gemma4", 131072 },      { "gemma4_text", 131072 },
  { "llama4", 131072 },      { "llama4_text", 131072 }, { "deepseek_v4", 1048576 },
  { "falcon", 2048 },        { "RefinedWeb", 2048 },    { "RefinedWebModel", 2048 },
  { "phi", 2048 },           { "whisper", 448 },
};

/* Position 0 .. pad_token_id are not used: 514 means 512. */
static const char *const offset_types[] = { "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert",
                                            "mpnet",   "longformer",  "data2vec-text",  NULL };
/* Their files hold the factor and also the number already multiplied by it. */
static const char *const scaled_types[] = { "gemma3", "gemma3_text", "gemma4", "gemma4_text", NULL };

static void
set_context (ModelFacts *facts, guint64 tokens, FactOrigin origin, const char *source)
{
  if (tokens == 0 || tokens > MODEL_FACTS_MAX_TOKENS)
    return;
  g_free (facts->context_source);
  facts->context_source = g_strdup (source);
  facts->context_tokens = tokens;
  facts->context_origin = origin;
}

/* model_max_length in config.json wins (Cohere); else the least of what is there. */
static void
read_keys (const ConfigScope *scope, ModelFacts *facts)
{
  guint64 tokens;
  if (config_value_u64 (config_scope_get (scope, "model_max_length"), &tokens) && tokens > 0
      && tokens <= MODEL_FACTS_MAX_TOKENS)
    {
      set_context (facts, tokens, FACT_READ, "model_max_length");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (context_keys); i++)
    if (config_value_u64 (config_scope_get (scope, context_keys[i]), &tokens) && tokens > 0
        && (facts->context_tokens == 0 || tokens < facts->context_tokens))
      set_context (facts, tokens, FACT_READ, context_keys[i]);
  /* Speech models that write text. */
  if (facts->context_tokens == 0 && config_value_u64 (config_scope_get (scope, "max_target_positions"), &tokens))
    set_context (facts, tokens, FACT_READ, "max_target_positions");
}

/* rope_scaling, or rope_parameters of transformers 5, which may be a map per kind of layer. */
static yyjson_val *
find_rope (const ConfigScope *scope)
{
  yyjson_val *rope = config_scope_get (scope, "rope_scaling");
  if (!yyjson_is_obj (rope))
    rope = config_scope_get (scope, "rope_parameters");
  yyjson_val *full = config_object (rope, "full_attention");
  return full != NULL ? full : rope;
}

static RopeEffect
rope_effect (yyjson_val *rope)
{
  const char *type = config_string (rope, "rope_type");
  if (type == NULL)
    type = config_string (rope, "type");
  for (guint i = 0; type != NULL && i < G_N_ELEMENTS (rope_types); i++)
    if (strcmp (type, rope_types[i].type) == 0)
      return rope_types[i].effect;
  return ROPE_SAME;
}

static void
apply_rope (const ConfigScope *scope, ModelFacts *facts)
{
  yyjson_val *rope = find_rope (scope);
  RopeEffect effect = rope_effect (rope);
  double factor = 1, base = (double) facts->context_tokens;
  guint64 original;
  if (effect == ROPE_SAME || facts->context_tokens == 0 || config_is_one_of (facts->model_type, scaled_types)
      || config_is_one_of (facts->text_model_type, scaled_types))
    return;
  if (g_strcmp0 (facts->context_source, "model_max_length") == 0) /* says what is meant */
    return;
  if (!config_value_double (config_get (rope, "factor"), &factor) || factor < 1 || factor > 4096)
    factor = 1;
  if (effect == ROPE_YARN && config_u64 (rope, "original_max_position_embeddings", &original) && original > 0
      && original <= MODEL_FACTS_MAX_TOKENS)
    base = (double) original;
  guint64 scaled = (guint64) (base * factor);
  if (scaled != facts->context_tokens)
    set_context (facts, scaled, FACT_DERIVED, effect == ROPE_YARN ? "rope yarn" : "rope scaling");
}

static void
apply_offset (const ConfigScope *scope, ModelFacts *facts)
{
  guint64 pad = 1;
  if (!config_is_one_of (facts->model_type, offset_types) || facts->context_tokens == 0)
    return;
  config_value_u64 (config_scope_get (scope, "pad_token_id"), &pad);
  if (pad < facts->context_tokens - 1)
    set_context (facts, facts->context_tokens - pad - 1, FACT_DERIVED, "max_position_embeddings less padding");
}

static void
apply_default (ModelFacts *facts)
{
  const char *model_type = facts->text_model_type != NULL ? facts->text_model_type : facts->model_type;
  for (guint i = 0; facts->context_tokens == 0 && i < G_N_ELEMENTS (default_tokens); i++)
    if (g_strcmp0 (model_type, default_tokens[i].model_type) == 0)
      set_context (facts, default_tokens[i].tokens, FACT_DERIVED, "class default");
}

/* Encoders are cut where their tokenizer cuts; generators are not. */
static gboolean
is_generative (const ModelFacts *facts)
{
  if (facts->is_sentence_transformer || facts->architecture == NULL)
    return FALSE;
  return g_str_has_suffix (facts->architecture, "ForCausalLM")
         || g_str_has_suffix (facts->architecture, "LMHeadModel")
         || g_str_has_suffix (facts->architecture, "ForConditionalGeneration");
}

static void
apply_hints (const ContextHints *hints, ModelFacts *facts)
{
  guint64 known = facts->context_tokens != 0 ? facts->context_tokens : G_MAXUINT64;
  if (hints->tokenizer_tokens != 0 && hints->tokenizer_tokens < known
      && (facts->context_tokens == 0 || !is_generative (facts)))
    set_context (facts, hints->tokenizer_tokens, FACT_READ, "tokenizer model_max_length");
  known = facts->context_tokens != 0 ? facts->context_tokens : G_MAXUINT64;
  if (hints->sentence_tokens != 0 && hints->sentence_tokens < known)
    set_context (facts, hints->sentence_tokens, FACT_READ, "sentence_bert_config max_seq_length");
}

void
config_context_read (yyjson_val *root, const ContextHints *hints, ModelFacts *facts)
{
  static const char *const unbounded[] = { "mamba", "mamba2", "falcon_mamba", "recurrent_gemma", NULL };
  ConfigScope scope = config_scope (root);
  read_keys (&scope, facts);
  apply_rope (&scope, facts);
  apply_offset (&scope, facts);
  apply_default (facts);
  if (!config_is_one_of (facts->model_type, unbounded))
    apply_hints (hints, facts);
}

gboolean
config_tokenizer_tokens (yyjson_val *root, guint64 *out_tokens)
{
  double number;
  yyjson_val *value = config_get (root, "model_max_length");
  if (config_value_double (value, &number) && number >= UNSET_TOKENS)
    return FALSE;
  return config_value_u64 (value, out_tokens) && *out_tokens > 0 && *out_tokens <= MODEL_FACTS_MAX_TOKENS;
}
