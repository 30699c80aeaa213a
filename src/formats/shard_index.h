/* The index of a sharded weight set, `*.safetensors.index.json` or `*.bin.index.json`: which tensor lies
 * in which file (formats-safetensors-diffusers.md 2). A missing shard must fail, or an engine serves
 * random weights (vllm#34859, sglang#32279); files the index does not name are not part of the set.
 * Immutable once read; not tied to a thread. */
#pragma once

#include "formats/safetensors.h"

#define SHARD_INDEX_MAX_BYTES (256 * 1024 * 1024)
#define SHARD_INDEX_MAX_FILES 10000

typedef struct {
  const char *tensor;
  gsize tensor_size;
  guint file; /* index into `files` */
} ShardEntry;

typedef struct {
  GPtrArray *files; /* of const char *: paths relative to the index's folder, ascending */
  GArray *entries;  /* of ShardEntry, ascending by tensor */
  guint *n_entries; /* of each file */
  gboolean has_total_size;
  guint64 total_size_bytes; /* often wrong in the wild: for a warning only */
  GStringChunk *strings;
} ShardIndex;

/* TRUE for the path of an index: `*.safetensors.index[.variant].json`, `with_bin` also `*.bin.index...`. */
gboolean shard_index_is_name (const char *path, gboolean with_bin);
/* Length of the path's folder with its slash: what the names in an index are relative to. */
gsize shard_index_folder_size (const char *path);

/* INVALID_ARGUMENT (FormatInvalid) on anything but a map from tensors to safe relative paths;
 * RESOURCE_EXHAUSTED above the limits. `text` need not outlive the call. */
ShardIndex *shard_index_parse (const char *text, gsize size, GError **error);
ShardIndex *shard_index_read (Ctx *ctx, Reader *reader, GError **error);
void shard_index_free (ShardIndex *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ShardIndex, shard_index_free)

gboolean shard_index_names (const ShardIndex *self, const char *file);
/* All files of the index are among `present` (of const char *, relative to the index's folder, ascending
 * by strcmp): else INVALID_ARGUMENT, reason ShardMissing, with both lists, and StaleIndex when not one
 * of them is there but other shards are. */
gboolean shard_index_check_files (const ShardIndex *self, const GPtrArray *present, GError **error);
/* The header of `file` holds exactly the tensors that the index says. Reason ShardMismatch. */
gboolean shard_index_check_header (const ShardIndex *self, const char *file, const SafetensorsHeader *header,
                                   GError **error);
