/* Requests to Ollama's registry itself: anonymous tokens where it asks for them, and errors that say what to do. Private to
 * sources/. Thread-safe. */
#pragma once

#include "net/http_client.h"
#include "sources/fetch_gate.h"
#include "sources/ollama_registry.h"

struct OllamaRegistry {
  HttpClient *api;  /* retries by itself */
  HttpClient *data; /* one attempt: who reads a file knows how far it came */
  FetchGate *gate;
  char *endpoint;
  char *origin; /* "https://host:443" */
  gint64 retry_base_ms;
  GMutex lock;
  guint n_tokens; /* fetched so far; under the lock */
};

/* What is asked for. */
typedef struct {
  const char *repository; /* "library/x" */
  const char *name;       /* for messages: "https://registry.ollama.ai/library/x:tag" */
  gboolean is_part;       /* that the manifest names */
} OllamaAsked;

/* Performs a call to the registry; a challenge is answered once. Errors as ollama_registry_find tells; their messages begin
 * with the name. */
gboolean ollama_session_call (Ctx *ctx, OllamaRegistry *self, const OllamaAsked *asked, const HttpCall *call,
                              HttpReply *out_reply, GError **error);
