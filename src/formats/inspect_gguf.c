#include <string.h>

#include "formats/gguf_facts.h"
#include "formats/model_inspector_private.h"
#include "formats/shard_name.h"
#include "formats/shard_set.h"

/* One model: a file, or the parts of a split one, the part with the metadata first. */
typedef struct {
  GArray *parts; /* of ShardPart */
  GgufKind kind;
  guint64 size_bytes;
} GgufModel;

static void
gguf_model_clear (gpointer data)
{
  g_array_unref (((GgufModel *) data)->parts);
}

static GgufModel *
find_model (GArray *models, const char *path)
{
  for (guint i = 0; i < models->len; i++)
    {
      GgufModel *model = &g_array_index (models, GgufModel, i);
      if (shard_name_same_set (g_array_index (model->parts, ShardPart, 0).path, path))
        return model;
    }
  return NULL;
}

/* Files are ascending by path, so parts come in their order. */
static GArray *
group (const ModelInspector *self)
{
  GArray *models = g_array_new (FALSE, FALSE, sizeof (GgufModel));
  g_array_set_clear_func (models, gguf_model_clear);
  for (guint i = 0; i < self->weights->len; i++)
    {
      const WeightFile *file = &g_array_index (self->weights, WeightFile, i);
      GgufModel *model = find_model (models, file->path);
      if (model == NULL)
        {
          GgufModel fresh = { g_array_new (FALSE, FALSE, sizeof (ShardPart)), gguf_kind (file->gguf), 0 };
          g_array_append_val (models, fresh);
          model = &g_array_index (models, GgufModel, models->len - 1);
        }
      ShardPart part = { file->path, file->gguf, NULL };
      g_array_append_val (model->parts, part);
      model->size_bytes += file->size_bytes;
    }
  return models;
}

static gboolean
check_model (const GgufModel *model, GError **error)
{
  const ShardPart *parts = (const ShardPart *) (gpointer) model->parts->data;
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (guint i = 0; i < model->parts->len; i++)
    g_ptr_array_add (names, (gpointer) parts[i].path);
  return shard_set_check_names (names, error) && shard_set_check_gguf (parts, model->parts->len, error);
}

/* The largest of the models proper. */
static const GgufModel *
choose_main (const GArray *models)
{
  const GgufModel *best = NULL;
  for (guint i = 0; i < models->len; i++)
    {
      const GgufModel *model = &g_array_index (models, GgufModel, i);
      if (model->kind == GGUF_KIND_MODEL && (best == NULL || model->size_bytes > best->size_bytes))
        best = model;
    }
  return best;
}

static char *
stem_of (const char *path)
{
  const char *slash = strrchr (path, '/');
  char *stem = g_strdup (slash != NULL ? slash + 1 : path);
  ShardName shard;
  if (shard_name_parse (stem, &shard))
    stem[shard.stem_size] = '\0';
  else if (g_str_has_suffix (stem, ".gguf") || g_str_has_suffix (stem, ".GGUF"))
    stem[strlen (stem) - strlen (".gguf")] = '\0';
  return stem;
}

static void
read_model (const GgufModel *model, ModelFacts *facts)
{
  guint64 histogram[GGUF_FACTS_N_TYPES] = { 0 };
  const ShardPart *first = &g_array_index (model->parts, ShardPart, 0);
  gguf_facts_read (first->gguf, facts);
  for (guint i = 0; i < model->parts->len; i++)
    gguf_facts_count (g_array_index (model->parts, ShardPart, i).gguf, facts, histogram);
  gguf_facts_quantization (first->gguf, histogram, facts);
  facts->weights_stem = stem_of (first->path);
  facts->n_parameters_in_all = facts->n_parameters;
}

/* What several models in one folder do not agree on is no fact of the whole. */
static void
drop_disagreements (ModelFacts *facts, const GArray *models, const GgufModel *main_model)
{
  gboolean same_quantization = TRUE, same_parameters = TRUE;
  for (guint i = 0; i < models->len; i++)
    {
      const GgufModel *model = &g_array_index (models, GgufModel, i);
      if (model->kind != GGUF_KIND_MODEL || model == main_model)
        continue;
      g_autoptr (ModelFacts) other = model_facts_new (MODEL_FORMAT_GGUF);
      read_model (model, other);
      same_quantization &= g_strcmp0 (other->quantization, facts->quantization) == 0;
      same_parameters &= other->n_parameters == facts->n_parameters;
    }
  if (!same_quantization)
    {
      g_clear_pointer (&facts->quantization, g_free);
      g_clear_pointer (&facts->precision, g_free);
      g_clear_pointer (&facts->weights_stem, g_free);
      facts->quantization_origin = FACT_UNKNOWN;
    }
  if (!same_parameters)
    {
      facts->n_parameters = facts->n_parameters_in_all = 0;
      facts->parameters_origin = FACT_UNKNOWN;
    }
}

static void
read_companions (ModelFacts *facts, const GArray *models)
{
  for (guint i = 0; i < models->len; i++)
    {
      const GgufModel *model = &g_array_index (models, GgufModel, i);
      const GgufHeader *header = g_array_index (model->parts, ShardPart, 0).gguf;
      const GgufValue *audio = gguf_find (header, "clip.has_audio_encoder");
      const GgufValue *vision = gguf_find (header, "clip.has_vision_encoder");
      facts->n_models += model->kind == GGUF_KIND_MODEL;
      if (model->kind != GGUF_KIND_PROJECTOR)
        continue;
      gboolean hears = audio != NULL && audio->integers != NULL && g_array_index (audio->integers, gint64, 0) != 0;
      gboolean sees = vision != NULL && vision->integers != NULL && g_array_index (vision->integers, gint64, 0) != 0;
      facts->has_audio |= hears;
      facts->has_vision |= sees || !hears; /* old projectors say nothing and are for images */
    }
}

gboolean
inspect_gguf (ModelInspector *self, GError **error)
{
  g_autoptr (GArray) models = group (self);
  for (guint i = 0; i < models->len; i++)
    if (!check_model (&g_array_index (models, GgufModel, i), error))
      return FALSE;
  read_companions (self->facts, models);
  const GgufModel *model = choose_main (models);
  if (model == NULL)
    { /* an adapter or a projector alone */
      model = &g_array_index (models, GgufModel, 0);
      self->facts->is_adapter = TRUE;
    }
  read_model (model, self->facts);
  if (self->facts->n_models > 1)
    {
      model_facts_warn (self->facts, "%u GGUF models lie side by side", self->facts->n_models);
      drop_disagreements (self->facts, models, model);
    }
  if (self->facts->architecture == NULL)
    model_facts_warn (self->facts, "general.architecture is missing: no engine will know this model");
  return TRUE;
}
