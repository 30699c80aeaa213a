/* How the weights are quantized, from config.json and the older side files: the label that users see
 * (metadata-profile.md) and what parameter_count needs to unpack containers
 * (formats-safetensors-diffusers.md 3, formats-config-facts.md 7). Pure. */
#pragma once

#include "base/json.h"

#include "base/error.h"

typedef enum {
  QUANTIZATION_NONE,
  QUANTIZATION_PACKED, /* GPTQ, AWQ, AutoRound: `qweight` */
  QUANTIZATION_BITSANDBYTES,
  QUANTIZATION_COMPRESSED, /* compressed-tensors */
  QUANTIZATION_MODELOPT,   /* and other NVFP4 writers */
  QUANTIZATION_MXFP4,      /* gpt-oss: `_blocks`, `_scales` */
  QUANTIZATION_FP8,
  QUANTIZATION_MLX,
  QUANTIZATION_BITNET,
  QUANTIZATION_OTHER, /* how it packs is not known here */
} QuantizationScheme;

/* Modules whose bits differ; `pattern` is a glob over the module's name. */
typedef struct {
  char *pattern;
  guint bits;
} QuantizationRule;

typedef struct {
  QuantizationScheme scheme;
  char *label;   /* "awq-4bit"; NULL when there is none */
  guint bits;    /* per weight; 0 when unknown */
  GArray *rules; /* of QuantizationRule, the first that matches wins */
  gboolean has_fp4_experts;
} Quantization;

Quantization *quantization_new (void);
void quantization_free (Quantization *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Quantization, quantization_free)

/* From config.json. */
void quantization_read_config (Quantization *self, yyjson_val *root);
/* From a side file, when config.json said nothing: hf_quant_config.json (ModelOpt), quantize_config.json
 * (old GPTQ), quant_config.json (old AWQ). `name` is the file's; others are ignored. */
void quantization_read_side_file (Quantization *self, const char *name, yyjson_val *root);
/* Bits of the module's weights, `default_bits` when nothing is known. */
guint quantization_bits (const Quantization *self, const char *module, guint default_bits);
/* `*` stands for anything. Linear in both. */
gboolean quantization_glob (const char *pattern, const char *text);
