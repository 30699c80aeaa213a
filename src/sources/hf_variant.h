/* "hf.co/owner/name:Q4_K_M": which of a repository's GGUF files is meant, as Ollama and llama.cpp read such names
 * (formats-huggingface.md 4.1). Pure. */
#pragma once

#include "sources/hf_listing.h"

/* Path of the file that `variant` names: by its own name, by the quantization in its name, or by its folder's; of a split one
 * some part. Projectors are passed over. Owned by `files` (HfFile). NOT_FOUND, or INVALID_ARGUMENT (reason AmbiguousFormat)
 * when several fit; the message lists what there is. */
const char *hf_variant_find (const GArray *files, const char *variant, GError **error);
