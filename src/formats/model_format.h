/* The three forms of a model that we publish (crds.md, status.resolved.format). */
#pragma once

#include <glib.h>

typedef enum { MODEL_FORMAT_SAFETENSORS, MODEL_FORMAT_GGUF, MODEL_FORMAT_DIFFUSERS, MODEL_FORMAT_N } ModelFormat;

/* "Safetensors", as the API spells it. */
const char *model_format_name (ModelFormat format);
/* The same in lower case, as ModelPack's config.format has it. */
const char *model_format_lower_name (ModelFormat format);
/* Either spelling. FALSE when it is neither. */
gboolean model_format_parse (const char *text, ModelFormat *out_format);
