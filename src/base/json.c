#include "base/json.h"

#include <string.h>

#include "base/error.h"

/* Whether there are too few brackets in it to be nested too deep: most texts are short. */
static gboolean
has_few_brackets (const char *text, gsize size)
{
  guint n = 0;
  for (gsize i = 0; i < size; i++)
    n += (text[i] == '{') | (text[i] == '[');
  return n <= JSON_MAX_DEPTH;
}

/* Where the string that begins at `i` ends; `size` or beyond when it does not. */
static gsize
string_end (const char *text, gsize size, gsize i)
{
  for (i++; i < size && text[i] != '"'; i++)
    i += text[i] == '\\';
  return i;
}

/* Depth is bounded before the parser runs, so nesting cannot cost memory or stack later. */
static gboolean
depth_is_fine (const char *text, gsize size)
{
  static const guint8 matters[256] = { ['"'] = 1, ['{'] = 1, ['['] = 1, ['}'] = 1, [']'] = 1 };
  guint depth = 0;
  if (has_few_brackets (text, size))
    return TRUE;
  for (gsize i = 0; i < size; i++)
    {
      char c = text[i];
      if (!matters[(guint8) c])
        continue;
      if (c == '"')
        i = string_end (text, size, i);
      else if (c == '{' || c == '[')
        depth++;
      else if (depth > 0)
        depth--;
      if (depth > JSON_MAX_DEPTH)
        return FALSE;
    }
  return TRUE;
}

gsize
json_count_values (gconstpointer data, gsize size)
{
  static const guint8 matters[256] = { ['"'] = 1, ['{'] = 1, ['['] = 1, [','] = 1, [':'] = 1 };
  const char *text = data;
  gsize n = size > 0 ? 1 : 0;
  for (gsize i = 0; i < size; i++)
    if (matters[(guint8) text[i]])
      {
        if (text[i] == '"')
          i = string_end (text, size, i);
        else
          n++;
      }
  return n;
}

yyjson_doc *
json_parse (gconstpointer data, gsize size, gsize limit_bytes, JsonFlavour flavour, GError **error)
{
  const char *text = data;
  if (size > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                         "JSON of %" G_GSIZE_FORMAT " bytes is larger than the limit of %" G_GSIZE_FORMAT, size,
                         limit_bytes);
  if (flavour == JSON_WILD && size >= 3 && memcmp (text, "\xef\xbb\xbf", 3) == 0)
    {
      text += 3;
      size -= 3;
    }
  if (size == 0)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "JSON is empty");
  if (flavour != JSON_SHALLOW && !depth_is_fine (text, size))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "JSON is nested deeper than %d levels",
                         JSON_MAX_DEPTH);
  yyjson_read_flag flags = flavour == JSON_WILD ? YYJSON_READ_ALLOW_INF_AND_NAN | YYJSON_READ_BIGNUM_AS_RAW
                                                : YYJSON_READ_NOFLAG;
  yyjson_read_err problem;
  yyjson_doc *doc = yyjson_read_opts ((char *) text, size, flags, NULL, &problem);
  if (doc == NULL)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "bad JSON at byte %" G_GSIZE_FORMAT ": %s",
                         problem.pos, problem.msg);
  return doc;
}

/* A NUL inside would silently shorten the value: such a string is none. */
static gboolean
is_plain_string (yyjson_val *value)
{
  return yyjson_is_str (value) && strlen (yyjson_get_str (value)) == yyjson_get_len (value);
}

static gboolean
bind_strings (yyjson_val *value, GPtrArray **out)
{
  if (!yyjson_is_arr (value))
    return FALSE;
  g_autoptr (GPtrArray) strings = g_ptr_array_new_with_free_func (g_free);
  yyjson_arr_iter iter = yyjson_arr_iter_with (value);
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    {
      if (!is_plain_string (item))
        return FALSE;
      g_ptr_array_add (strings, g_strdup (yyjson_get_str (item)));
    }
  g_clear_pointer (out, g_ptr_array_unref);
  *out = g_steal_pointer (&strings);
  return TRUE;
}

static gboolean
bind_string (yyjson_val *value, char **out)
{
  if (!is_plain_string (value))
    return FALSE;
  g_free (*out);
  *out = g_strdup (yyjson_get_str (value));
  return TRUE;
}

static gboolean
bind_value (yyjson_val *value, JsonType type, gpointer slot)
{
  switch (type)
    {
    case JSON_STRING: return bind_string (value, slot);
    case JSON_STRINGS: return bind_strings (value, slot);
    case JSON_UINT64: *(guint64 *) slot = yyjson_get_uint (value); return yyjson_is_uint (value);
    case JSON_INT64:
      *(gint64 *) slot = yyjson_get_sint (value);
      return yyjson_is_sint (value) || (yyjson_is_uint (value) && yyjson_get_uint (value) <= G_MAXINT64);
    case JSON_BOOL: *(gboolean *) slot = yyjson_get_bool (value); return yyjson_is_bool (value);
    case JSON_DOUBLE: *(double *) slot = yyjson_get_num (value); return yyjson_is_num (value);
    }
  return FALSE;
}

static const char *const type_names[] = { "a string", "a non-negative integer", "an integer", "true or false",
                                          "a number", "an array of strings" };

gboolean
json_bind (yyjson_val *object, const JsonField *fields, gsize n_fields, gpointer out, GError **error)
{
  if (!yyjson_is_obj (object))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "a JSON object is expected");
  for (gsize i = 0; i < n_fields; i++)
    {
      yyjson_val *value = yyjson_obj_get (object, fields[i].name);
      if (value == NULL || yyjson_is_null (value))
        {
          if (fields[i].required)
            return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%s\" is missing", fields[i].name);
          continue;
        }
      if (!bind_value (value, fields[i].type, (guint8 *) out + fields[i].offset))
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%s\" must be %s", fields[i].name,
                        type_names[fields[i].type]);
    }
  return TRUE;
}

static void
unbind_strings (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, GPtrArray *strings)
{
  if (strings == NULL)
    return;
  yyjson_mut_val *array = yyjson_mut_obj_add_arr (doc, object, name);
  for (guint i = 0; i < strings->len; i++)
    yyjson_mut_arr_add_strcpy (doc, array, g_ptr_array_index (strings, i));
}

void
json_unbind (yyjson_mut_doc *doc, yyjson_mut_val *object, const JsonField *fields, gsize n_fields, gconstpointer in)
{
  for (gsize i = 0; i < n_fields; i++)
    {
      const JsonField *field = &fields[i];
      gconstpointer slot = (const guint8 *) in + field->offset;
      const char *const *text = slot;
      if (field->type == JSON_STRING && *text != NULL)
        yyjson_mut_obj_add_strcpy (doc, object, field->name, *text);
      else if (field->type == JSON_STRINGS)
        unbind_strings (doc, object, field->name, *(GPtrArray *const *) slot);
      else if (field->type == JSON_UINT64 && (field->required || *(const guint64 *) slot != 0))
        yyjson_mut_obj_add_uint (doc, object, field->name, *(const guint64 *) slot);
      else if (field->type == JSON_INT64 && (field->required || *(const gint64 *) slot != 0))
        yyjson_mut_obj_add_sint (doc, object, field->name, *(const gint64 *) slot);
      else if (field->type == JSON_BOOL && (field->required || *(const gboolean *) slot))
        yyjson_mut_obj_add_bool (doc, object, field->name, *(const gboolean *) slot);
      else if (field->type == JSON_DOUBLE && (field->required || *(const double *) slot != 0))
        yyjson_mut_obj_add_real (doc, object, field->name, *(const double *) slot);
    }
}

void
json_clear (const JsonField *fields, gsize n_fields, gpointer bound)
{
  for (gsize i = 0; i < n_fields; i++)
    {
      gpointer slot = (guint8 *) bound + fields[i].offset;
      if (fields[i].type == JSON_STRING)
        g_clear_pointer ((char **) slot, g_free);
      else if (fields[i].type == JSON_STRINGS)
        g_clear_pointer ((GPtrArray **) slot, g_ptr_array_unref);
    }
}

const char *
json_get_string (yyjson_val *object, const char *name)
{
  yyjson_val *value = yyjson_obj_get (object, name);
  return is_plain_string (value) ? yyjson_get_str (value) : NULL;
}

yyjson_val *
json_get_object (yyjson_val *object, const char *name)
{
  yyjson_val *value = yyjson_obj_get (object, name);
  return yyjson_is_obj (value) ? value : NULL;
}

yyjson_val *
json_get_array (yyjson_val *object, const char *name)
{
  yyjson_val *value = yyjson_obj_get (object, name);
  return yyjson_is_arr (value) ? value : NULL;
}

/* yyjson allocates with malloc and GLib frees with free: the same allocator since GLib 2.46. */
static char *
write_text (yyjson_mut_doc *doc, yyjson_write_flag flags, gsize *out_size)
{
  size_t size = 0;
  /* What JSON cannot say must not end the process: numbers become null, bytes that are not UTF-8 U+FFFD. */
  char *text = yyjson_mut_write (doc, flags | YYJSON_WRITE_INF_AND_NAN_AS_NULL, &size);
  if (text == NULL)
    {
      g_autofree char *raw = yyjson_mut_write (
        doc, flags | YYJSON_WRITE_INF_AND_NAN_AS_NULL | YYJSON_WRITE_ALLOW_INVALID_UNICODE, &size);
      g_assert (raw != NULL);
      text = g_utf8_make_valid (raw, (gssize) size);
      size = strlen (text);
    }
  if (out_size != NULL)
    *out_size = size;
  return text;
}

char *
json_write (yyjson_mut_doc *doc, gsize *out_size)
{
  return write_text (doc, YYJSON_WRITE_NOFLAG, out_size);
}

char *
json_write_pretty (yyjson_mut_doc *doc)
{
  return write_text (doc, YYJSON_WRITE_PRETTY_TWO_SPACES, NULL);
}
