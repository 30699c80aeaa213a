/* What the file name of GGUF weights suggests (metadata-profile.md "GGUF"): guesses, never public. Pure. */
#pragma once

#include <glib.h>

typedef struct {
  char *family;       /* what stands before the quantization, without the size */
  char *quantization; /* "q4_k_m", "iq2_xs", "bf16", "f16" */
  guint64 n_parameters;
} NameHints;

/* `stem` is a file name without extension and part numbers; may be NULL. */
NameHints name_hints_read (const char *stem);
void name_hints_clear (NameHints *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (NameHints, name_hints_clear)
