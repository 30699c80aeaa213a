#include "formats/config_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "formats/format_error.h"

#define MAX_EXACT_DOUBLE 9007199254740992.0 /* 2^53 */

yyjson_doc *
config_parse (const char *text, gsize size, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (yyjson_doc) doc = json_parse (text, size, CONFIG_MAX_BYTES, JSON_WILD, &problem);
  if (doc == NULL)
    format_fail (error, "%s", problem->message);
  else if (!yyjson_is_obj (yyjson_doc_get_root (doc)))
    format_fail (error, "a JSON object is expected");
  else
    return g_steal_pointer (&doc);
  return NULL;
}

yyjson_val *
config_get (yyjson_val *object, const char *key)
{
  yyjson_val *found = NULL, *name;
  yyjson_obj_iter iter;
  if (!yyjson_is_obj (object) || !yyjson_obj_iter_init (object, &iter))
    return NULL;
  while ((name = yyjson_obj_iter_next (&iter)) != NULL)
    if (yyjson_equals_str (name, key))
      found = yyjson_obj_iter_get_val (name);
  return yyjson_is_null (found) ? NULL : found;
}

yyjson_val *
config_object (yyjson_val *object, const char *key)
{
  yyjson_val *value = config_get (object, key);
  return yyjson_is_obj (value) ? value : NULL;
}

const char *
config_string (yyjson_val *object, const char *key)
{
  yyjson_val *value = config_get (object, key);
  const char *text = yyjson_get_str (value);
  return text != NULL && text[0] != '\0' && strlen (text) == yyjson_get_len (value) ? text : NULL;
}

gboolean
config_true (yyjson_val *object, const char *key)
{
  return yyjson_is_true (config_get (object, key));
}

gboolean
config_has (yyjson_val *object, const char *key)
{
  return config_get (object, key) != NULL;
}

gboolean
config_value_double (yyjson_val *value, double *out_value)
{
  if (yyjson_is_num (value))
    *out_value = yyjson_get_num (value);
  else if (yyjson_is_raw (value)) /* an integer beyond 64 bits, such as int(1e30) */
    *out_value = g_ascii_strtod (yyjson_get_raw (value), NULL);
  else
    return FALSE;
  return isfinite (*out_value);
}

static gboolean
scalar_u64 (yyjson_val *value, guint64 *out_value)
{
  double number;
  if (yyjson_is_uint (value))
    {
      *out_value = yyjson_get_uint (value);
      return TRUE;
    }
  if (yyjson_is_str (value))
    return text_parse_u64 (yyjson_get_str (value), out_value);
  if (!config_value_double (value, &number) || number < 0 || number > MAX_EXACT_DOUBLE || number != floor (number))
    return FALSE;
  *out_value = (guint64) number;
  return TRUE;
}

gboolean
config_value_u64 (yyjson_val *value, guint64 *out_value)
{
  if (!yyjson_is_arr (value))
    return scalar_u64 (value, out_value);
  guint64 one, largest = 0;
  yyjson_arr_iter iter = yyjson_arr_iter_with (value);
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    {
      if (!scalar_u64 (item, &one))
        return FALSE;
      largest = MAX (largest, one);
    }
  if (yyjson_arr_size (value) == 0)
    return FALSE;
  *out_value = largest;
  return TRUE;
}

gboolean
config_u64 (yyjson_val *object, const char *key, guint64 *out_value)
{
  return config_value_u64 (config_get (object, key), out_value);
}

gboolean
config_is_one_of (const char *text, const char *const *names)
{
  return text != NULL && g_strv_contains (names, text);
}

ConfigScope
config_scope (yyjson_val *root)
{
  /* A second name means an object inside the first. */
  static const char *const places[][2] = {
    { "text_config", NULL },     { "llm_config", NULL },
    { "language_config", NULL }, { "thinker_config", "text_config" },
    { "thinker_config", NULL },  { "decoder", NULL },
    { "lm_config", NULL },       { "language_model_config", NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      yyjson_val *part = config_object (root, places[i][0]);
      if (part != NULL && places[i][1] != NULL)
        part = config_object (part, places[i][1]);
      if (part != NULL && yyjson_obj_size (part) > 0)
        return (ConfigScope){ root, part };
    }
  return (ConfigScope){ root, root };
}

yyjson_val *
config_scope_get (const ConfigScope *self, const char *key)
{
  yyjson_val *value = config_get (self->text, key);
  return value != NULL || self->text == self->root ? value : config_get (self->root, key);
}

guint64
config_scope_first_u64 (const ConfigScope *self, const char *const *keys)
{
  guint64 value;
  for (; *keys != NULL; keys++)
    if (config_value_u64 (config_scope_get (self, *keys), &value) && value > 0)
      return value;
  return 0;
}
