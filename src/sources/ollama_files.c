#include "sources/ollama_files.h"

#include <string.h>

/* Several of a kind are numbered: mmproj.gguf, mmproj-2.gguf, LICENSE, LICENSE.2. */
static const struct {
  OllamaLayerKind kind;
  const char *stem, *suffix;
  const char *left_out;
} places[] = {
  { OLLAMA_PROJECTOR, "mmproj", ".gguf", NULL },
  { OLLAMA_ADAPTER, "adapter", ".gguf", NULL },
  { OLLAMA_DRAFT, "draft", ".gguf", "a smaller model that writes drafts for this one" },
  { OLLAMA_TEMPLATE, "ollama/template", "",
    "a prompt template in Ollama's own language; the model file carries its own" },
  { OLLAMA_SYSTEM, "ollama/system", "", "a prompt for Ollama" },
  { OLLAMA_PARAMS, "ollama/params", ".json", "settings of Ollama; the context length was read from it" },
  { OLLAMA_MESSAGES, "ollama/messages", ".json", "messages for Ollama" },
  { OLLAMA_LICENSE, "LICENSE", "", "the license's text; its name was read from it" },
  { OLLAMA_TENSOR, "ollama/tensor", "", "no part of a GGUF model" },
  { OLLAMA_JSON, "ollama/json", "", "no part of a GGUF model" },
  { OLLAMA_OTHER, "ollama/other", "", "of a kind that is not known" },
};

static void
clear_file (gpointer data)
{
  g_free (((OllamaFile *) data)->path);
}

/* NAME-TAG[-quantization], with nothing that a file's name should not have; caller frees. */
static char *
model_stem (const OllamaUrl *url, const OllamaConfig *config)
{
  g_autofree char *quantization = g_ascii_strdown (config->quantization != NULL ? config->quantization : "", -1);
  char *stem = g_strconcat (url->model, "-", url->tag, *quantization != '\0' ? "-" : "", quantization, NULL);
  for (char *c = stem; *c != '\0'; c++)
    if (!g_ascii_isalnum (*c) && strchr ("._-", *c) == NULL)
      *c = '-';
  return stem;
}

static gboolean
check_usable (const OllamaManifest *manifest, const OllamaConfig *config, GError **error)
{
  gboolean has_model = ollama_manifest_count (manifest, OLLAMA_MODEL) > 0;
  if (!has_model && config->remote_host != NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedFormat",
                    "the model runs at %s: it has no weights that could be published", config->remote_host);
  if (!has_model && ollama_manifest_count (manifest, OLLAMA_TENSOR) > 0)
    return am_fail (
      error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedFormat",
      "Ollama keeps this model tensor by tensor, not as a GGUF file: publish it from where it was made, or "
      "choose a tag with a GGUF file");
  if (config->format == NULL || strcmp (config->format, "gguf") != 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedFormat",
                    "the model's format is %s: of Ollama's models only those in GGUF can be published",
                    config->format != NULL ? config->format : "not stated");
  return has_model
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedFormat", "the model has no file with its weights");
}

static void
add_models (GArray *files, const OllamaUrl *url, const OllamaManifest *manifest, const OllamaConfig *config)
{
  g_autofree char *stem = model_stem (url, config);
  guint n = ollama_manifest_count (manifest, OLLAMA_MODEL);
  for (guint i = 0; i < n; i++)
    {
      OllamaFile file = { .layer = *ollama_manifest_find (manifest, OLLAMA_MODEL, i) };
      file.path = n == 1 ? g_strconcat (stem, ".gguf", NULL)
                         : g_strdup_printf ("%s-%05u-of-%05u.gguf", stem, i + 1, n);
      g_array_append_val (files, file);
    }
}

static void
add_others (GArray *files, const OllamaManifest *manifest)
{
  guint n_seen[G_N_ELEMENTS (places)] = { 0 };
  for (guint i = 0; i < manifest->layers->len; i++)
    for (gsize place = 0; place < G_N_ELEMENTS (places); place++)
      {
        OllamaFile file = { .layer = g_array_index (manifest->layers, OllamaLayer, i) };
        if (places[place].kind != file.layer.kind)
          continue;
        const char *suffix = places[place].suffix;
        g_autofree char *number = g_strdup_printf ("%c%u", *suffix != '\0' ? '-' : '.', ++n_seen[place]);
        file.path = g_strconcat (places[place].stem, n_seen[place] > 1 ? number : "", suffix, NULL);
        file.left_out = places[place].left_out;
        g_array_append_val (files, file);
      }
}

GArray *
ollama_files_new (const OllamaUrl *url, const OllamaManifest *manifest, const OllamaConfig *config, GError **error)
{
  if (!check_usable (manifest, config, error))
    return NULL;
  GArray *files = g_array_new (FALSE, FALSE, sizeof (OllamaFile));
  g_array_set_clear_func (files, clear_file);
  add_models (files, url, manifest, config);
  add_others (files, manifest);
  return files;
}
