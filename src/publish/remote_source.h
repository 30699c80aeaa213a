/* A model's address on the Hugging Face hub or in Ollama's registry as a source, reached as the environment says: HF_ENDPOINT,
 * OLLAMA_REGISTRY and the other names of the hubs' own tools. Used by `push`, `inspect` and the publication worker. */
#pragma once

#include "publish/model_source.h"

typedef enum { REMOTE_SOURCE_NONE, REMOTE_SOURCE_HUB, REMOTE_SOURCE_OLLAMA } RemoteSourceKind;

/* Whose address `text` is, rightly formed or not. */
RemoteSourceKind remote_source_kind (const char *text);
/* Lists the model's files. Blocks. `token` (or NULL) is the hub's; `revision` (or NULL) a ModelSource's from earlier, which is
 * meant again. Errors: those of hub_source_open and ollama_source_open; INVALID_ARGUMENT (UnsupportedSource) for another
 * address; FAILED_PRECONDITION when the environment forbids to ask the hub. */
ModelSource *remote_source_open (Ctx *ctx, const char *url, const char *token, const char *revision, GError **error);
/* The value of an environment variable; NULL when it is not set or empty. */
const char *remote_source_env (const char *name);
gboolean remote_source_env_is_true (const char *name);
