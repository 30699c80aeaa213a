/* What one file of a source is to a model of a given format: the table "Per-file classification" of
 * publication-pipeline.md, first match wins, paths compared in lower case. Pure. */
#pragma once

#include "formats/model_format.h"

typedef enum {
  FILE_CONFIG,    /* config.json, model_index.json: what the format is recognised by */
  FILE_COMPANION, /* tokenizers, templates, indexes */
  FILE_WEIGHTS,
  FILE_DROPPED,
  FILE_REJECTED, /* its presence condemns the whole source */
} FileRole;

typedef struct {
  FileRole role;
  const char *why; /* a few static words for people, "a script"; never NULL */
} FileRuling;

/* `path` is relative and safe. `is_gguf` says that the content begins as GGUF, whatever the name. */
FileRuling file_rule (ModelFormat format, const char *path, gboolean is_gguf);
/* TRUE for names of Python pickle weights (.bin .pt .pth .ckpt .pkl), which are not published. */
gboolean file_is_pickle (const char *path);
