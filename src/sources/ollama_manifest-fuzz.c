/* The registry's documents: what is accepted has digests of one form, sizes that can be added up, and files with safe names.
 * The input is read as a manifest, a config, parameters and a license. */
#include "sources/ollama_files.h"

#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_layer (const OllamaLayer *layer)
{
  char text[DIGEST_STRING_SIZE];
  g_assert_cmpuint (layer->size_bytes, <=, G_MAXINT64);
  g_assert_cmpuint (strlen (digest_format (&layer->digest, text)), ==, strlen ("sha256:") + 64);
}

static void
check_text (const char *text)
{
  for (gsize i = 0; text != NULL && text[i] != '\0'; i++)
    g_assert_true (g_ascii_isgraph (text[i]));
}

static void
check_files (const OllamaManifest *manifest, OllamaConfig *config)
{
  OllamaUrl url = { (char *) "library", (char *) "tiny", (char *) "latest" };
  g_autofree char *format = g_steal_pointer (&config->format);
  config->format = g_strdup ("gguf");
  g_autoptr (GArray) files = ollama_files_new (&url, manifest, config, NULL);
  for (guint i = 0; files != NULL && i < files->len; i++)
    {
      const OllamaFile *file = &g_array_index (files, OllamaFile, i);
      g_assert_true (path_is_safe (file->path));
      g_assert_cmpuint (strlen (file->path), <=, 255);
    }
  g_assert_true (files == NULL || files->len == manifest->layers->len);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) json = g_bytes_new_static (data, size);
  g_autoptr (OllamaManifest) manifest = ollama_manifest_parse (json, NULL);
  g_auto (OllamaConfig) config = { 0 };
  guint64 context = 0;
  ollama_config_parse (json, &config, NULL);
  check_text (config.family);
  check_text (config.parameter_text);
  check_text (config.quantization);
  check_text (config.remote_host);
  if (ollama_params_parse (json, &context, NULL))
    g_assert_cmpuint (context, <=, G_MAXINT64);
  ollama_license_name (json);
  if (manifest == NULL)
    return 0;
  check_layer (&manifest->config);
  for (guint i = 0; i < manifest->layers->len; i++)
    check_layer (&g_array_index (manifest->layers, OllamaLayer, i));
  check_files (manifest, &config);
  return 0;
}
