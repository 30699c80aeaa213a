/* Ollama's registry, or a mirror of it, over HTTP (formats-ollama.md 2 to 4): what a model is made of, and the bytes of its
 * parts. Nobody's credentials are used. Thread-safe; used by publish/. */
#pragma once

#include "base/ctx.h"
#include "base/reader.h"
#include "sources/ollama_files.h"

#define OLLAMA_ENDPOINT "https://registry.ollama.ai"

typedef struct {
  const char *endpoint;          /* "https://mirror/ollama"; NULL: OLLAMA_ENDPOINT */
  const char *user_agent;        /* "ollama/0.12.0"; NULL: our own */
  const char *ca_file;           /* NULL: the system's */
  gint64 no_progress_timeout_ms; /* 0: 30 s without a byte */
  gint64 retry_base_ms;          /* 0: 250 */
} OllamaConfiguration;

typedef struct OllamaRegistry OllamaRegistry;

/* INVALID_ARGUMENT when the endpoint is no http or https URL. */
OllamaRegistry *ollama_registry_new (const OllamaConfiguration *configuration, GError **error);
void ollama_registry_free (OllamaRegistry *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OllamaRegistry, ollama_registry_free)

/* What a tag means now. */
typedef struct {
  char *repository; /* "library/llama3.1" */
  char *tag;
  char *name; /* "https://registry.ollama.ai/library/llama3.1:8b", for messages */
  OllamaConfig config;
  GArray *files;          /* OllamaFile */
  guint64 context_tokens; /* 0: not stated */
  const char *license;    /* its short name, or NULL; static */
} OllamaModel;

/* Reads the manifest, the config, and the small parts that say something about the model; all verified. Blocks. Errors say
 * what to do; their reasons: HubNotFound, HubUnauthorized, HubForbidden, HubClientRefused (the registry serves newer
 * clients), HubRateLimited, HubTrouble, HubAnswer, RealmRefused, SourceCorrupt (bytes that do not match their digest), and
 * those of ollama_files_new. */
OllamaModel *ollama_registry_find (Ctx *ctx, OllamaRegistry *self, const OllamaUrl *url, GError **error);
void ollama_model_free (OllamaModel *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OllamaModel, ollama_model_free)

/* Random access to one of the model's files; `model` and `file` may go, the registry must stay. Opens nothing yet. The
 * content is the caller's to verify against the layer's digest. A reader is for one thread. Errors while reading: those above,
 * and those of remote_file_read. */
Reader *ollama_registry_open (OllamaRegistry *self, const OllamaModel *model, const OllamaFile *file);
