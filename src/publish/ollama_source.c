#include "publish/ollama_source.h"

#include <string.h>

#include "formats/gguf.h"

typedef struct {
  ModelSource base;
  OllamaRegistry *registry;
  OllamaModel *model;
  GHashTable *by_path; /* borrowed path -> OllamaFile of `model` */
} OllamaSource;

static Reader *
ollama_open (ModelSource *base, const char *path, GError **error)
{
  OllamaSource *self = (OllamaSource *) base;
  const OllamaFile *file = g_hash_table_lookup (self->by_path, path);
  if (file == NULL)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "%s is not among the model's files", path);
  return ollama_registry_open (self->registry, self->model, file);
}

static gboolean
ollama_digest (const ModelSource *base, const char *path, Digest *out_digest)
{
  const OllamaFile *file = g_hash_table_lookup (((const OllamaSource *) base)->by_path, path);
  if (file != NULL)
    *out_digest = file->layer.digest;
  return file != NULL;
}

static void
ollama_free (ModelSource *base)
{
  OllamaSource *self = (OllamaSource *) base;
  g_clear_pointer (&self->by_path, g_hash_table_unref);
  ollama_model_free (self->model);
  ollama_registry_free (self->registry);
  g_free (self);
}

/* Several models under one tag are parts of a split one, or too many (publication-pipeline.md, decisions.md). */
static gboolean
check_part (Ctx *ctx, OllamaSource *self, OllamaFile *file, guint no, guint count, GError **error)
{
  GgufSplit split = { 0 };
  g_autoptr (Reader) reader = ollama_open (&self->base, file->path, error);
  g_autoptr (GgufHeader) header = reader != NULL ? gguf_read (ctx, reader, error) : NULL;
  if (header == NULL || !gguf_split (header, &split, error))
    {
      g_prefix_error (error, "%s: ", file->path);
      return FALSE;
    }
  return (split.count == count && split.no == no)
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedFormat",
                     "it holds %u models that are no parts of one, in their order; one can be published", count);
}

static gboolean
check_parts (Ctx *ctx, OllamaSource *self, GError **error)
{
  guint n = 0;
  for (guint i = 0; i < self->model->files->len; i++)
    n += g_array_index (self->model->files, OllamaFile, i).layer.kind == OLLAMA_MODEL;
  for (guint i = 0; n > 1 && i < n; i++)
    if (!check_part (ctx, self, &g_array_index (self->model->files, OllamaFile, i), i, n, error))
      {
        g_prefix_error (error, "%s: ", self->base.display);
        return FALSE;
      }
  return TRUE;
}

static void
take_model (OllamaSource *self, const OllamaUrl *url, const char *endpoint)
{
  const OllamaModel *model = self->model;
  g_autofree char *digest = digest_to_string (&g_array_index (model->files, OllamaFile, 0).layer.digest);
  self->base.display = ollama_url_to_string (url, endpoint);
  self->base.revision = g_strdup_printf ("%s@%s", url->tag, digest);
  self->base.license = g_strdup (model->license);
  self->base.family = g_strdup (model->config.family);
  self->base.parameter_text = g_strdup (model->config.parameter_text);
  self->base.quantization = g_strdup (model->config.quantization);
  self->base.context_tokens = model->context_tokens;
  for (guint i = 0; i < model->files->len; i++)
    {
      OllamaFile *file = &g_array_index (model->files, OllamaFile, i);
      SourceFile listed = { file->path, file->layer.size_bytes, FALSE, file->left_out };
      g_array_append_val (self->base.files, listed);
      g_hash_table_insert (self->by_path, file->path, file);
    }
}

/* The registry gives out manifests by tag alone. */
static gboolean
check_revision (const OllamaSource *self, const char *revision, GError **error)
{
  return revision == NULL || strcmp (revision, self->base.revision) == 0
         || am_fail (error, AM_ERROR_FAILED_PRECONDITION, "SourceChanged",
                     "%s is another model by now than the one that was begun with: it was %.200s and is %s",
                     self->base.display, revision, self->base.revision);
}

ModelSource *
ollama_source_open (Ctx *ctx, const OllamaConfiguration *configuration, const char *text, const char *revision,
                    GError **error)
{
  static const ModelSourceClass klass = { NULL, ollama_open, ollama_digest, ollama_free };
  g_auto (OllamaUrl) url = { 0 };
  if (!ollama_url_parse (text, configuration->endpoint, &url, error))
    return NULL;
  OllamaSource *self = g_new0 (OllamaSource, 1);
  g_autoptr (ModelSource) base = &self->base;
  base->klass = &klass;
  base->files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  self->by_path = g_hash_table_new (g_str_hash, g_str_equal);
  self->registry = ollama_registry_new (configuration, error);
  self->model = self->registry != NULL ? ollama_registry_find (ctx, self->registry, &url, error) : NULL;
  if (self->model == NULL)
    return NULL;
  take_model (self, &url, configuration->endpoint);
  return check_revision (self, revision, error) && check_parts (ctx, self, error) ? g_steal_pointer (&base) : NULL;
}
