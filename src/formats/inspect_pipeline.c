#include <string.h>

#include "formats/format_error.h"
#include "formats/model_inspector_private.h"

static gboolean
has_weights (const ModelInspector *self, const char *folder)
{
  for (guint i = 0; i < self->weights->len; i++)
    {
      const WeightFile *file = &g_array_index (self->weights, WeightFile, i);
      if (g_str_has_prefix (file->path, folder) && !file->is_extra)
        return TRUE;
    }
  return FALSE;
}

static gboolean
check_components (const ModelInspector *self, GError **error)
{
  g_autoptr (GString) missing = g_string_new (NULL);
  for (guint i = 0; i < self->pipeline->components->len; i++)
    {
      const DiffusersComponent *component = &g_array_index (self->pipeline->components, DiffusersComponent, i);
      g_autofree char *folder = g_strconcat (component->name, "/", NULL);
      if (component->kind == DIFFUSERS_MODEL && !has_weights (self, folder))
        g_string_append_printf (missing, "%s%s", missing->len > 0 ? ", " : "", component->name);
    }
  return missing->len == 0
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PipelineIncomplete",
                     "these parts of the pipeline have no weights: %s", missing->str);
}

static void
read_parameters (ModelInspector *self)
{
  ModelFacts *facts = self->facts;
  const DiffusersComponent *denoiser = diffusers_index_denoiser (self->pipeline);
  g_autofree char *folder = denoiser != NULL ? g_strconcat (denoiser->name, "/", NULL) : g_strdup ("");
  const char *precision, *ignored;
  gboolean is_exact, all_exact;
  guint64 n;
  inspect_count_parameters (self, "", &facts->n_parameters_in_all, &all_exact, &ignored);
  if (!inspect_count_parameters (self, folder, &n, &is_exact, &precision) || n == 0)
    return;
  facts->n_parameters = n;
  facts->parameters_origin = is_exact ? FACT_READ : FACT_GUESSED;
  facts->precision = g_strdup (precision);
}

gboolean
inspect_pipeline (ModelInspector *self, GError **error)
{
  if (self->pipeline == NULL)
    return format_fail (error, "model_index.json is missing");
  if (!inspect_check_shards (self, error) || !check_components (self, error))
    return FALSE;
  self->facts->architecture = g_strdup (self->pipeline->class_name);
  self->facts->n_models = 1;
  read_parameters (self);
  return TRUE;
}
