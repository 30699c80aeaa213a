#include "domain/model_profile.h"

#include <math.h>
#include <string.h>

#include "domain/model_task.h"
#include "domain/name_hints.h"

#define MAX_SOURCE_TASKS 32
#define MAX_TASK_BYTES 128
#define MAX_COUNT 9e18
#define GIB (1024.0 * 1024 * 1024)

gboolean
confidence_is_public (Confidence confidence)
{
  return confidence == CONFIDENCE_EXACT || confidence == CONFIDENCE_DECLARED || confidence == CONFIDENCE_DERIVED;
}

const char *
confidence_name (Confidence confidence)
{
  static const char *const names[] = { "", "Exact", "Declared", "Derived", "Estimated", "Hint" };
  return names[confidence];
}

static Confidence
confidence_of (FactOrigin origin)
{
  static const Confidence confidences[] = {
    [FACT_UNKNOWN] = CONFIDENCE_NONE,
    [FACT_READ] = CONFIDENCE_EXACT,
    [FACT_DERIVED] = CONFIDENCE_DERIVED,
    [FACT_GUESSED] = CONFIDENCE_ESTIMATED,
  };
  return confidences[origin];
}

void
model_profile_free (ModelProfile *self)
{
  if (self == NULL)
    return;
  g_free (self->task);
  g_free (self->architecture);
  g_free (self->family);
  g_free (self->quantization);
  g_free (self->precision);
  g_free (self->context_source);
  g_ptr_array_unref (self->endpoints);
  g_ptr_array_unref (self->features);
  g_ptr_array_unref (self->source_tasks);
  g_ptr_array_unref (self->warnings);
  g_free (self);
}

guint64
model_profile_parse_count (const char *text)
{
  static const struct {
    char letter;
    double factor;
  } scales[] = { { 'K', 1e3 }, { 'M', 1e6 }, { 'B', 1e9 }, { 'T', 1e12 }, { '\0', 1 } };
  char *end;
  if (text == NULL || !g_ascii_isdigit (*text))
    return 0;
  double number = g_ascii_strtod (text, &end);
  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    if (g_ascii_toupper (*end) == scales[i].letter && (*end == '\0' || end[1] == '\0'))
      {
        number = round (number * scales[i].factor);
        return number >= 1 && number < MAX_COUNT ? (guint64) number : 0;
      }
  return 0;
}

static gboolean
set_text (char **slot, Confidence *confidence, const char *text, Confidence how)
{
  if (*slot != NULL || text == NULL || text[0] == '\0')
    return FALSE;
  *slot = g_strdup (text);
  *confidence = how;
  return TRUE;
}

static void
set_number (guint64 *slot, Confidence *confidence, guint64 number, Confidence how)
{
  if (*slot != 0 || number == 0 || number > G_MAXINT64) /* the API's integers are signed */
    return;
  *slot = number;
  *confidence = how;
}

/* metadata-profile.md, "Task resolution", in its order. */
static void
resolve_task (ModelProfile *self, const ModelFacts *facts, const ModelDeclaration *declaration)
{
  const char *explicit_task = task_normalise (declaration->explicit_task);
  const char *declared = task_normalise (declaration->declared_task);
  const char *hint = task_normalise (declaration->hinted_task), *derived = NULL;
  gboolean is_any = declared != NULL && strcmp (declared, "any-to-any") == 0;
  gboolean any_hinted = hint != NULL && strcmp (hint, "any-to-any") == 0;
  switch (self->format)
    {
    case MODEL_FORMAT_SAFETENSORS:
      derived = (is_any || any_hinted) && facts->has_vision ? "image-text-to-text" : task_of_safetensors (facts);
      break;
    case MODEL_FORMAT_DIFFUSERS: derived = task_of_pipeline (facts->architecture); break;
    default: derived = task_of_gguf (facts);
    }
  set_text (&self->task, &self->task_confidence, explicit_task, CONFIDENCE_EXACT);
  if (!is_any)
    set_text (&self->task, &self->task_confidence, declared, CONFIDENCE_DECLARED);
  set_text (&self->task, &self->task_confidence, derived, CONFIDENCE_DERIVED);
  set_text (&self->task, &self->task_confidence, hint, CONFIDENCE_HINT);
}

static void
resolve_names (ModelProfile *self, const ModelFacts *facts, const ModelDeclaration *declaration,
               const NameHints *hints)
{
  set_text (&self->architecture, &self->architecture_confidence, facts->architecture, CONFIDENCE_EXACT);
  set_text (&self->family, &self->family_confidence, declaration->family, CONFIDENCE_DECLARED);
  if (facts->model_type != NULL)
    {
      g_autofree char *lower = g_ascii_strdown (facts->model_type, -1);
      set_text (&self->family, &self->family_confidence, lower, CONFIDENCE_EXACT);
    }
  if (self->format == MODEL_FORMAT_DIFFUSERS)
    set_text (&self->family, &self->family_confidence, family_of_pipeline (facts->architecture), CONFIDENCE_DERIVED);
  if (self->format == MODEL_FORMAT_SAFETENSORS && facts->architecture != NULL)
    {
      g_autofree char *base = family_of_architecture (facts->architecture);
      set_text (&self->family, &self->family_confidence, base, CONFIDENCE_DERIVED);
    }
  set_text (&self->family, &self->family_confidence, hints->family, CONFIDENCE_HINT);
}

static void
resolve_quantization (ModelProfile *self, const ModelFacts *facts, const ModelDeclaration *declaration,
                      const NameHints *hints)
{
  set_text (&self->quantization, &self->quantization_confidence, facts->quantization,
            confidence_of (facts->quantization_origin));
  set_text (&self->quantization, &self->quantization_confidence, declaration->quantization, CONFIDENCE_DECLARED);
  set_text (&self->quantization, &self->quantization_confidence, hints->quantization, CONFIDENCE_HINT);
}

/* Bytes per parameter by quantization, else by precision: metadata-profile.md, "Footprint". */
static double
bytes_per_parameter (const char *quantization, const char *precision)
{
  static const struct {
    const char *word;
    gboolean starts;
    double bytes;
  } quantizations[] = {
    { "nf4", FALSE, 0.5 }, { "fp4", FALSE, 0.5 }, { "4bit", FALSE, 0.5 }, { "int4", FALSE, 0.5 }, { "q4", TRUE, 0.5 },
    { "iq4", TRUE, 0.5 },  { "8bit", FALSE, 1 },  { "int8", FALSE, 1 },   { "q8", TRUE, 1 },
  };
  static const struct {
    const char *precision;
    double bytes;
  } precisions[] = {
    { "bfloat16", 2 }, { "float16", 2 }, { "half", 2 },        { "float32", 4 },     { "float64", 8 },
    { "int8", 1 },     { "uint8", 1 },   { "float8_e4m3", 1 }, { "float8_e5m2", 1 },
  };
  g_autofree char *lower = g_ascii_strdown (quantization != NULL ? quantization : "", -1);
  for (guint i = 0; i < G_N_ELEMENTS (quantizations); i++)
    if (quantizations[i].starts ? g_str_has_prefix (lower, quantizations[i].word)
                                : strstr (lower, quantizations[i].word) != NULL)
      return quantizations[i].bytes;
  for (guint i = 0; precision != NULL && i < G_N_ELEMENTS (precisions); i++)
    if (strcmp (precision, precisions[i].precision) == 0)
      return precisions[i].bytes;
  return 2;
}

/* vocab x hidden + layers x (2 hidden^2 + 2 hidden x kv + 3 hidden x ffn); 0 when a factor is missing. */
static double
estimate_by_formula (const ModelFacts *facts)
{
  double hidden = (double) facts->hidden_size, ffn = (double) facts->ffn_size, layers = (double) facts->n_layers;
  double vocab = (double) facts->vocab_size, kv = hidden;
  if (hidden == 0 || ffn == 0 || layers == 0 || vocab == 0)
    return 0;
  if (facts->n_kv_heads > 0 && facts->n_heads > 0)
    kv = (double) facts->n_kv_heads * hidden / (double) facts->n_heads;
  return vocab * hidden + layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * ffn);
}

static guint64
to_count (double number)
{
  return number >= 1 && number < MAX_COUNT ? (guint64) number : 0;
}

static void
resolve_parameters (ModelProfile *self, const ModelFacts *facts, const ModelDeclaration *declaration,
                    const NameHints *hints)
{
  Confidence from_files = confidence_of (facts->parameters_origin);
  guint64 *slot = &self->parameter_count;
  if (confidence_is_public (from_files))
    set_number (slot, &self->parameter_confidence, facts->n_parameters, from_files);
  set_number (slot, &self->parameter_confidence, declaration->parameter_count, CONFIDENCE_DECLARED);
  set_number (slot, &self->parameter_confidence, model_profile_parse_count (declaration->parameter_text),
              CONFIDENCE_DECLARED);
  if (self->format == MODEL_FORMAT_SAFETENSORS)
    set_number (slot, &self->parameter_confidence, to_count (estimate_by_formula (facts)), CONFIDENCE_ESTIMATED);
  set_number (slot, &self->parameter_confidence, facts->n_parameters, from_files); /* elements as stored */
  set_number (slot, &self->parameter_confidence, hints->n_parameters, CONFIDENCE_HINT);
  if (self->format != MODEL_FORMAT_DIFFUSERS && facts->n_models <= 1)
    set_number (slot, &self->parameter_confidence,
                to_count ((double) facts->weights_bytes / self->bytes_per_parameter), CONFIDENCE_ESTIMATED);
}

static void
add_words (GPtrArray *list, const char *words)
{
  g_auto (GStrv) parts = g_strsplit (words, " ", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] != '\0')
      g_ptr_array_add (list, g_strdup (parts[i]));
}

static void
resolve_capabilities (ModelProfile *self, const ModelFacts *facts)
{
  const TaskMeaning *meaning = confidence_is_public (self->task_confidence) ? task_meaning (self->task) : NULL;
  if (meaning != NULL)
    {
      add_words (self->endpoints, meaning->endpoints);
      add_words (self->features, meaning->features);
    }
  if (facts->template_has_tools && self->format != MODEL_FORMAT_DIFFUSERS)
    g_ptr_array_add (self->features, g_strdup ("ToolCalling"));
}

static void
resolve_source_tasks (ModelProfile *self, const char *const *tasks)
{
  for (; tasks != NULL && *tasks != NULL && self->source_tasks->len < MAX_SOURCE_TASKS; tasks++)
    {
      g_autofree char *lower = g_ascii_strdown (*tasks, -1);
      gsize size = strlen (lower);
      if (size > 0 && size <= MAX_TASK_BYTES
          && !g_ptr_array_find_with_equal_func (self->source_tasks, lower, g_str_equal, NULL))
        g_ptr_array_add (self->source_tasks, g_steal_pointer (&lower));
    }
}

static void
resolve_footprint (ModelProfile *self, const ModelFacts *facts)
{
  const char *precision = facts->precision != NULL ? facts->precision : facts->declared_dtype;
  self->bytes_per_parameter = bytes_per_parameter (self->quantization, precision);
  self->weights_bytes = facts->weights_bytes;
  self->largest_weight_bytes = facts->largest_weight_bytes;
  self->n_weight_files = facts->n_weight_files;
  self->working_set_gib = (guint64) MAX (ceil ((double) facts->weights_bytes * 1.25 / GIB), 1);
  self->precision = g_strdup (facts->precision);
  self->parameters_in_all = facts->n_parameters_in_all;
}

static gboolean
is_weak (Confidence confidence)
{
  return confidence == CONFIDENCE_ESTIMATED || confidence == CONFIDENCE_HINT;
}

ModelProfile *
model_profile_new (const ModelFacts *facts, const ModelDeclaration *declaration)
{
  static const ModelDeclaration nothing = { 0 };
  g_auto (NameHints) hints = name_hints_read (facts->weights_stem);
  ModelProfile *self = g_new0 (ModelProfile, 1);
  declaration = declaration != NULL ? declaration : &nothing;
  self->format = facts->format;
  self->endpoints = g_ptr_array_new_with_free_func (g_free);
  self->features = g_ptr_array_new_with_free_func (g_free);
  self->source_tasks = g_ptr_array_new_with_free_func (g_free);
  self->warnings = g_ptr_array_ref (facts->warnings);
  resolve_task (self, facts, declaration);
  resolve_names (self, facts, declaration, &hints);
  resolve_quantization (self, facts, declaration, &hints);
  resolve_footprint (self, facts);
  resolve_parameters (self, facts, declaration, &hints);
  set_number (&self->context_tokens, &self->context_confidence, declaration->context_tokens, CONFIDENCE_DECLARED);
  set_number (&self->context_tokens, &self->context_confidence, facts->context_tokens,
              confidence_of (facts->context_origin));
  self->context_source = g_strdup (declaration->context_tokens > 0 ? "declared" : facts->context_source);
  resolve_capabilities (self, facts);
  resolve_source_tasks (self, declaration->provider_tasks);
  self->has_chat_template = facts->has_chat_template;
  self->has_reasoning = facts->template_has_reasoning;
  self->has_vision = facts->has_vision;
  self->has_audio = facts->has_audio;
  self->is_partial = is_weak (self->task_confidence) || is_weak (self->family_confidence)
                     || is_weak (self->architecture_confidence) || is_weak (self->parameter_confidence)
                     || is_weak (self->quantization_confidence) || is_weak (self->context_confidence);
  return self;
}
