#include "formats/model_facts.h"

#include <string.h>

#define MAX_WARNINGS 32
#define MAX_NAME_BYTES 256

static const char *const format_names[MODEL_FORMAT_N][2] = {
  [MODEL_FORMAT_SAFETENSORS] = { "Safetensors", "safetensors" },
  [MODEL_FORMAT_GGUF] = { "GGUF", "gguf" },
  [MODEL_FORMAT_DIFFUSERS] = { "Diffusers", "diffusers" },
};

const char *
model_format_name (ModelFormat format)
{
  g_assert (format < MODEL_FORMAT_N);
  return format_names[format][0];
}

const char *
model_format_lower_name (ModelFormat format)
{
  g_assert (format < MODEL_FORMAT_N);
  return format_names[format][1];
}

gboolean
model_format_parse (const char *text, ModelFormat *out_format)
{
  for (guint i = 0; i < MODEL_FORMAT_N; i++)
    if (strcmp (text, format_names[i][0]) == 0 || strcmp (text, format_names[i][1]) == 0)
      {
        *out_format = (ModelFormat) i;
        return TRUE;
      }
  return FALSE;
}

ModelFacts *
model_facts_new (ModelFormat format)
{
  ModelFacts *self = g_new0 (ModelFacts, 1);
  self->format = format;
  self->warnings = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
model_facts_free (ModelFacts *self)
{
  if (self == NULL)
    return;
  g_free (self->architecture);
  g_free (self->model_type);
  g_free (self->text_model_type);
  g_free (self->name);
  g_free (self->weights_stem);
  g_free (self->context_source);
  g_free (self->quantization);
  g_free (self->declared_dtype);
  g_free (self->precision);
  g_ptr_array_unref (self->warnings);
  g_free (self);
}

char *
model_facts_text (const char *text)
{
  gsize size = text != NULL ? strlen (text) : 0;
  if (size == 0 || size > MAX_NAME_BYTES || !g_utf8_validate_len (text, size, NULL))
    return NULL;
  for (gsize i = 0; i < size; i++)
    if (g_ascii_iscntrl (text[i]))
      return NULL;
  return g_strdup (text);
}

void
model_facts_warn (ModelFacts *self, const char *format, ...)
{
  va_list args;
  if (self->warnings->len == MAX_WARNINGS)
    return;
  va_start (args, format);
  g_ptr_array_add (self->warnings, g_strdup_vprintf (format, args));
  va_end (args);
}
