/* A model of Ollama's registry as a source: its parts are streamed as files, none is kept on this machine. */
#pragma once

#include "publish/model_source.h"
#include "sources/ollama_registry.h"

/* Asks the registry what `url` (ollama_url.h) means now. Blocks. Errors: those of ollama_url_parse, ollama_registry_new and
 * ollama_registry_find; INVALID_ARGUMENT (UnsupportedFormat) for several models under one tag that are no parts of one;
 * FAILED_PRECONDITION (SourceChanged) when that is not `revision` (a source's revision, or NULL) any more. */
ModelSource *ollama_source_open (Ctx *ctx, const OllamaConfiguration *configuration, const char *url,
                                 const char *revision, GError **error);
