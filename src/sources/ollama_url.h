/* What a person pastes to name a model of Ollama's registry: its page, the registry's name for it, or a bare name behind
 * ollama:// (formats-ollama.md 1, publication-pipeline.md). Pure; used by publish/ and the commands. */
#pragma once

#include "base/error.h"

typedef struct {
  char *space; /* "library" for Ollama's own models, else a user */
  char *model;
  char *tag; /* "latest" when the text names none */
} OllamaUrl;

/* TRUE when `text` names Ollama's registry, rightly formed or not: ollama://, or one of its hosts with or without https://.
 * `endpoint` is the address of a mirror, "https://mirror/ollama" without a slash at its end; or NULL. */
gboolean ollama_url_is (const char *text, const char *endpoint);
/* INVALID_ARGUMENT: reason UnsupportedSource for pages that are no model, else InvalidUrl; the message says what is wrong and
 * never shows user info or a query. */
gboolean ollama_url_parse (const char *text, const char *endpoint, OllamaUrl *out_url, GError **error);
void ollama_url_clear (OllamaUrl *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OllamaUrl, ollama_url_clear)
/* "https://ollama.com/library/llama3.1:8b", or the same below a mirror's address. Caller frees. */
char *ollama_url_to_string (const OllamaUrl *self, const char *endpoint);
