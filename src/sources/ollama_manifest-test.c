#include "sources/ollama_files.h"

#include <string.h>

#define HEX "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define DIGEST "\"digest\":\"sha256:" HEX "\""
#define LAYER(kind) "{\"mediaType\":\"application/vnd.ollama.image." kind "\"," DIGEST ",\"size\":7}"
#define EMPTY(kind) "{\"mediaType\":\"application/vnd.ollama.image." kind "\"," DIGEST ",\"size\":0}"
#define CONFIG "\"config\":{\"mediaType\":\"application/vnd.docker.container.image.v1+json\"," DIGEST ",\"size\":9}"
#define MANIFEST(layers) "{\"schemaVersion\":2," CONFIG ",\"layers\":[" layers "]}"

static GBytes *
text_bytes_of (const char *text)
{
  return g_bytes_new_static (text, strlen (text));
}

static OllamaManifest *
parse (const char *text, GError **error)
{
  g_autoptr (GBytes) json = text_bytes_of (text);
  return ollama_manifest_parse (json, error);
}

static void
test_layers (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OllamaManifest) manifest = parse (
    MANIFEST (LAYER ("license") "," LAYER ("model") "," LAYER ("prompt") "," EMPTY ("system") "," LAYER (
      "license") "," LAYER ("new") ",{\"mediaType\":null," DIGEST ",\"size\":0,\"from\":\"/x\",\"name\":7}"),
    &error);
  g_assert_no_error (error);
  g_assert_cmpuint (manifest->layers->len, ==, 7);
  g_assert_cmpuint (manifest->config.size_bytes, ==, 9);
  g_assert_cmpuint (ollama_manifest_count (manifest, OLLAMA_LICENSE), ==, 2);
  g_assert_cmpuint (ollama_manifest_count (manifest, OLLAMA_TEMPLATE), ==, 1);
  g_assert_cmpuint (ollama_manifest_count (manifest, OLLAMA_OTHER), ==, 2);
  g_assert_cmpuint (ollama_manifest_find (manifest, OLLAMA_MODEL, 0)->size_bytes, ==, 7);
  g_assert_null (ollama_manifest_find (manifest, OLLAMA_MODEL, 1));
  g_assert_null (ollama_manifest_find (manifest, OLLAMA_PROJECTOR, 0));
}

static const struct {
  const char *text, *says;
} bad[] = {
  { "", "not JSON" },
  { "<!DOCTYPE html><html></html>", "a web page" },
  { "  \n<html>", "a web page" },
  { "[]", "no JSON object" },
  { "\"x\"", "no JSON object" },
  { "{\"schemaVersion\":2", "not JSON" },
  { MANIFEST ("") "x", "not JSON" },
  { "{}", "schema version" },
  { "{\"schemaVersion\":1," CONFIG ",\"layers\":[]}", "schema version" },
  { "{\"schemaVersion\":\"2\"," CONFIG ",\"layers\":[]}", "schema version" },
  { "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\"," CONFIG ",\"layers\":[]}",
    "another kind" },
  { "{\"schemaVersion\":2,\"layers\":[]}", "lacks" },
  { "{\"schemaVersion\":2," CONFIG "}", "lacks" },
  { "{\"schemaVersion\":2," CONFIG ",\"layers\":{}}", "lacks" },
  { MANIFEST ("7"), "digest" },
  { MANIFEST ("{\"digest\":\"sha256-" HEX "\",\"size\":1}"), "digest" },
  { MANIFEST ("{\"digest\":\"sha256:44136FA355B3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\",\"size\":1}"),
    "digest" },
  { MANIFEST ("{\"digest\":\"sha256:../../../../etc/passwd\",\"size\":1}"), "digest" },
  { MANIFEST ("{\"digest\":\"sha256:../" HEX "\",\"size\":1}"), "digest" },
  { MANIFEST ("{\"digest\":\"sha512:" HEX HEX "\",\"size\":1}"), "digest" },
  { MANIFEST ("{\"digest\":\"" HEX "\",\"size\":1}"), "digest" },
  { MANIFEST ("{\"digest\":7,\"size\":1}"), "digest" },
  { MANIFEST ("{" DIGEST ",\"size\":-1}"), "size" },
  { MANIFEST ("{" DIGEST ",\"size\":\"1\"}"), "size" },
  { MANIFEST ("{" DIGEST ",\"size\":1.5}"), "size" },
  { MANIFEST ("{" DIGEST "}"), "size" },
  { MANIFEST ("{" DIGEST ",\"size\":9223372036854775808}"), "size" },
  { MANIFEST (EMPTY ("model")), "no bytes" },
  { MANIFEST (EMPTY ("projector")), "no bytes" },
};

static void
test_bad (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      g_test_message ("%s", bad[i].text);
      g_assert_null (parse (bad[i].text, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_cmpstr (am_error_reason (error), ==, "HubAnswer");
      g_assert_nonnull (strstr (error->message, bad[i].says));
    }
}

static void
test_limits (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) text = g_string_new ("{\"schemaVersion\":2," CONFIG ",\"layers\":[");
  for (guint i = 0; i < OLLAMA_MAX_LAYERS; i++)
    g_string_append (text, LAYER ("json") ",");
  g_string_append (text, LAYER ("json") "]}");
  g_assert_null (parse (text->str, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
  g_clear_error (&error);
  g_autofree char *blanks = g_strnfill (OLLAMA_MANIFEST_LIMIT_BYTES, ' ');
  g_autofree char *long_text = g_strconcat (MANIFEST (""), blanks, NULL);
  g_assert_null (parse (long_text, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
}

static const struct {
  const char *text, *format, *family, *parameters, *quantization, *remote_host;
} configs[] = {
  { "{}", NULL, NULL, NULL, NULL, NULL },
  { "{\"model_format\":\"gguf\",\"model_family\":\"qwen3\",\"model_families\":null,\"model_type\":\"751.63M\","
    "\"file_type\":\"Q4_K_M\"}",
    "gguf", "qwen3", "751.63M", "Q4_K_M", NULL },
  { "{\"model_family\":\"\",\"model_families\":[\"llama\",\"clip\"],\"file_type\":\"unknown\"}", NULL, "llama", NULL,
    NULL, NULL },
  { "{\"model_format\":null,\"model_type\":7,\"file_type\":[],\"model_families\":[null]}", NULL, NULL, NULL, NULL,
    NULL },
  { "{\"model_family\":\"a b\",\"model_type\":\"\\u001b[2J\",\"file_type\":\"\\u00e9\"}", NULL, NULL, NULL, NULL,
    NULL },
  { "{\"remote_host\":\"https://ollama.com:443\",\"remote_model\":\"x\"}", NULL, NULL, NULL, NULL,
    "https://ollama.com:443" },
};

static void
test_config (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (configs); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (OllamaConfig) config = { 0 };
      g_autoptr (GBytes) json = text_bytes_of (configs[i].text);
      g_test_message ("%s", configs[i].text);
      g_assert_true (ollama_config_parse (json, &config, &error));
      g_assert_cmpstr (config.format, ==, configs[i].format);
      g_assert_cmpstr (config.family, ==, configs[i].family);
      g_assert_cmpstr (config.parameter_text, ==, configs[i].parameters);
      g_assert_cmpstr (config.quantization, ==, configs[i].quantization);
      g_assert_cmpstr (config.remote_host, ==, configs[i].remote_host);
    }
}

static const struct {
  const char *text;
  guint64 context; /* G_MAXUINT64: refused */
} params[] = {
  { "{}", 0 },
  { "{\"num_ctx\":8192,\"stop\":[\"a\"]}", 8192 },
  { "{\"num_ctx\":4096.0}", 4096 },
  { "{\"num_ctx\":-1}", 0 },
  { "{\"num_ctx\":0}", 0 },
  { "{\"num_ctx\":1e300}", 0 },
  { "{\"num_ctx\":\"8192\"}", 0 },
  { "{\"num_ctx\":null}", 0 },
  { "[]", G_MAXUINT64 },
  { "{", G_MAXUINT64 },
};

static void
test_params (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (params); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) json = text_bytes_of (params[i].text);
      guint64 context = G_MAXUINT64;
      g_test_message ("%s", params[i].text);
      g_assert_true (ollama_params_parse (json, &context, &error) == (params[i].context != G_MAXUINT64));
      g_assert_cmpuint (context, ==, params[i].context);
    }
}

static const struct {
  const char *text, *name;
} licenses[] = {
  { "                                 Apache License\n                           Version 2.0, January 2004\n",
    "apache-2.0" },
  { "MIT License\n\nCopyright (c) 2025", "mit" },
  { "Copyright 2023\n\nPermission is hereby granted, free of charge, to any person obtaining a copy of this software and "
    "associated documentation files, to deal in the Software without restriction",
    "mit" },
  { "META LLAMA 3 COMMUNITY LICENSE AGREEMENT\nMeta Llama 3 Version Release Date: April 18, 2024", "llama3" },
  { "LLAMA 3.1 COMMUNITY LICENSE AGREEMENT\nLlama 3.1 Version", "llama3.1" },
  { "Gemma Terms of Use \n\nLast modified: February 21, 2024", "gemma" },
  { "GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3, 19 November 2007 (see the GNU General Public License)",
    "agpl-3.0" },
  { "Tongyi Qianwen LICENSE AGREEMENT", NULL },
  { "", NULL },
};

static void
test_license (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (licenses); i++)
    {
      g_autoptr (GBytes) text = text_bytes_of (licenses[i].text);
      g_assert_cmpstr (ollama_license_name (text), ==, licenses[i].name);
    }
}

/* The paths of what is a file of the model, with blanks between; or the error's reason. Caller frees. */
static char *
name_files (const char *layers, const char *quantization, const char *format, const char *remote_host, GError **error)
{
  OllamaUrl url = { (char *) "library", (char *) "tiny", (char *) "8b" };
  OllamaConfig config = { .format = (char *) format,
                          .quantization = (char *) quantization,
                          .remote_host = (char *) remote_host };
  g_autofree char *text = g_strdup_printf ("{\"schemaVersion\":2," CONFIG ",\"layers\":[%s]}", layers);
  g_autoptr (OllamaManifest) manifest = parse (text, NULL);
  g_autoptr (GArray) files = ollama_files_new (&url, manifest, &config, error);
  g_autoptr (GString) names = g_string_new ("");
  for (guint i = 0; files != NULL && i < files->len; i++)
    {
      const OllamaFile *file = &g_array_index (files, OllamaFile, i);
      g_string_append_printf (names, "%s%s%s", i > 0 ? " " : "", file->left_out != NULL ? "-" : "", file->path);
    }
  return g_string_free (g_steal_pointer (&names), FALSE);
}

static const struct {
  const char *layers, *quantization, *names;
} namings[] = {
  { LAYER ("model"), "Q4_K_M", "tiny-8b-q4_k_m.gguf" },
  { LAYER ("model"), NULL, "tiny-8b.gguf" },
  { LAYER ("model"), "a/../b:c", "tiny-8b-a-..-b-c.gguf" },
  { LAYER ("license") "," LAYER ("model") "," LAYER ("license") "," EMPTY ("system") "," LAYER ("params"), "F16",
    "tiny-8b-f16.gguf -LICENSE -LICENSE.2 -ollama/system -ollama/params.json" },
  { LAYER ("model") "," LAYER ("model"), "F16", "tiny-8b-f16-00001-of-00002.gguf tiny-8b-f16-00002-of-00002.gguf" },
  { LAYER ("projector") "," LAYER ("model") "," LAYER ("projector") "," LAYER ("adapter"), NULL,
    "tiny-8b.gguf mmproj.gguf mmproj-2.gguf adapter.gguf" },
  { LAYER ("model") "," LAYER ("draft") "," LAYER ("template") "," LAYER ("messages") "," LAYER ("new"), NULL,
    "tiny-8b.gguf -draft.gguf -ollama/template -ollama/messages.json -ollama/other" },
};

static void
test_files (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (namings); i++)
    {
      g_autofree char *names = name_files (namings[i].layers, namings[i].quantization, "gguf", NULL, NULL);
      g_assert_cmpstr (names, ==, namings[i].names);
    }
}

static const struct {
  const char *layers, *format, *remote_host, *says;
} unusable[] = {
  { "", "gguf", "https://ollama.com:443", "runs at https://ollama.com:443" },
  { LAYER ("tensor") "," LAYER ("json"), "safetensors", NULL, "tensor by tensor" },
  { LAYER ("model"), "ggml", NULL, "format is ggml" },
  { LAYER ("model"), "safetensors", NULL, "format is safetensors" },
  { LAYER ("model"), NULL, NULL, "not stated" },
  { LAYER ("projector"), "gguf", NULL, "no file with its weights" },
};

static void
test_unusable (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (unusable); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *names = name_files (unusable[i].layers, NULL, unusable[i].format, unusable[i].remote_host,
                                           &error);
      g_assert_cmpstr (am_error_reason (error), ==, "UnsupportedFormat");
      g_assert_nonnull (strstr (error->message, unusable[i].says));
      g_assert_cmpstr (names, ==, "");
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ollama_manifest/layers", test_layers);
  g_test_add_func ("/ollama_manifest/bad", test_bad);
  g_test_add_func ("/ollama_manifest/limits", test_limits);
  g_test_add_func ("/ollama_manifest/config", test_config);
  g_test_add_func ("/ollama_manifest/params", test_params);
  g_test_add_func ("/ollama_manifest/license", test_license);
  g_test_add_func ("/ollama_manifest/files", test_files);
  g_test_add_func ("/ollama_manifest/unusable", test_unusable);
  return g_test_run ();
}
