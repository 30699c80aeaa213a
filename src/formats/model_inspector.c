#include <string.h>

#include "formats/config_value.h"
#include "formats/format_error.h"
#include "formats/model_inspector_private.h"
#include "formats/sniff.h"

#define TEMPLATE_MAX_BYTES (4 * 1024 * 1024)
#define MAX_WEIGHT_FILES SHARD_INDEX_MAX_FILES

static void
weight_file_clear (gpointer data)
{
  WeightFile *file = data;
  g_free (file->path);
  safetensors_header_free (file->safetensors);
  gguf_header_free (file->gguf);
}

static void
index_file_clear (gpointer data)
{
  IndexFile *file = data;
  g_free (file->path);
  shard_index_free (file->index);
}

static void
side_file_free (gpointer data)
{
  SideFile *file = data;
  g_free (file->name);
  yyjson_doc_free (file->doc);
  g_free (file);
}

ModelInspector *
model_inspector_new (ModelFormat format)
{
  ModelInspector *self = g_new0 (ModelInspector, 1);
  self->facts = model_facts_new (format);
  self->weights = g_array_new (FALSE, FALSE, sizeof (WeightFile));
  g_array_set_clear_func (self->weights, weight_file_clear);
  self->indexes = g_array_new (FALSE, FALSE, sizeof (IndexFile));
  g_array_set_clear_func (self->indexes, index_file_clear);
  self->quantization = quantization_new ();
  self->quantization_files = g_ptr_array_new_with_free_func (side_file_free);
  return self;
}

void
model_inspector_free (ModelInspector *self)
{
  if (self == NULL)
    return;
  model_facts_free (self->facts);
  g_array_unref (self->weights);
  g_array_unref (self->indexes);
  quantization_free (self->quantization);
  g_ptr_array_unref (self->quantization_files);
  g_clear_pointer (&self->config, yyjson_doc_free);
  g_clear_pointer (&self->pipeline, diffusers_index_free);
  g_free (self);
}

/* A file on its way in. */
typedef struct {
  Ctx *ctx;
  ModelInspector *inspector;
  const char *path;
  Reader *reader;
} Incoming;

/* The whole file with a NUL behind it; NULL when it is larger than `limit_bytes` or cannot be read. */
static char *
read_text (const Incoming *file, gsize limit_bytes, gsize *out_size, GError **error)
{
  if (file->reader->size_bytes > limit_bytes)
    {
      format_fail_limit (error, "the file is larger than %" G_GSIZE_FORMAT " bytes", limit_bytes);
      return NULL;
    }
  gsize size = (gsize) file->reader->size_bytes;
  g_autofree char *text = g_malloc (size + 1);
  if (!reader_read_at (file->ctx, file->reader, 0, text, size, error))
    return NULL;
  text[size] = '\0';
  *out_size = size;
  return g_steal_pointer (&text);
}

/* A JSON object. */
static yyjson_doc *
read_document (const Incoming *file, GError **error)
{
  gsize size;
  g_autofree char *text = read_text (file, CONFIG_MAX_BYTES, &size, error);
  if (text == NULL)
    return NULL;
  return config_parse (text, size, error);
}

static gboolean
add_config (const Incoming *file, GError **error)
{
  ModelInspector *self = file->inspector;
  g_autoptr (yyjson_doc) doc = read_document (file, error);
  if (doc == NULL)
    return FALSE;
  g_clear_pointer (&self->config, yyjson_doc_free);
  self->config = g_steal_pointer (&doc);
  return TRUE;
}

static gboolean
add_pipeline (const Incoming *file, GError **error)
{
  gsize size;
  g_autofree char *text = read_text (file, CONFIG_MAX_BYTES, &size, error);
  if (text == NULL)
    return FALSE;
  g_clear_pointer (&file->inspector->pipeline, diffusers_index_free);
  file->inspector->pipeline = diffusers_index_parse (text, size, error);
  return file->inspector->pipeline != NULL;
}

static gboolean
add_tokenizer_config (const Incoming *file, GError **error)
{
  g_autoptr (yyjson_doc) doc = read_document (file, error);
  if (doc == NULL)
    return FALSE;
  chat_template_add_json (&file->inspector->template, CHAT_TEMPLATE_TOKENIZER, yyjson_doc_get_root (doc));
  config_tokenizer_tokens (yyjson_doc_get_root (doc), &file->inspector->hints.tokenizer_tokens);
  return TRUE;
}

static gboolean
add_template_json (const Incoming *file, GError **error)
{
  gboolean is_processor = strcmp (file->path, "processor_config.json") == 0;
  g_autoptr (yyjson_doc) doc = read_document (file, error);
  if (doc == NULL)
    return FALSE;
  chat_template_add_json (&file->inspector->template, is_processor ? CHAT_TEMPLATE_PROCESSOR : CHAT_TEMPLATE_JSON,
                          yyjson_doc_get_root (doc));
  return TRUE;
}

static gboolean
add_template (const Incoming *file, GError **error)
{
  gsize size;
  g_autofree char *text = read_text (file, TEMPLATE_MAX_BYTES, &size, error);
  if (text == NULL)
    return FALSE;
  chat_template_add_text (&file->inspector->template, CHAT_TEMPLATE_JINJA, text, size);
  return TRUE;
}

static gboolean
add_sentence_config (const Incoming *file, GError **error)
{
  g_autoptr (yyjson_doc) doc = read_document (file, error);
  if (doc == NULL)
    return FALSE;
  config_u64 (yyjson_doc_get_root (doc), "max_seq_length", &file->inspector->hints.sentence_tokens);
  return TRUE;
}

static gboolean
add_modules (const Incoming *file, GError **error)
{
  file->inspector->facts->is_sentence_transformer = TRUE;
  return TRUE;
}

static gboolean
add_quantization_file (const Incoming *file, GError **error)
{
  g_autoptr (yyjson_doc) doc = read_document (file, error);
  if (doc == NULL)
    return FALSE;
  SideFile *side = g_new (SideFile, 1);
  *side = (SideFile){ g_strdup (file->path), g_steal_pointer (&doc) };
  g_ptr_array_add (file->inspector->quantization_files, side);
  return TRUE;
}

enum { SAFETENSORS = 1 << MODEL_FORMAT_SAFETENSORS, DIFFUSERS = 1 << MODEL_FORMAT_DIFFUSERS };

/* Files of the model's root that say something. A bad one is only worth a warning unless it is what the
 * format is built on. */
static const struct {
  const char *path;
  guint formats;
  gboolean is_vital;
  gboolean (*add) (const Incoming *, GError **);
} documents[] = {
  { "config.json", SAFETENSORS, TRUE, add_config },
  { "model_index.json", DIFFUSERS, TRUE, add_pipeline },
  { "tokenizer_config.json", SAFETENSORS, FALSE, add_tokenizer_config },
  { "chat_template.jinja", SAFETENSORS, FALSE, add_template },
  { "chat_template.json", SAFETENSORS, FALSE, add_template_json },
  { "processor_config.json", SAFETENSORS, FALSE, add_template_json },
  { "sentence_bert_config.json", SAFETENSORS, FALSE, add_sentence_config },
  { "modules.json", SAFETENSORS, FALSE, add_modules },
  { "hf_quant_config.json", SAFETENSORS, FALSE, add_quantization_file },
  { "quantize_config.json", SAFETENSORS, FALSE, add_quantization_file },
  { "quant_config.json", SAFETENSORS, FALSE, add_quantization_file },
};

/* What every file must not be, whatever its name says. */
static gboolean
check_content (const Incoming *file, SniffKind *out_kind, GError **error)
{
  guint8 head[SNIFF_BYTES];
  gsize size = (gsize) MIN (file->reader->size_bytes, sizeof head);
  if (!reader_read_at (file->ctx, file->reader, 0, head, size, error))
    return FALSE;
  *out_kind = sniff (head, size);
  if (*out_kind == SNIFF_LFS_POINTER)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "LfsPointer",
                    "this is a Git LFS pointer, not the file: run `git lfs pull`");
  if (*out_kind == SNIFF_HTML && !g_str_has_suffix (file->path, ".xml"))
    return format_fail (error, "this is %s", sniff_describe (*out_kind));
  return TRUE;
}

static gboolean
add_document (const Incoming *file, GError **error)
{
  g_autoptr (GError) problem = NULL;
  SniffKind kind;
  ModelFacts *facts = file->inspector->facts;
  if (!check_content (file, &kind, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (documents); i++)
    {
      if (strcmp (documents[i].path, file->path) != 0 || (documents[i].formats & (1u << facts->format)) == 0)
        continue;
      if (documents[i].add (file, &problem))
        return TRUE;
      gboolean is_its_own = am_error_is (problem, AM_ERROR_INVALID_ARGUMENT)
                            || am_error_is (problem, AM_ERROR_RESOURCE_EXHAUSTED);
      if (documents[i].is_vital || !is_its_own)
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      model_facts_warn (facts, "%s: %s", file->path, problem->message);
    }
  return TRUE;
}

static gboolean
count_tensors (ModelInspector *self, guint n, GError **error)
{
  self->n_tensors += n;
  return self->n_tensors <= SAFETENSORS_MAX_TENSORS
         || format_fail_limit (error, "the model has more than %d tensors", SAFETENSORS_MAX_TENSORS);
}

static gboolean
read_weights (const Incoming *file, WeightFile *weights, GError **error)
{
  ModelInspector *self = file->inspector;
  SniffKind kind;
  if (self->facts->format == MODEL_FORMAT_GGUF)
    {
      weights->gguf = gguf_read (file->ctx, file->reader, error);
      return weights->gguf != NULL && count_tensors (self, weights->gguf->tensors->len, error);
    }
  if (g_str_has_suffix (file->path, ".bin"))
    { /* of a pipeline: taken as it is, never loaded */
      if (!check_content (file, &kind, error))
        return FALSE;
      return kind == SNIFF_ZIP || kind == SNIFF_PICKLE || format_fail (error, "this is no PyTorch weight file");
    }
  weights->safetensors = safetensors_read (file->ctx, file->reader, error);
  return weights->safetensors != NULL && count_tensors (self, weights->safetensors->tensors->len, error);
}

static gboolean
add_weights (const Incoming *file, GError **error)
{
  ModelInspector *self = file->inspector;
  if (self->weights->len == MAX_WEIGHT_FILES)
    return format_fail_limit (error, "the model has more than %d weight files", MAX_WEIGHT_FILES);
  WeightFile weights = { .path = g_strdup (file->path), .size_bytes = file->reader->size_bytes };
  if (!read_weights (file, &weights, error))
    {
      weight_file_clear (&weights);
      return FALSE;
    }
  if (weights.safetensors != NULL && weights.safetensors->leading_space)
    model_facts_warn (self->facts, "%s: white space stands before the header", file->path);
  g_array_append_val (self->weights, weights);
  self->facts->n_weight_files++;
  self->facts->weights_bytes += weights.size_bytes;
  self->facts->largest_weight_bytes = MAX (self->facts->largest_weight_bytes, weights.size_bytes);
  return TRUE;
}

static gboolean
add_index (const Incoming *file, GError **error)
{
  IndexFile index = { NULL, shard_index_read (file->ctx, file->reader, error) };
  if (index.index == NULL)
    return FALSE;
  index.path = g_strdup (file->path);
  g_array_append_val (file->inspector->indexes, index);
  return TRUE;
}

static gboolean
is_weight_name (ModelFormat format, const char *path)
{
  const char *slash = strrchr (path, '/'), *name = slash != NULL ? slash + 1 : path;
  g_autofree char *lower = g_ascii_strdown (name, -1);
  if (format == MODEL_FORMAT_GGUF) /* "params" is a companion; no other one lacks an extension */
    return g_str_has_suffix (lower, ".gguf") || (strchr (lower, '.') == NULL && strcmp (lower, "params") != 0);
  return g_str_has_suffix (lower, ".safetensors")
         || (format == MODEL_FORMAT_DIFFUSERS && g_str_has_suffix (lower, ".bin"));
}

static gboolean
is_index_name (ModelFormat format, const char *path)
{
  return format != MODEL_FORMAT_GGUF && shard_index_is_name (path, format == MODEL_FORMAT_DIFFUSERS);
}

gboolean
model_inspector_add_file (Ctx *ctx, ModelInspector *self, const char *path, Reader *reader, GError **error)
{
  const Incoming file = { ctx, self, path, reader };
  ModelFormat format = self->facts->format;
  gboolean good = is_weight_name (format, path)  ? add_weights (&file, error)
                  : is_index_name (format, path) ? add_index (&file, error)
                                                 : add_document (&file, error);
  if (!good)
    g_prefix_error (error, "%s: ", path);
  return good;
}

static int
compare_weights (gconstpointer a, gconstpointer b)
{
  return strcmp (((const WeightFile *) a)->path, ((const WeightFile *) b)->path);
}

ModelFacts *
model_inspector_finish (ModelInspector *self, GError **error)
{
  static gboolean (*const inspect[MODEL_FORMAT_N]) (ModelInspector *, GError **) = {
    [MODEL_FORMAT_SAFETENSORS] = inspect_safetensors,
    [MODEL_FORMAT_GGUF] = inspect_gguf,
    [MODEL_FORMAT_DIFFUSERS] = inspect_pipeline,
  };
  g_array_sort (self->weights, compare_weights);
  if (self->weights->len == 0)
    {
      format_fail (error, "there are no weights");
      return NULL;
    }
  return inspect[self->facts->format](self, error) ? g_steal_pointer (&self->facts) : NULL;
}
