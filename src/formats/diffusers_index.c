#include "formats/diffusers_index.h"

#include <string.h>

#include "formats/config_value.h"
#include "formats/format_error.h"
#include "formats/model_facts.h"

#define MAX_COMPONENTS 256

/* By a piece of the class's name, first match; a class with none of them is a model. */
static const struct {
  const char *part;
  DiffusersKind kind;
} kinds[] = {
  { "Scheduler", DIFFUSERS_SCHEDULER },
  { "Tokenizer", DIFFUSERS_TOKENIZER },
  { "FeatureExtractor", DIFFUSERS_PROCESSOR },
  { "Processor", DIFFUSERS_PROCESSOR },
};

static void
component_clear (gpointer data)
{
  DiffusersComponent *component = data;
  g_free (component->name);
}

void
diffusers_index_free (DiffusersIndex *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->components, g_array_unref);
  g_free (self->class_name);
  g_free (self);
}

static gboolean
is_plain_name (const char *name, gsize size)
{
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isalnum (name[i]) && name[i] != '_')
      return FALSE;
  return size > 0 && size <= 255;
}

static DiffusersKind
kind_of (const char *class_name)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (strstr (class_name, kinds[i].part) != NULL)
      return kinds[i].kind;
  return DIFFUSERS_MODEL;
}

/* [library, class] is a part; [null, null] and everything else is none. */
static gboolean
add_component (DiffusersIndex *self, const char *name, gsize name_size, yyjson_val *value, GError **error)
{
  yyjson_val *class_name = yyjson_arr_get (value, 1);
  if (!yyjson_is_arr (value) || yyjson_arr_size (value) != 2 || !yyjson_is_str (class_name))
    return TRUE;
  if (!is_plain_name (name, name_size))
    return format_fail (error, "a part's name may have letters, digits and underscores only");
  if (diffusers_index_find (self, name) != NULL)
    return format_fail (error, "\"%s\" is there twice", name);
  if (self->components->len == MAX_COMPONENTS)
    return format_fail_limit (error, "more than %d parts", MAX_COMPONENTS);
  DiffusersComponent component = {
    .name = g_strdup (name),
    .kind = kind_of (yyjson_get_str (class_name)),
  };
  g_array_append_val (self->components, component);
  return TRUE;
}

static gboolean
read_class_name (DiffusersIndex *self, yyjson_val *root, GError **error)
{
  yyjson_val *value = config_get (root, "_class_name");
  if (yyjson_is_arr (value)) /* [module, class]: code of the repository's own */
    value = yyjson_arr_get (value, 1);
  self->class_name = model_facts_text (yyjson_get_str (value));
  return self->class_name != NULL || format_fail (error, "_class_name is missing");
}

static gboolean
read_components (DiffusersIndex *self, yyjson_val *root, GError **error)
{
  yyjson_obj_iter iter;
  yyjson_val *name;
  if (!yyjson_obj_iter_init (root, &iter))
    return FALSE;
  while ((name = yyjson_obj_iter_next (&iter)) != NULL)
    if (yyjson_get_str (name)[0] != '_'
        && !add_component (self, yyjson_get_str (name), yyjson_get_len (name), yyjson_obj_iter_get_val (name), error))
      return FALSE;
  return TRUE;
}

DiffusersIndex *
diffusers_index_parse (const char *text, gsize size, GError **error)
{
  g_autoptr (DiffusersIndex) self = g_new0 (DiffusersIndex, 1);
  self->components = g_array_new (FALSE, FALSE, sizeof (DiffusersComponent));
  g_array_set_clear_func (self->components, component_clear);
  g_autoptr (yyjson_doc) doc = config_parse (text, size, error);
  if (doc == NULL)
    return NULL;
  yyjson_val *root = yyjson_doc_get_root (doc);
  if (!read_class_name (self, root, error) || !read_components (self, root, error))
    return NULL;
  return g_steal_pointer (&self);
}

const DiffusersComponent *
diffusers_index_find (const DiffusersIndex *self, const char *name)
{
  for (guint i = 0; i < self->components->len; i++)
    {
      const DiffusersComponent *component = &g_array_index (self->components, DiffusersComponent, i);
      if (strcmp (component->name, name) == 0)
        return component;
    }
  return NULL;
}

const DiffusersComponent *
diffusers_index_denoiser (const DiffusersIndex *self)
{
  static const char *const names[] = { "transformer", "unet" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const DiffusersComponent *component = diffusers_index_find (self, names[i]);
      if (component != NULL)
        return component;
    }
  return NULL;
}
