#include "domain/pipeline_selection.h"

#include <string.h>

#include "formats/shard_name.h"

#define fail_incomplete(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PipelineIncomplete", __VA_ARGS__)

/* Longest first: "model" begins no other, but "pytorch_model" ends one. */
static const char *const weight_stems[] = { "diffusion_pytorch_model", "pytorch_lora_weights", "pytorch_model",
                                            "adapter_model", "model" };

/* What the name of a weight file or index says. */
typedef struct {
  char *variant;        /* "" for the plain one */
  gboolean safetensors; /* else .bin */
} WeightName;

static void
weight_name_clear (WeightName *self)
{
  g_clear_pointer (&self->variant, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (WeightName, weight_name_clear)

/* Takes the first occurrence of `part` out of `text`. */
static void
cut_out (char *text, const char *part)
{
  char *found = strstr (text, part);
  if (found != NULL)
    memmove (found, found + strlen (part), strlen (found + strlen (part)) + 1);
}

/* stem[.variant][-00001-of-00002][.variant].ext, and the indexes stem[.variant].ext.index[.variant].json,
 * stem[.variant].index.json. What is left of a known stem's name when all known pieces are cut out is the
 * variant; other names have none. */
static WeightName
parse_weight_name (const char *target)
{
  const char *slash = strrchr (target, '/'), *base = slash != NULL ? slash + 1 : target;
  WeightName result = { g_strdup (""), strstr (base, ".bin") == NULL };
  g_autofree char *name = g_strdup (base);
  ShardName shard;
  if (shard_name_parse (name, &shard))
    memmove (name + shard.stem_size, shard.rest, strlen (shard.rest) + 1);
  for (guint i = 0; i < G_N_ELEMENTS (weight_stems); i++)
    {
      gsize size = strlen (weight_stems[i]);
      if (strncmp (name, weight_stems[i], size) != 0 || name[size] != '.')
        continue;
      cut_out (name, ".safetensors");
      cut_out (name, ".bin");
      cut_out (name, ".index");
      if (g_str_has_suffix (name, ".json"))
        name[strlen (name) - strlen (".json")] = '\0';
      if (name[size] == '.')
        {
          g_free (result.variant);
          result.variant = g_strdup (name + size + 1);
        }
      break;
    }
  return result;
}

/* The folder of a file that lies exactly one level down; NULL for others. */
static char *
component_of (const char *target)
{
  const char *slash = strchr (target, '/');
  return slash != NULL && strchr (slash + 1, '/') == NULL ? g_strndup (target, (gsize) (slash - target)) : NULL;
}

static gboolean
is_index_name (const char *target)
{
  return strstr (target, ".index.") != NULL && g_str_has_suffix (target, ".json") && strchr (target, '/') != NULL;
}

/* Which weights a component's folder has. */
typedef struct {
  char *name;
  gboolean has[2][2]; /* [safetensors][in the wished variant]; without a wish the second is "any variant" */
} Component;

static void
component_clear (gpointer data)
{
  g_free (((Component *) data)->name);
}

static Component *
find_component (GArray *components, const char *name)
{
  for (guint i = 0; i < components->len; i++)
    if (strcmp (g_array_index (components, Component, i).name, name) == 0)
      return &g_array_index (components, Component, i);
  return NULL;
}

static void
note_weights (GArray *components, const char *folder, const WeightName *name, const char *variant)
{
  Component *component = find_component (components, folder);
  if (component == NULL)
    {
      Component fresh = { .name = g_strdup (folder) };
      g_array_append_val (components, fresh);
      component = &g_array_index (components, Component, components->len - 1);
    }
  gboolean is_plain = name->variant[0] == '\0';
  if (is_plain || variant == NULL || strcmp (name->variant, variant) == 0)
    component->has[name->safetensors][!is_plain] = TRUE;
}

/* Drops weights that lie where no component is, and takes stock of the rest. */
static GArray *
take_stock (FileSelection *selection)
{
  GArray *components = g_array_new (FALSE, FALSE, sizeof (Component));
  g_array_set_clear_func (components, component_clear);
  for (guint i = 0; i < selection->files->len; i++)
    {
      SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      if (file->role != FILE_WEIGHTS)
        continue;
      g_autofree char *folder = component_of (file->target);
      g_auto (WeightName) name = parse_weight_name (file->target);
      if (folder != NULL)
        note_weights (components, folder, &name, selection->variant);
      else
        selected_file_drop (file, strchr (file->target, '/') == NULL
                                    ? "a checkpoint of the whole pipeline, which its folders hold"
                                    : "deeper than a component's folder");
    }
  return components;
}

/* The form of weights a component is taken in. */
static gboolean
choose (const Component *component, const char *variant, gboolean *out_safetensors, gboolean *out_variant)
{
  for (int safetensors = 1; safetensors >= 0; safetensors--)
    for (int in_variant = variant != NULL; in_variant >= 0; in_variant--)
      if (component->has[safetensors][in_variant])
        {
          *out_safetensors = safetensors;
          *out_variant = in_variant;
          return TRUE;
        }
  return FALSE;
}

static void
decide (const Component *component, const char *variant, SelectedFile *file)
{
  gboolean safetensors, in_variant;
  g_auto (WeightName) name = parse_weight_name (file->target);
  if (!choose (component, variant, &safetensors, &in_variant))
    return;
  if (name.safetensors != safetensors)
    selected_file_drop (file, safetensors ? "the same weights as safetensors are there" : "of another form");
  else if (strcmp (name.variant, in_variant ? variant : "") != 0)
    selected_file_drop (file, "another variant of the weights");
  else if (in_variant && file->role == FILE_DROPPED)
    { /* an index.fp16.json, which is in no list */
      file->role = FILE_COMPANION;
      g_free (file->why);
      file->why = g_strdup ("the variant's shard index");
    }
}

static gboolean
check_choices (const GArray *components, const char *variant, GError **error)
{
  g_autoptr (GString) lacking = g_string_new (NULL);
  gboolean safetensors, in_variant, any_variant = variant == NULL;
  for (guint i = 0; i < components->len; i++)
    {
      const Component *component = &g_array_index (components, Component, i);
      if (!choose (component, variant, &safetensors, &in_variant))
        g_string_append_printf (lacking, "%s%s", lacking->len > 0 ? ", " : "", component->name);
      else
        any_variant |= in_variant;
    }
  if (lacking->len > 0)
    return fail_incomplete (error, "these parts of the pipeline have no weights %s%s: %s",
                            variant != NULL ? "that are plain or of the variant " : "without a variant",
                            variant != NULL ? variant : "", lacking->str);
  return any_variant || fail_incomplete (error, "no part of the pipeline has weights of the variant %s", variant);
}

gboolean
pipeline_select (FileSelection *selection, GError **error)
{
  g_autoptr (GArray) components = take_stock (selection);
  if (!check_choices (components, selection->variant, error))
    return FALSE;
  for (guint i = 0; i < selection->files->len; i++)
    {
      SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      g_autofree char *folder = component_of (file->target);
      const Component *component = folder != NULL ? find_component (components, folder) : NULL;
      if (component != NULL && (file->role == FILE_WEIGHTS || is_index_name (file->target)))
        decide (component, selection->variant, file);
    }
  return TRUE;
}

static gboolean
has_kept (const FileSelection *selection, const char *folder, const char *name)
{
  g_autofree char *target = g_strdup_printf ("%s/%s", folder, name);
  const SelectedFile *file = file_selection_find (selection, target);
  return file != NULL && selected_file_is_kept (file);
}

static gboolean
has_weights (const FileSelection *selection, const char *folder)
{
  for (guint i = 0; i < selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      g_autofree char *component = file->role == FILE_WEIGHTS ? component_of (file->target) : NULL;
      if (component != NULL && strcmp (component, folder) == 0)
        return TRUE;
    }
  return FALSE;
}

/* Files that a part of each kind must have: one of the names in each group. */
static const struct {
  DiffusersKind kind;
  const char *any_of[6];
} needs[] = {
  { DIFFUSERS_MODEL, { "config.json" } },
  { DIFFUSERS_SCHEDULER, { "scheduler_config.json" } },
  { DIFFUSERS_TOKENIZER, { "tokenizer_config.json" } },
  { DIFFUSERS_TOKENIZER, { "tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model" } },
  { DIFFUSERS_PROCESSOR, { "preprocessor_config.json", "processor_config.json", "config.json" } },
};

static void
list_missing (const FileSelection *selection, const DiffusersComponent *component, GString *missing)
{
  for (guint i = 0; i < G_N_ELEMENTS (needs); i++)
    {
      gboolean found = needs[i].kind != component->kind;
      for (guint j = 0; !found && needs[i].any_of[j] != NULL; j++)
        found = has_kept (selection, component->name, needs[i].any_of[j]);
      if (!found)
        g_string_append_printf (missing, "%s%s/%s", missing->len > 0 ? ", " : "", component->name,
                                needs[i].any_of[0]);
    }
  if (component->kind == DIFFUSERS_MODEL && !has_weights (selection, component->name))
    g_string_append_printf (missing, "%sweights of %s", missing->len > 0 ? ", " : "", component->name);
}

gboolean
pipeline_refine (FileSelection *selection, const DiffusersIndex *index, GError **error)
{
  g_autoptr (GString) missing = g_string_new (NULL);
  for (guint i = 0; i < selection->files->len; i++)
    {
      SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      const char *slash = strchr (file->target, '/');
      g_autofree char *folder = slash != NULL ? g_strndup (file->target, (gsize) (slash - file->target)) : NULL;
      if (folder != NULL && selected_file_is_kept (file) && diffusers_index_find (index, folder) == NULL)
        selected_file_drop (file, "model_index.json does not name its folder");
    }
  for (guint i = 0; i < index->components->len; i++)
    list_missing (selection, &g_array_index (index->components, DiffusersComponent, i), missing);
  return missing->len == 0 || fail_incomplete (error, "the pipeline is incomplete: missing %s", missing->str);
}
