/* A command's argument that names a model to publish or to look at: a path of this machine, or an address of the Hugging
 * Face hub or of Ollama's registry. The hub's environment names are those of its own tools. */
#pragma once

#include "cli/cli.h"
#include "publish/model_source.h"

/* TRUE for an address of a hub, and for any other URL (which source_argument_open then refuses). */
gboolean source_argument_is_url (const char *argument);
/* Lists the source's files. Blocks. `token_file` (may be NULL) has the hub's token in its first line, "-" is standard
 * input; otherwise HF_TOKEN and the file that the hub's own login writes. Caller frees. Errors: those of local_source_open,
 * hub_source_open and ollama_source_open; INVALID_ARGUMENT (UnsupportedSource) for other URLs. */
ModelSource *source_argument_open (Ctx *ctx, Cli *cli, const char *argument, const char *token_file, GError **error);
