/* model_index.json: the parts of a Diffusers pipeline and what each part's folder must hold
 * (formats-safetensors-diffusers.md 5). Pure; used by file selection's caller and the inspector. */
#pragma once

#include "base/error.h"

typedef enum {
  DIFFUSERS_MODEL,     /* config.json and weights */
  DIFFUSERS_SCHEDULER, /* scheduler_config.json */
  DIFFUSERS_TOKENIZER, /* tokenizer_config.json and a vocabulary */
  DIFFUSERS_PROCESSOR, /* preprocessor_config.json or a tokenizer's files */
} DiffusersKind;

typedef struct {
  char *name; /* and folder: [A-Za-z0-9_]+ */
  DiffusersKind kind;
} DiffusersComponent;

typedef struct {
  char *class_name;
  GArray *components; /* of DiffusersComponent; those that are absent on purpose are left out */
} DiffusersIndex;

/* INVALID_ARGUMENT (FormatInvalid) when it is no pipeline, or a part's name could lead elsewhere. */
DiffusersIndex *diffusers_index_parse (const char *text, gsize size, GError **error);
void diffusers_index_free (DiffusersIndex *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DiffusersIndex, diffusers_index_free)
/* NULL when there is none. */
const DiffusersComponent *diffusers_index_find (const DiffusersIndex *self, const char *name);
/* The part that makes the images: `transformer` or `unet`, else NULL. */
const DiffusersComponent *diffusers_index_denoiser (const DiffusersIndex *self);
