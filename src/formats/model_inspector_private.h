/* What model_inspector.c gathers and inspect_*.c judge. Private to them. */
#pragma once

#include "formats/chat_template.h"
#include "formats/config_facts.h"
#include "formats/config_quantization.h"
#include "formats/diffusers_index.h"
#include "formats/gguf.h"
#include "formats/model_inspector.h"
#include "formats/safetensors.h"
#include "formats/shard_index.h"

/* A weight file. One of the headers, or none for .bin weights of a pipeline. */
typedef struct {
  char *path;
  guint64 size_bytes;
  SafetensorsHeader *safetensors;
  GgufHeader *gguf;
  gboolean is_extra; /* not named by the index of its folder: no part of the model */
} WeightFile;

typedef struct {
  char *path;
  ShardIndex *index;
} IndexFile;

struct ModelInspector {
  ModelFacts *facts;
  GArray *weights; /* of WeightFile, ascending by path once finished */
  GArray *indexes; /* of IndexFile */
  guint64 n_tensors;
  yyjson_doc *config; /* config.json of the root */
  Quantization *quantization;
  GPtrArray *quantization_files; /* of SideFile: looked at when config.json says nothing */
  ChatTemplate template;
  ContextHints hints;
  DiffusersIndex *pipeline;
};

typedef struct {
  char *name;
  yyjson_doc *doc;
} SideFile;

gboolean inspect_safetensors (ModelInspector *self, GError **error);
gboolean inspect_gguf (ModelInspector *self, GError **error);
gboolean inspect_pipeline (ModelInspector *self, GError **error);

/* Indexes against headers, numbered sets, names twice: for all safetensors files. Marks extras. */
gboolean inspect_check_shards (ModelInspector *self, GError **error);
/* Adds up the parameters of the files whose path begins with `folder` ("" or "unet/"). TRUE when there
 * was a tensor. `out_precision` is ModelPack's word for the dominant type, or NULL. */
gboolean inspect_count_parameters (const ModelInspector *self, const char *folder, guint64 *out_n,
                                   gboolean *out_is_exact, const char **out_precision);
