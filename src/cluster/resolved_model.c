#include "cluster/resolved_model.h"

#include <string.h>

#define MAX_TEXT_BYTES 256u
#define MAX_SOURCE_WORD_BYTES 128u

static const char *const endpoint_words[] = { "Chat",
                                              "TextGeneration",
                                              "Embeddings",
                                              "Rerank",
                                              "SpeechToText",
                                              "TextToSpeech",
                                              "Translation",
                                              "ImageClassification",
                                              "ObjectDetection",
                                              "ImageSegmentation",
                                              "ImageToText",
                                              "VisualQuestionAnswering",
                                              "ImageGeneration",
                                              "VideoGeneration",
                                              "AudioGeneration",
                                              NULL };
static const char *const feature_words[] = { "VisionInput",     "AudioInput",  "AudioOutput",
                                             "ImageOutput",     "VideoInput",  "VideoOutput",
                                             "MultiModalInput", "ToolCalling", NULL };
static const char *const providers[] = { "HuggingFace", "Ollama", "Upload", "Catalog", NULL };

static const JsonField own_fields[] = {
  JSON_FIELD (ResolvedModel, format, "format", JSON_STRING, TRUE),
  JSON_FIELD (ResolvedModel, family, "family", JSON_STRING, FALSE),
  JSON_FIELD (ResolvedModel, architecture, "architecture", JSON_STRING, FALSE),
  JSON_FIELD (ResolvedModel, parameter_count, "parameterCount", JSON_UINT64, FALSE),
  JSON_FIELD (ResolvedModel, quantization, "quantization", JSON_STRING, FALSE),
  JSON_FIELD (ResolvedModel, context_window_tokens, "contextWindowTokens", JSON_UINT64, FALSE),
  JSON_FIELD (ResolvedModel, endpoint_types, "supportedEndpointTypes", JSON_STRINGS, FALSE),
  JSON_FIELD (ResolvedModel, features, "supportedFeatures", JSON_STRINGS, FALSE),
};

static const JsonField source_fields[] = {
  JSON_FIELD (ResolvedModel, provider, "provider", JSON_STRING, FALSE),
  JSON_FIELD (ResolvedModel, source_tasks, "tasks", JSON_STRINGS, FALSE),
  JSON_FIELD (ResolvedModel, source_features, "features", JSON_STRINGS, FALSE),
};

gboolean
resolved_model_has_provider (const char *provider)
{
  return provider != NULL && g_strv_contains (providers, provider);
}

void
resolved_model_clear (ResolvedModel *self)
{
  json_clear (own_fields, G_N_ELEMENTS (own_fields), self);
  json_clear (source_fields, G_N_ELEMENTS (source_fields), self);
  memset (self, 0, sizeof *self);
}

/* Leaves at most `max_words` different ones, those of `known` (NULL: any that is short enough); an empty list goes. */
static void
tidy_words (GPtrArray **words, const char *const *known, guint max_words)
{
  g_autoptr (GPtrArray) good = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; *words != NULL && i < (*words)->len && good->len < max_words; i++)
    {
      const char *word = g_ptr_array_index (*words, i);
      gsize size = strlen (word);
      gboolean fits = known != NULL ? g_strv_contains (known, word) : size > 0 && size <= MAX_SOURCE_WORD_BYTES;
      if (fits && !g_ptr_array_find_with_equal_func (good, word, g_str_equal, NULL))
        g_ptr_array_add (good, g_strdup (word));
    }
  g_clear_pointer (words, g_ptr_array_unref);
  if (good->len > 0)
    *words = g_steal_pointer (&good);
}

static void
tidy_text (char **text)
{
  if (*text != NULL && (**text == '\0' || strlen (*text) > MAX_TEXT_BYTES))
    g_clear_pointer (text, g_free);
}

static void
tidy (ResolvedModel *self)
{
  tidy_text (&self->family);
  tidy_text (&self->architecture);
  tidy_text (&self->quantization);
  self->parameter_count = self->parameter_count <= G_MAXINT64 ? self->parameter_count : 0;
  self->context_window_tokens = self->context_window_tokens <= G_MAXINT64 ? self->context_window_tokens : 0;
  tidy_words (&self->endpoint_types, endpoint_words, RESOLVED_MODEL_MAX_WORDS);
  tidy_words (&self->features, feature_words, RESOLVED_MODEL_MAX_WORDS);
  tidy_words (&self->source_tasks, NULL, RESOLVED_MODEL_MAX_SOURCE_WORDS);
  tidy_words (&self->source_features, NULL, RESOLVED_MODEL_MAX_SOURCE_WORDS);
  if (!resolved_model_has_provider (self->provider))
    g_clear_pointer (&self->provider, g_free);
}

static char *
public_text (const char *text, Confidence confidence)
{
  return confidence_is_public (confidence) ? g_strdup (text) : NULL;
}

void
resolved_model_of_profile (const ModelProfile *profile, const char *provider, ResolvedModel *out_model)
{
  *out_model = (ResolvedModel){
    .format = g_strdup (model_format_name (profile->format)),
    .family = public_text (profile->family, profile->family_confidence),
    .architecture = public_text (profile->architecture, profile->architecture_confidence),
    .quantization = public_text (profile->quantization, profile->quantization_confidence),
    .parameter_count = confidence_is_public (profile->parameter_confidence) ? profile->parameter_count : 0,
    .context_window_tokens = confidence_is_public (profile->context_confidence) ? profile->context_tokens : 0,
    .endpoint_types = g_ptr_array_ref (profile->endpoints),
    .features = g_ptr_array_ref (profile->features),
    .provider = g_strdup (provider),
    .source_tasks = g_ptr_array_ref (profile->source_tasks),
  };
  tidy (out_model);
}

static gboolean
bind (yyjson_val *object, ResolvedModel *model, GError **error)
{
  ModelFormat format;
  yyjson_val *source = yyjson_obj_get (object, "sourceCapabilities");
  if (!json_bind (object, own_fields, G_N_ELEMENTS (own_fields), model, error)
      || (source != NULL && !json_bind (source, source_fields, G_N_ELEMENTS (source_fields), model, error)))
    return FALSE;
  if (!model_format_parse (model->format, &format) || strcmp (model->format, model_format_name (format)) != 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"format\" is none that we know");
  return TRUE;
}

gboolean
resolved_model_parse (yyjson_val *object, ResolvedModel *out_model, GError **error)
{
  ResolvedModel model = { 0 };
  if (!bind (object, &model, error))
    {
      resolved_model_clear (&model);
      return FALSE;
    }
  tidy (&model);
  *out_model = model;
  return TRUE;
}

void
resolved_model_add (const ResolvedModel *self, yyjson_mut_doc *doc, yyjson_mut_val *object)
{
  json_unbind (doc, object, own_fields, G_N_ELEMENTS (own_fields), self);
  if (self->provider != NULL || self->source_tasks != NULL || self->source_features != NULL)
    json_unbind (doc, yyjson_mut_obj_add_obj (doc, object, "sourceCapabilities"), source_fields,
                 G_N_ELEMENTS (source_fields), self);
}

static gboolean
drop_last (GPtrArray **words)
{
  if (*words == NULL)
    return FALSE;
  g_ptr_array_set_size (*words, (gint) (*words)->len - 1);
  if ((*words)->len == 0)
    g_clear_pointer (words, g_ptr_array_unref);
  return TRUE;
}

gboolean
resolved_model_shorten (ResolvedModel *self)
{
  char **texts[] = { &self->quantization, &self->architecture, &self->family };
  if (drop_last (&self->source_features) || drop_last (&self->source_tasks))
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    if (*texts[i] != NULL)
      {
        g_clear_pointer (texts[i], g_free);
        return TRUE;
      }
  return drop_last (&self->features) || drop_last (&self->endpoint_types);
}
