/* Checks over the files of one model that was split without an index: GGUF parts (formats-gguf.md 5) and
 * numbered safetensors files. Pure; used by the inspector. */
#pragma once

#include "formats/gguf.h"
#include "formats/safetensors.h"

typedef struct {
  const char *path;
  const GgufHeader *gguf; /* one of the two */
  const SafetensorsHeader *safetensors;
} ShardPart;

/* Every number of the set is there once, judged by names alone (of const char *, all of one set):
 * INVALID_ARGUMENT, reason ShardMissing. */
gboolean shard_set_check_names (const GPtrArray *paths, GError **error);
/* GGUF parts agree on their count and with their names, hold the promised number of tensors, none twice,
 * and the first has the metadata. Also right for one file alone: a part of a larger set is refused.
 * Reasons ShardMissing, ShardMismatch. */
gboolean shard_set_check_gguf (const ShardPart *parts, guint n_parts, GError **error);
/* No tensor name is in two of the files. Reason ShardMismatch. */
gboolean shard_set_check_safetensors (const ShardPart *parts, guint n_parts, GError **error);
