#include "oci/modelpack_config.h"

#include <string.h>

#define CONFIG_MAX_BYTES (4u << 20)
#define FACT(member, name, type) JSON_FIELD (ModelpackFacts, member, name, type, FALSE)

const JsonField modelpack_descriptor_fields[] = {
  FACT (authors, "authors", JSON_STRINGS),
  FACT (created_at, "createdAt", JSON_STRING),
  FACT (datasets_urls, "datasetsURL", JSON_STRINGS),
  FACT (description, "description", JSON_STRING),
  FACT (doc_url, "docURL", JSON_STRING),
  FACT (family, "family", JSON_STRING),
  FACT (licenses, "licenses", JSON_STRINGS),
  FACT (name, "name", JSON_STRING),
  FACT (revision, "revision", JSON_STRING),
  FACT (source_url, "sourceURL", JSON_STRING),
  FACT (title, "title", JSON_STRING),
  FACT (vendor, "vendor", JSON_STRING),
  FACT (version, "version", JSON_STRING),
};
const gsize modelpack_n_descriptor_fields = G_N_ELEMENTS (modelpack_descriptor_fields);

const JsonField modelpack_capability_fields[] = {
  FACT (input_types, "inputTypes", JSON_STRINGS), FACT (knowledge_cutoff, "knowledgeCutoff", JSON_STRING),
  FACT (languages, "languages", JSON_STRINGS),    FACT (output_types, "outputTypes", JSON_STRINGS),
  FACT (reasoning, "reasoning", JSON_BOOL),       FACT (reward, "reward", JSON_BOOL),
  FACT (tool_usage, "toolUsage", JSON_BOOL),
};
const gsize modelpack_n_capability_fields = G_N_ELEMENTS (modelpack_capability_fields);

const JsonField modelpack_config_fields[] = {
  FACT (architecture, "architecture", JSON_STRING), FACT (format, "format", JSON_STRING),
  FACT (param_size, "paramSize", JSON_STRING),      FACT (precision, "precision", JSON_STRING),
  FACT (quantization, "quantization", JSON_STRING),
};
const gsize modelpack_n_config_fields = G_N_ELEMENTS (modelpack_config_fields);

static const JsonField modelfs_fields[] = {
  FACT (diff_ids, "diffIds", JSON_STRINGS),
};

static const char *const precisions[] = { "float64",     "float32",   "float16",   "bfloat16",   "float8_e4m3",
                                          "float8_e5m2", "complex32", "complex64", "complex128", "int8",
                                          "int16",       "int32",     "int64",     "uint8",      "uint16",
                                          "uint32",      "uint64",    "bool",      NULL };
static const char *const modalities[] = { "text", "image", "audio", "video", "embedding", "other", NULL };

void
modelpack_facts_clear (ModelpackFacts *self)
{
  json_clear (modelpack_descriptor_fields, modelpack_n_descriptor_fields, self);
  json_clear (modelpack_capability_fields, modelpack_n_capability_fields, self);
  json_clear (modelpack_config_fields, modelpack_n_config_fields, self);
  json_clear (modelfs_fields, G_N_ELEMENTS (modelfs_fields), self);
}

/* Each member alone: one of a wrong type is as good as absent. */
static void
bind_leniently (yyjson_val *object, const JsonField *fields, gsize n_fields, ModelpackFacts *out)
{
  for (gsize i = 0; object != NULL && i < n_fields; i++)
    {
      g_autoptr (GError) problem = NULL;
      if (!json_bind (object, &fields[i], 1, out, &problem))
        am_ignore (&problem, "config of a model is read leniently");
    }
}

gboolean
modelpack_read_config (GBytes *bytes, ModelpackFacts *out_facts, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  g_autoptr (GError) cause = NULL;
  g_autoptr (yyjson_doc) doc = json_parse (data, size, CONFIG_MAX_BYTES, JSON_STRICT, &cause);
  yyjson_val *root = doc == NULL ? NULL : yyjson_doc_get_root (doc);
  if (!yyjson_is_obj (root))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ManifestInvalid", "the model's config is no JSON object%s%s",
                    cause != NULL ? ": " : "", cause != NULL ? cause->message : "");
  memset (out_facts, 0, sizeof *out_facts);
  yyjson_val *config = json_get_object (root, "config");
  bind_leniently (json_get_object (root, "descriptor"), modelpack_descriptor_fields, modelpack_n_descriptor_fields,
                  out_facts);
  bind_leniently (config, modelpack_config_fields, modelpack_n_config_fields, out_facts);
  if (config != NULL)
    bind_leniently (json_get_object (config, "capabilities"), modelpack_capability_fields,
                    modelpack_n_capability_fields, out_facts);
  bind_leniently (json_get_object (root, "modelfs"), modelfs_fields, G_N_ELEMENTS (modelfs_fields), out_facts);
  return TRUE;
}

static gboolean
is_modality (const char *value)
{
  return g_strv_contains (modalities, value);
}

static gboolean
is_language (const char *value)
{
  return strlen (value) == 2 && g_ascii_islower (value[0]) && g_ascii_islower (value[1]);
}

static gboolean
is_not_empty (const char *value)
{
  return *value != '\0';
}

/* A new array of the fitting values, or NULL when none is left. */
static GPtrArray *
only (GPtrArray *values, gboolean (*fits) (const char *value))
{
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; values != NULL && i < values->len; i++)
    if (fits (g_ptr_array_index (values, i)))
      g_ptr_array_add (kept, g_strdup (g_ptr_array_index (values, i)));
  return kept->len == 0 ? NULL : g_steal_pointer (&kept);
}

static char *
text_or_null (const char *text)
{
  return text == NULL || *text == '\0' ? NULL : g_strdup (text);
}

/* Nothing secret may end in an artifact: scheme, host, port and path are kept. */
static char *
public_url (const char *text)
{
  g_autoptr (GUri) uri = text == NULL ? NULL : g_uri_parse (text, G_URI_FLAGS_ENCODED, NULL);
  if (uri == NULL || g_uri_get_host (uri) == NULL)
    return NULL;
  return g_uri_join (G_URI_FLAGS_ENCODED, g_uri_get_scheme (uri), NULL, g_uri_get_host (uri), g_uri_get_port (uri),
                     g_uri_get_path (uri), NULL, NULL);
}

static GPtrArray *
public_urls (GPtrArray *urls)
{
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; urls != NULL && i < urls->len; i++)
    {
      char *url = public_url (g_ptr_array_index (urls, i));
      if (url != NULL)
        g_ptr_array_add (kept, url);
    }
  return kept->len == 0 ? NULL : g_steal_pointer (&kept);
}

/* Listed names stay; others say how the model is quantized, if nothing else does. */
static void
settle_precision (ModelpackFacts *clean, const ModelpackFacts *facts)
{
  g_autoptr (GString) listed = g_string_new (NULL);
  g_autoptr (GString) others = g_string_new (NULL);
  g_auto (GStrv) names = g_strsplit (facts->precision == NULL ? "" : facts->precision, ",", -1);
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_strstrip (names[i]);
      GString *into = g_strv_contains (precisions, names[i]) ? listed : others;
      if (*names[i] != '\0')
        g_string_append_printf (into, "%s%s", into->len > 0 ? "," : "", names[i]);
    }
  clean->precision = text_or_null (listed->str);
  clean->quantization = text_or_null (facts->quantization);
  if (clean->quantization == NULL)
    clean->quantization = text_or_null (others->str);
}

static void
clean_facts (const ModelpackFacts *facts, ModelpackFacts *clean)
{
  clean->name = text_or_null (facts->name);
  clean->family = text_or_null (facts->family);
  clean->title = text_or_null (facts->title);
  clean->description = text_or_null (facts->description);
  clean->vendor = text_or_null (facts->vendor);
  clean->version = text_or_null (facts->version);
  clean->revision = text_or_null (facts->revision);
  clean->doc_url = public_url (facts->doc_url);
  clean->source_url = public_url (facts->source_url);
  clean->authors = only (facts->authors, is_not_empty);
  clean->licenses = only (facts->licenses, is_not_empty);
  clean->datasets_urls = public_urls (facts->datasets_urls);
  clean->architecture = text_or_null (facts->architecture);
  clean->format = text_or_null (facts->format);
  clean->param_size = text_or_null (facts->param_size);
  settle_precision (clean, facts);
  clean->input_types = only (facts->input_types, is_modality);
  clean->output_types = only (facts->output_types, is_modality);
  clean->languages = only (facts->languages, is_language);
  clean->knowledge_cutoff = text_or_null (facts->knowledge_cutoff);
  clean->reasoning = facts->reasoning;
  clean->tool_usage = facts->tool_usage;
  clean->reward = facts->reward;
}

GBytes *
modelpack_write_config (const ModelpackFacts *facts, const Digest *diff_ids, gsize n_diff_ids)
{
  g_auto (ModelpackFacts) clean = { 0 };
  clean_facts (facts, &clean);
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *config = yyjson_mut_obj_add_obj (doc, root, "config");
  json_unbind (doc, config, modelpack_config_fields, 1, &clean);
  yyjson_mut_val *capabilities = yyjson_mut_obj (doc);
  json_unbind (doc, capabilities, modelpack_capability_fields, modelpack_n_capability_fields, &clean);
  if (yyjson_mut_obj_size (capabilities) > 0)
    yyjson_mut_obj_add_val (doc, config, "capabilities", capabilities);
  json_unbind (doc, config, modelpack_config_fields + 1, modelpack_n_config_fields - 1, &clean);
  yyjson_mut_val *descriptor = yyjson_mut_obj_add_obj (doc, root, "descriptor");
  json_unbind (doc, descriptor, modelpack_descriptor_fields, modelpack_n_descriptor_fields, &clean);
  yyjson_mut_val *modelfs = yyjson_mut_obj_add_obj (doc, root, "modelfs");
  yyjson_mut_val *ids = yyjson_mut_obj_add_arr (doc, modelfs, "diffIds");
  for (gsize i = 0; i < n_diff_ids; i++)
    {
      char text[DIGEST_STRING_SIZE];
      yyjson_mut_arr_add_strcpy (doc, ids, digest_format (&diff_ids[i], text));
    }
  yyjson_mut_obj_add_str (doc, modelfs, "type", "layers");
  gsize size = 0;
  char *text = json_write (doc, &size);
  return g_bytes_new_take (text, size);
}
