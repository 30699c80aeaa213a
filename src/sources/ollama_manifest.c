#include "sources/ollama_manifest.h"

#include <string.h>

#include "base/json.h"

#define MEDIA_TYPE "application/vnd.ollama.image."
#define SHORT_TEXT_MAX_BYTES 64u

static const struct {
  const char *suffix; /* of the media type */
  OllamaLayerKind kind;
  gboolean may_be_empty;
} kinds[] = {
  { "model", OLLAMA_MODEL, FALSE },      { "projector", OLLAMA_PROJECTOR, FALSE },
  { "adapter", OLLAMA_ADAPTER, FALSE },  { "draft", OLLAMA_DRAFT, FALSE },
  { "template", OLLAMA_TEMPLATE, TRUE }, { "prompt", OLLAMA_TEMPLATE, TRUE },
  { "system", OLLAMA_SYSTEM, TRUE },     { "params", OLLAMA_PARAMS, TRUE },
  { "messages", OLLAMA_MESSAGES, TRUE }, { "license", OLLAMA_LICENSE, TRUE },
  { "tensor", OLLAMA_TENSOR, FALSE },    { "json", OLLAMA_JSON, TRUE },
};

static const char *const manifest_types[] = {
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  NULL,
};

static gboolean
fail_answer (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "the registry's answer is not understood: %s", what);
}

/* An object in a document of its own; what a browser would get in its place is told apart. */
static yyjson_doc *
parse_object (GBytes *json, gsize limit_bytes, const char *what, GError **error)
{
  gsize size;
  const char *data = g_bytes_get_data (json, &size);
  g_autoptr (GError) problem = NULL;
  g_autoptr (yyjson_doc) doc = json_parse (data, size, limit_bytes, JSON_STRICT, &problem);
  gsize at = 0;
  while (at < size && g_ascii_isspace (data[at]))
    at++;
  if (doc == NULL && at < size && data[at] == '<')
    fail_answer (error, "a web page came, is this the registry's address?");
  else if (doc == NULL && am_error_is (problem, AM_ERROR_RESOURCE_EXHAUSTED))
    g_propagate_prefixed_error (error, g_steal_pointer (&problem), "the registry's %s: ", what);
  else if (doc == NULL)
    am_fail (error, AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "the registry's %s is not JSON: %s", what,
             problem->message);
  else if (!yyjson_is_obj (yyjson_doc_get_root (doc)))
    am_fail (error, AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "the registry's %s is no JSON object", what);
  else
    return g_steal_pointer (&doc);
  return NULL;
}

static void
tell_kind (const char *media_type, OllamaLayer *layer, gboolean *out_may_be_empty)
{
  layer->kind = OLLAMA_OTHER;
  *out_may_be_empty = TRUE;
  if (media_type == NULL || !g_str_has_prefix (media_type, MEDIA_TYPE))
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (strcmp (media_type + strlen (MEDIA_TYPE), kinds[i].suffix) == 0)
      {
        layer->kind = kinds[i].kind;
        *out_may_be_empty = kinds[i].may_be_empty;
      }
}

/* A digest becomes a part of addresses: nothing but its one form (CVE-2024-37032). */
static gboolean
read_descriptor (yyjson_val *object, gboolean may_be_empty, OllamaLayer *out_layer, GError **error)
{
  const char *digest = json_get_string (object, "digest");
  yyjson_val *size = yyjson_obj_get (object, "size");
  if (digest == NULL || !digest_parse (digest, &out_layer->digest, NULL)
      || out_layer->digest.algorithm != DIGEST_SHA256)
    return fail_answer (error, "a digest is not \"sha256:\" and 64 lower-case hex digits");
  if (!yyjson_is_uint (size) || yyjson_get_uint (size) > G_MAXINT64)
    return fail_answer (error, "a size is no size");
  out_layer->size_bytes = yyjson_get_uint (size);
  return may_be_empty || out_layer->size_bytes > 0 || fail_answer (error, "a part that cannot be empty has no bytes");
}

static gboolean
read_layers (yyjson_val *array, OllamaManifest *self, GError **error)
{
  yyjson_val *item;
  gsize i, n;
  if (yyjson_arr_size (array) > OLLAMA_MAX_LAYERS)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "the model has more than %u layers", OLLAMA_MAX_LAYERS);
  yyjson_arr_foreach (array, i, n, item)
  {
    OllamaLayer layer = { 0 };
    gboolean may_be_empty;
    tell_kind (json_get_string (item, "mediaType"), &layer, &may_be_empty);
    if (!read_descriptor (item, may_be_empty, &layer, error))
      return FALSE;
    g_array_append_val (self->layers, layer);
  }
  return TRUE;
}

OllamaManifest *
ollama_manifest_parse (GBytes *json, GError **error)
{
  g_autoptr (yyjson_doc) doc = parse_object (json, OLLAMA_MANIFEST_LIMIT_BYTES, "manifest", error);
  if (doc == NULL)
    return NULL;
  yyjson_val *root = yyjson_doc_get_root (doc), *config = json_get_object (root, "config");
  yyjson_val *layers = json_get_array (root, "layers");
  const char *type = json_get_string (root, "mediaType");
  g_autoptr (OllamaManifest) self = g_new0 (OllamaManifest, 1);
  self->layers = g_array_new (FALSE, FALSE, sizeof (OllamaLayer));
  gboolean ok = FALSE;
  if (yyjson_get_uint (yyjson_obj_get (root, "schemaVersion")) != 2)
    fail_answer (error, "it is no manifest of schema version 2");
  else if (type != NULL && *type != '\0' && !g_strv_contains (manifest_types, type))
    fail_answer (error, "it is another kind of manifest than a model has");
  else if (config == NULL || layers == NULL)
    fail_answer (error, "the manifest lacks its config or its layers");
  else
    ok = read_descriptor (config, FALSE, &self->config, error) && read_layers (layers, self, error);
  return ok ? g_steal_pointer (&self) : NULL;
}

void
ollama_manifest_free (OllamaManifest *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->layers);
  g_free (self);
}

guint
ollama_manifest_count (const OllamaManifest *self, OllamaLayerKind kind)
{
  guint n = 0;
  for (guint i = 0; i < self->layers->len; i++)
    n += g_array_index (self->layers, OllamaLayer, i).kind == kind;
  return n;
}

const OllamaLayer *
ollama_manifest_find (const OllamaManifest *self, OllamaLayerKind kind, guint n)
{
  for (guint i = 0; i < self->layers->len; i++)
    {
      const OllamaLayer *layer = &g_array_index (self->layers, OllamaLayer, i);
      if (layer->kind == kind && n-- == 0)
        return layer;
    }
  return NULL;
}

/* What is no short text of letters, digits and signs is not known. Caller frees. */
static char *
plain_text (const char *text)
{
  gsize size = text != NULL ? strlen (text) : 0;
  if (size == 0 || size > SHORT_TEXT_MAX_BYTES)
    return NULL;
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isgraph (text[i]))
      return NULL;
  return g_strdup (text);
}

gboolean
ollama_config_parse (GBytes *json, OllamaConfig *out_config, GError **error)
{
  g_autoptr (yyjson_doc) doc = parse_object (json, OLLAMA_CONFIG_LIMIT_BYTES, "config", error);
  if (doc == NULL)
    return FALSE;
  yyjson_val *root = yyjson_doc_get_root (doc);
  const char *family = json_get_string (root, "model_family"), *quantization = json_get_string (root, "file_type");
  if (family == NULL || *family == '\0')
    family = yyjson_get_str (yyjson_arr_get_first (json_get_array (root, "model_families")));
  if (quantization != NULL && g_ascii_strcasecmp (quantization, "unknown") == 0)
    quantization = NULL;
  *out_config = (OllamaConfig){
    .format = plain_text (json_get_string (root, "model_format")),
    .family = plain_text (family),
    .parameter_text = plain_text (json_get_string (root, "model_type")),
    .quantization = plain_text (quantization),
    .remote_host = plain_text (json_get_string (root, "remote_host")),
  };
  return TRUE;
}

void
ollama_config_clear (OllamaConfig *self)
{
  g_clear_pointer (&self->format, g_free);
  g_clear_pointer (&self->family, g_free);
  g_clear_pointer (&self->parameter_text, g_free);
  g_clear_pointer (&self->quantization, g_free);
  g_clear_pointer (&self->remote_host, g_free);
}

gboolean
ollama_params_parse (GBytes *json, guint64 *out_context_tokens, GError **error)
{
  g_autoptr (yyjson_doc) doc = parse_object (json, OLLAMA_TEXT_LIMIT_BYTES, "parameters", error);
  if (doc == NULL)
    return FALSE;
  yyjson_val *value = yyjson_obj_get (yyjson_doc_get_root (doc), "num_ctx");
  double number = yyjson_get_num (value); /* some write 4096.0 */
  *out_context_tokens = number >= 1 && number <= 1e15 ? (guint64) number : 0;
  return TRUE;
}
