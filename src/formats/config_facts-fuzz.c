/* Any bytes as every small file of a model's folder: facts or none, but no harm; names that come out are fit to be
 * shown, and numbers within reason. */
#include "formats/config_facts.h"

#include "formats/chat_template.h"
#include "formats/config_quantization.h"
#include "formats/config_value.h"
#include "formats/diffusers_index.h"
#include "formats/parameter_count.h"

#include <string.h>

#define HEADER                                                                          \
  "{\"a.weight\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[0,8]},"             \
  "\"a.scales\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"            \
  "\"b.mlp.weight_packed\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[12,20]}," \
  "\"c.qweight\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[20,28]}}"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_text (const char *text)
{
  g_assert_true (text == NULL || (strlen (text) <= 256 && g_utf8_validate (text, -1, NULL)));
}

static void
count (yyjson_val *root)
{
  static SafetensorsHeader *header; /* once: it is the same for every input */
  ParameterCount result;
  if (header == NULL)
    header = safetensors_parse (HEADER, strlen (HEADER), NULL);
  g_autoptr (Quantization) quantization = quantization_new ();
  quantization_read_config (quantization, root);
  quantization_read_side_file (quantization, "hf_quant_config.json", root);
  quantization_read_side_file (quantization, "quantize_config.json", root);
  check_text (quantization->label);
  parameter_count (header->by_name, quantization, &result);
  g_assert_cmpuint (result.n_parameters, <=, 1000);
}

static void
read_facts (yyjson_val *root)
{
  g_autoptr (ModelFacts) facts = model_facts_new (MODEL_FORMAT_SAFETENSORS);
  ContextHints hints = { 0 };
  ChatTemplate template = { 0 };
  config_tokenizer_tokens (root, &hints.tokenizer_tokens);
  chat_template_add_json (&template, CHAT_TEMPLATE_TOKENIZER, root);
  config_facts_read (root, facts);
  config_context_read (root, &hints, facts);
  check_text (facts->architecture);
  check_text (facts->model_type);
  check_text (facts->declared_dtype);
  g_assert_cmpuint (facts->context_tokens, <=, MODEL_FACTS_MAX_TOKENS);
  g_assert_true ((facts->context_tokens != 0) == (facts->context_source != NULL));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  ChatTemplate template = { 0 };
  g_autofree char *text = g_strndup ((const char *) data, size);
  chat_template_add_text (&template, CHAT_TEMPLATE_JINJA, text, strlen (text));
  g_autoptr (DiffusersIndex) pipeline = diffusers_index_parse ((const char *) data, size, NULL);
  if (pipeline != NULL)
    check_text (pipeline->class_name);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, CONFIG_MAX_BYTES, JSON_WILD, NULL);
  if (doc == NULL)
    return 0;
  read_facts (yyjson_doc_get_root (doc));
  count (yyjson_doc_get_root (doc));
  return 0;
}
