/* The name of one file of a split model: `stem-00001-of-00003.ext` (formats-safetensors-diffusers.md 2,
 * formats-gguf.md 5). Pure; used by shard sets here and by file selection in domain/. */
#pragma once

#include <glib.h>

typedef struct {
  gsize stem_size; /* of what stands before the number's separator */
  guint no;        /* from 1 */
  guint count;
  const char *rest; /* ".safetensors", ".fp16.safetensors", ".gguf": points into the name */
} ShardName;

/* FALSE when `name` (with or without folders) is not of that form or its numbers make no sense. */
gboolean shard_name_parse (const char *name, ShardName *out_shard);
/* TRUE when both are files of one set: same folder, stem, count and rest. */
gboolean shard_name_same_set (const char *a, const char *b);
