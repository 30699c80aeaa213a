/* The documents of Ollama's registry (formats-ollama.md 3): a model's manifest, its config, its parameters and its license.
 * All of it is foreign: sizes and counts have limits, digests one grammar. Pure. */
#pragma once

#include "base/digest.h"
#include "base/error.h"

#define OLLAMA_MANIFEST_LIMIT_BYTES (4u << 20)
#define OLLAMA_CONFIG_LIMIT_BYTES (1u << 20)
#define OLLAMA_TEXT_LIMIT_BYTES (256u << 10) /* parameters, licenses */
#define OLLAMA_MAX_LAYERS 20000u

typedef enum {
  OLLAMA_MODEL,
  OLLAMA_PROJECTOR,
  OLLAMA_ADAPTER,
  OLLAMA_DRAFT,
  OLLAMA_TEMPLATE, /* also by its old name, prompt */
  OLLAMA_SYSTEM,
  OLLAMA_PARAMS,
  OLLAMA_MESSAGES,
  OLLAMA_LICENSE,
  OLLAMA_TENSOR, /* of models that are kept tensor by tensor */
  OLLAMA_JSON,
  OLLAMA_OTHER, /* what is not known is no fault */
} OllamaLayerKind;

typedef struct {
  OllamaLayerKind kind;
  Digest digest;
  guint64 size_bytes; /* may be 0 only where a text may be empty */
} OllamaLayer;

typedef struct {
  OllamaLayer config; /* its kind means nothing */
  GArray *layers;     /* OllamaLayer, in the manifest's order */
} OllamaManifest;

/* INVALID_ARGUMENT (reason HubAnswer) when the text is no manifest of schema version 2, or has a digest that is not
 * "sha256:" and 64 lower-case hex digits; RESOURCE_EXHAUSTED above a limit. */
OllamaManifest *ollama_manifest_parse (GBytes *json, GError **error);
void ollama_manifest_free (OllamaManifest *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OllamaManifest, ollama_manifest_free)
guint ollama_manifest_count (const OllamaManifest *self, OllamaLayerKind kind);
/* The n-th of that kind, from 0; NULL when there are fewer. */
const OllamaLayer *ollama_manifest_find (const OllamaManifest *self, OllamaLayerKind kind, guint n);

/* Every member may be NULL: the config has it not, or not as a short plain text. */
typedef struct {
  char *format;         /* "gguf" */
  char *family;         /* the first of its families when it names none */
  char *parameter_text; /* "7.6B" */
  char *quantization;   /* "Q4_K_M"; never "unknown" */
  char *remote_host;    /* of a model without weights, which runs elsewhere */
} OllamaConfig;

/* INVALID_ARGUMENT (HubAnswer) when it is no JSON object. */
gboolean ollama_config_parse (GBytes *json, OllamaConfig *out_config, GError **error);
void ollama_config_clear (OllamaConfig *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OllamaConfig, ollama_config_clear)

/* `num_ctx` of the parameters; 0 when they do not say. INVALID_ARGUMENT (HubAnswer) when it is no JSON object. */
gboolean ollama_params_parse (GBytes *json, guint64 *out_context_tokens, GError **error);

/* The license's usual short name ("apache-2.0", "llama3.1"), told by how its text begins; NULL when it is none of the
 * known. */
const char *ollama_license_name (GBytes *text);
