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

/* Performs a call to the registry for `name` ("library/x", and ":tag" or a part's digest for the message); a challenge is
 * answered once. `call` has no redirects or ends at the registry. Errors as ollama_registry_find tells. */
gboolean ollama_session_call (Ctx *ctx, OllamaRegistry *self, const char *repository, const char *what,
                              const HttpCall *call, HttpReply *out_reply, GError **error);
