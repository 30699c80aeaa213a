/* Which part of an Ollama model becomes which file (publication-pipeline.md "Ollama fetch", formats-ollama.md 7). Pure. */
#pragma once

#include "sources/ollama_manifest.h"
#include "sources/ollama_url.h"

typedef struct {
  char *path;
  OllamaLayer layer;
  const char *left_out; /* why it is no file of the model; NULL: it is one. Static */
} OllamaFile;

/* An array of OllamaFile that owns what it holds: the GGUF file NAME-TAG-QUANTIZATION.gguf, or the parts of one in the
 * manifest's order, projectors and adapters; then what is left out. INVALID_ARGUMENT (reason UnsupportedFormat) for models
 * of another format and for those without weights. */
GArray *ollama_files_new (const OllamaUrl *url, const OllamaManifest *manifest, const OllamaConfig *config,
                          GError **error);
