/* config.json of the wild -> facts (formats-config-facts.md 2 to 5). Pure: documents in, facts out. A
 * fact that is not there stays unknown; nothing is an error. Used by the inspector. */
#pragma once

#include "base/json.h"

#include "formats/model_facts.h"

/* Names, dimensions, modalities. Quantization is config_quantization.h's. */
void config_facts_read (yyjson_val *root, ModelFacts *facts);

/* What other files say about the length of input; 0 when they do not. */
typedef struct {
  guint64 tokenizer_tokens; /* tokenizer_config.json, model_max_length below the "unset" sentinel */
  guint64 sentence_tokens;  /* sentence_bert_config.json, max_seq_length */
} ContextHints;

/* The context window: generic keys, rope scaling, family defaults (3, 4). Call after
 * config_facts_read. The tokenizer's limit counts for encoders and where nothing else is known: for
 * generative models it is often stale (DeepSeek-R1 says 16384 there, 163840 in config.json). */
void config_context_read (yyjson_val *root, const ContextHints *hints, ModelFacts *facts);
/* model_max_length of tokenizer_config.json; FALSE when absent or "unset" (int(1e30)). */
gboolean config_tokenizer_tokens (yyjson_val *root, guint64 *out_tokens);
