/* What the files of a model themselves say, before any rule about what it means: the raw material of
 * domain/model_profile.h. Filled by the inspector and its parts (config_facts, gguf_facts,
 * parameter_count, chat_template). A fact that is not known is NULL or 0. A plain struct; its owner
 * decides about threads. */
#pragma once

#include "base/error.h"
#include "formats/model_format.h"

#define MODEL_FACTS_MAX_TOKENS (1ull << 40) /* a longer context is nonsense */

typedef enum {
  FACT_UNKNOWN,
  FACT_READ,    /* stands so in a file */
  FACT_DERIVED, /* follows by a rule from what stands in a file */
  FACT_GUESSED, /* computed on an assumption, or taken from a file's name */
} FactOrigin;

typedef struct {
  ModelFormat format;

  /* Names, as written. */
  char *architecture;    /* architectures[0], _class_name, general.architecture */
  char *model_type;      /* model_type; general.architecture */
  char *text_model_type; /* of the text part when it is a config of its own */
  char *name;            /* general.name */
  char *weights_stem;    /* file name of the main weights without extension and numbers (GGUF) */

  /* Context: tokens, and the key or rule it came from ("max_position_embeddings", "rope yarn"). */
  guint64 context_tokens;
  FactOrigin context_origin;
  char *context_source;

  /* Dimensions of the text part; 0 when unknown. Lists per layer give their largest value. */
  guint64 n_layers, n_encoder_layers, hidden_size, n_heads, n_kv_heads, head_size, ffn_size, vocab_size;
  guint64 sliding_window, n_experts, n_active_experts, n_shared_experts, expert_ffn_size;
  guint64 n_labels; /* of a classifier */

  /* Numbers and their storage. */
  guint64 n_parameters; /* of the main part: for Diffusers the denoiser's */
  guint64 n_parameters_in_all;
  FactOrigin parameters_origin;
  char *quantization; /* "awq-4bit", "Q4_K_M"; NULL when there is none */
  FactOrigin quantization_origin;
  char *declared_dtype; /* dtype or torch_dtype, without "torch." */
  char *precision;      /* ModelPack's words for the dominant type, "bfloat16" */

  gboolean has_vision, has_audio, is_encoder_decoder, has_remote_code;
  gboolean is_sentence_transformer; /* modules.json, or a pooling in the GGUF header */
  gboolean is_reranker;             /* GGUF pooling type "rank" */
  gboolean is_encoder;              /* GGUF of a non-causal model */
  gboolean is_adapter;              /* weights of a LoRA or PEFT adapter alone */

  gboolean has_chat_template, template_has_tools, template_has_reasoning;

  guint64 weights_bytes, largest_weight_bytes;
  guint n_weight_files;
  guint n_models; /* GGUF: models (parts of one count once) that lie side by side */

  GPtrArray *warnings; /* of char *: oddities that do not stop publication */
} ModelFacts;

ModelFacts *model_facts_new (ModelFormat format);
void model_facts_free (ModelFacts *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelFacts, model_facts_free)
/* A copy, or NULL when the text is no use as a name: absent, empty, longer than 256 bytes, not UTF-8, or
 * with control characters. */
char *model_facts_text (const char *text);
void model_facts_warn (ModelFacts *self, const char *format, ...) G_GNUC_PRINTF (2, 3);
