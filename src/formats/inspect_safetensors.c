#include <string.h>

#include "formats/format_error.h"
#include "formats/model_inspector_private.h"
#include "formats/parameter_count.h"
#include "formats/shard_name.h"
#include "formats/shard_set.h"

static WeightFile *
weight_file (const ModelInspector *self, guint i)
{
  return &g_array_index (self->weights, WeightFile, i);
}

/* Names, relative to the folder of `path`, of the weight files beneath it; ascending. */
static GPtrArray *
names_beside (const ModelInspector *self, const char *path)
{
  gsize size = shard_index_folder_size (path);
  GPtrArray *names = g_ptr_array_new ();
  for (guint i = 0; i < self->weights->len; i++)
    if (strncmp (weight_file (self, i)->path, path, size) == 0)
      g_ptr_array_add (names, weight_file (self, i)->path + size);
  return names;
}

static void
compare_total (ModelInspector *self, const IndexFile *file, guint64 total_bytes)
{
  if (file->index->has_total_size && file->index->total_size_bytes != total_bytes)
    model_facts_warn (self->facts,
                      "%s: total_size is %" G_GUINT64_FORMAT ", the tensors have %" G_GUINT64_FORMAT " bytes",
                      file->path, file->index->total_size_bytes, total_bytes);
}

/* The index against the files it names. `indexed` collects their paths. */
static gboolean
check_index (ModelInspector *self, const IndexFile *file, GHashTable *indexed, GError **error)
{
  g_autoptr (GPtrArray) present = names_beside (self, file->path);
  gsize size = shard_index_folder_size (file->path);
  guint64 total_bytes = 0;
  gboolean all_safetensors = TRUE;
  if (!shard_index_check_files (file->index, present, error))
    return FALSE;
  for (guint i = 0; i < self->weights->len; i++)
    {
      WeightFile *weights = weight_file (self, i);
      if (strncmp (weights->path, file->path, size) != 0 || !shard_index_names (file->index, weights->path + size))
        continue;
      g_hash_table_add (indexed, weights);
      all_safetensors &= weights->safetensors != NULL;
      if (weights->safetensors == NULL)
        continue;
      total_bytes += weights->safetensors->data_bytes;
      if (!shard_index_check_header (file->index, weights->path + size, weights->safetensors, error))
        return FALSE;
    }
  if (all_safetensors)
    compare_total (self, file, total_bytes);
  return TRUE;
}

/* Files beside an index that it does not name are no part of the model. */
static void
mark_extras (ModelInspector *self, GHashTable *indexed)
{
  for (guint i = 0; i < self->indexes->len; i++)
    {
      const char *index_path = g_array_index (self->indexes, IndexFile, i).path;
      for (guint j = 0; j < self->weights->len; j++)
        {
          WeightFile *weights = weight_file (self, j);
          gsize size = shard_index_folder_size (weights->path);
          if (size != shard_index_folder_size (index_path) || strncmp (weights->path, index_path, size) != 0
              || g_hash_table_contains (indexed, weights) || weights->is_extra)
            continue;
          weights->is_extra = TRUE;
          model_facts_warn (self->facts, "%s is not named by the shard index", weights->path);
        }
    }
}

static gboolean
check_numbered_set (const ModelInspector *self, guint first, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (ShardPart));
  gboolean all_safetensors = TRUE;
  for (guint i = 0; i < self->weights->len; i++)
    {
      const WeightFile *weights = weight_file (self, i);
      ShardPart part = { weights->path, NULL, weights->safetensors };
      if (!shard_name_same_set (weights->path, weight_file (self, first)->path))
        continue;
      if (i < first) /* checked when its first part was met */
        return TRUE;
      all_safetensors &= weights->safetensors != NULL;
      g_ptr_array_add (names, weights->path);
      g_array_append_val (parts, part);
    }
  if (names->len == 0)
    return TRUE;
  return shard_set_check_names (names, error)
         && (!all_safetensors
             || shard_set_check_safetensors ((const ShardPart *) (gpointer) parts->data, parts->len, error));
}

gboolean
inspect_check_shards (ModelInspector *self, GError **error)
{
  g_autoptr (GHashTable) indexed = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < self->indexes->len; i++)
    {
      const IndexFile *file = &g_array_index (self->indexes, IndexFile, i);
      if (!check_index (self, file, indexed, error))
        {
          g_prefix_error (error, "%s: ", file->path);
          return FALSE;
        }
    }
  mark_extras (self, indexed);
  for (guint i = 0; i < self->weights->len; i++)
    if (!g_hash_table_contains (indexed, weight_file (self, i)) && !weight_file (self, i)->is_extra
        && !check_numbered_set (self, i, error))
      return FALSE;
  return TRUE;
}

static gboolean
is_adapter (const WeightFile *file)
{
  const char *name = file->path + shard_index_folder_size (file->path);
  return g_str_has_prefix (name, "adapter_model") || g_str_has_prefix (name, "pytorch_lora_weights");
}

/* An adapter counts only where it is all there is. */
static gboolean
only_adapters (const ModelInspector *self)
{
  for (guint i = 0; i < self->weights->len; i++)
    if (!is_adapter (weight_file (self, i)))
      return FALSE;
  return TRUE;
}

gboolean
inspect_count_parameters (const ModelInspector *self, const char *folder, guint64 *out_n, gboolean *out_is_exact,
                          const char **out_precision)
{
  g_autoptr (GPtrArray) tensors = g_ptr_array_new ();
  gboolean with_adapters = only_adapters (self), has_opaque = FALSE;
  ParameterCount count;
  for (guint i = 0; i < self->weights->len; i++)
    {
      const WeightFile *file = weight_file (self, i);
      if (!g_str_has_prefix (file->path, folder) || file->is_extra || (!with_adapters && is_adapter (file)))
        continue;
      has_opaque |= file->safetensors == NULL;
      for (guint j = 0; file->safetensors != NULL && j < file->safetensors->by_name->len; j++)
        g_ptr_array_add (tensors, file->safetensors->by_name->pdata[j]);
    }
  parameter_count_sort (tensors);
  parameter_count (tensors, self->quantization, &count);
  SafetensorsDtype dominant = parameter_count_dominant (&count);
  *out_precision = dominant != SAFETENSORS_N_DTYPES ? safetensors_dtype_info (dominant)->precision : NULL;
  *out_n = count.n_parameters;
  *out_is_exact = count.is_exact && !has_opaque;
  return tensors->len > 0;
}

static void
read_quantization (ModelInspector *self, yyjson_val *config)
{
  quantization_read_config (self->quantization, config);
  for (guint i = 0; i < self->quantization_files->len; i++)
    {
      const SideFile *side = self->quantization_files->pdata[i];
      quantization_read_side_file (self->quantization, side->name, yyjson_doc_get_root (side->doc));
    }
  self->facts->quantization = g_strdup (self->quantization->label);
  self->facts->quantization_origin = self->quantization->label != NULL ? FACT_READ : FACT_UNKNOWN;
}

/* The sum over the headers beats what config.json declares (huggingface_hub#4221). */
static void
read_parameters (ModelInspector *self)
{
  ModelFacts *facts = self->facts;
  const char *precision;
  gboolean is_exact;
  guint64 n;
  if (!inspect_count_parameters (self, "", &n, &is_exact, &precision) || n == 0)
    return;
  facts->precision = g_strdup (precision);
  facts->n_parameters_in_all = n;
  if (!is_exact && facts->n_parameters > 0)
    return;
  facts->n_parameters = n;
  facts->parameters_origin = is_exact ? FACT_READ : FACT_GUESSED;
}

gboolean
inspect_safetensors (ModelInspector *self, GError **error)
{
  if (self->config == NULL)
    return format_fail (error, "config.json is missing");
  if (!inspect_check_shards (self, error))
    return FALSE;
  yyjson_val *config = yyjson_doc_get_root (self->config);
  config_facts_read (config, self->facts);
  config_context_read (config, &self->hints, self->facts);
  read_quantization (self, config);
  read_parameters (self);
  self->facts->is_adapter = only_adapters (self);
  if (self->facts->has_remote_code)
    model_facts_warn (self->facts,
                      "config.json names Python code of the repository (auto_map), which is not published");
  self->facts->n_models = 1;
  chat_template_apply (&self->template, self->facts);
  return TRUE;
}
