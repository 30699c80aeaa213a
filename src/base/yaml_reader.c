#include "base/yaml_reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"

typedef struct {
  yaml_parser_t parser;
  yyjson_mut_doc *doc;
} YamlReader;

static gboolean
fail_at (const yaml_mark_t *mark, GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                  "YAML, line %" G_GSIZE_FORMAT " column %" G_GSIZE_FORMAT ": %s", mark->line + 1, mark->column + 1,
                  what);
}

static gboolean
next_event (YamlReader *self, yaml_event_t *out_event, GError **error)
{
  if (yaml_parser_parse (&self->parser, out_event))
    return TRUE;
  const char *problem = self->parser.problem != NULL ? self->parser.problem : "not YAML";
  return fail_at (&self->parser.problem_mark, error, problem);
}

/* Plain words of the core schema. */
static const struct {
  const char *text;
  enum { WORD_NULL, WORD_TRUE, WORD_FALSE } meaning;
} words[] = {
  { "", WORD_NULL },       { "~", WORD_NULL },      { "null", WORD_NULL },   { "Null", WORD_NULL },
  { "NULL", WORD_NULL },   { "true", WORD_TRUE },   { "True", WORD_TRUE },   { "TRUE", WORD_TRUE },
  { "false", WORD_FALSE }, { "False", WORD_FALSE }, { "FALSE", WORD_FALSE },
};

static gboolean
read_integer (const char *text, gint64 *out_value)
{
  const char *digits = text + (*text == '-' || *text == '+');
  char *end = NULL;
  gboolean is_other_base = g_str_has_prefix (text, "0x") || g_str_has_prefix (text, "0o");
  if (digits[0] == '\0' || (!is_other_base && strspn (digits, "0123456789") != strlen (digits)))
    return FALSE;
  errno = 0;
  if (is_other_base)
    *out_value = g_ascii_strtoll (text + 2, &end, text[1] == 'x' ? 16 : 8);
  else
    *out_value = g_ascii_strtoll (text, &end, 10);
  return errno == 0 && *end == '\0' && (!is_other_base || g_ascii_isxdigit (text[2]));
}

static gboolean
read_real (const char *text, double *out_value)
{
  char *end = NULL;
  if (strspn (text, "0123456789+-.eE") != strlen (text) || strpbrk (text, "0123456789") == NULL)
    return FALSE;
  *out_value = g_ascii_strtod (text, &end);
  return *end == '\0' && isfinite (*out_value);
}

static yyjson_mut_val *
read_plain (yyjson_mut_doc *doc, const char *text, gsize size)
{
  gint64 integer;
  double real;
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (strcmp (words[i].text, text) == 0)
      return words[i].meaning == WORD_NULL ? yyjson_mut_null (doc)
                                           : yyjson_mut_bool (doc, words[i].meaning == WORD_TRUE);
  if (read_integer (text, &integer))
    return yyjson_mut_sint (doc, integer);
  if (read_real (text, &real))
    return yyjson_mut_real (doc, real);
  return yyjson_mut_strncpy (doc, text, size);
}

static yyjson_mut_val *
read_scalar (YamlReader *self, const yaml_event_t *event, GError **error)
{
  const char *text = (const char *) event->data.scalar.value;
  gsize size = event->data.scalar.length;
  if (strlen (text) != size)
    {
      fail_at (&event->start_mark, error, "a NUL in a text");
      return NULL;
    }
  gboolean is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && event->data.scalar.tag == NULL;
  return is_plain ? read_plain (self->doc, text, size) : yyjson_mut_strncpy (self->doc, text, size);
}

static yyjson_mut_val *read_node (YamlReader *self, const yaml_event_t *event, guint depth, GError **error);

static yyjson_mut_val *
read_next (YamlReader *self, guint depth, yaml_event_type_t end, gboolean *out_ended, GError **error)
{
  yaml_event_t event;
  if (!next_event (self, &event, error))
    return NULL;
  *out_ended = event.type == end;
  yyjson_mut_val *value = *out_ended ? NULL : read_node (self, &event, depth, error);
  yaml_event_delete (&event);
  return value;
}

static yyjson_mut_val *
read_sequence (YamlReader *self, guint depth, GError **error)
{
  yyjson_mut_val *array = yyjson_mut_arr (self->doc);
  for (;;)
    {
      gboolean ended = FALSE;
      yyjson_mut_val *value = read_next (self, depth + 1, YAML_SEQUENCE_END_EVENT, &ended, error);
      if (ended)
        return array;
      if (value == NULL)
        return NULL;
      yyjson_mut_arr_append (array, value);
    }
}

static yyjson_mut_val *
read_mapping (YamlReader *self, guint depth, GError **error)
{
  yyjson_mut_val *object = yyjson_mut_obj (self->doc);
  for (;;)
    {
      yaml_event_t event;
      if (!next_event (self, &event, error))
        return NULL;
      yaml_event_type_t type = event.type;
      yaml_mark_t mark = event.start_mark;
      const char *text = type == YAML_SCALAR_EVENT ? (const char *) event.data.scalar.value : "";
      yyjson_mut_val *key = yyjson_mut_strcpy (self->doc, text);
      yaml_event_delete (&event);
      if (type == YAML_MAPPING_END_EVENT)
        return object;
      const char *problem = NULL;
      if (type != YAML_SCALAR_EVENT)
        problem = "a key that is no text";
      else if (yyjson_mut_obj_get (object, yyjson_mut_get_str (key)) != NULL)
        problem = "the same key twice";
      if (problem != NULL)
        {
          fail_at (&mark, error, problem);
          return NULL;
        }
      gboolean ended = FALSE;
      yyjson_mut_val *value = read_next (self, depth + 1, YAML_NO_EVENT, &ended, error);
      if (value == NULL)
        return NULL;
      yyjson_mut_obj_add (object, key, value);
    }
}

static yyjson_mut_val *
read_node (YamlReader *self, const yaml_event_t *event, guint depth, GError **error)
{
  const char *problem = NULL;
  if (event->type == YAML_ALIAS_EVENT)
    problem = "aliases are not read";
  else if (depth >= JSON_MAX_DEPTH)
    problem = "nested too deeply";
  if (problem != NULL)
    {
      fail_at (&event->start_mark, error, problem);
      return NULL;
    }
  switch (event->type)
    {
    case YAML_SCALAR_EVENT: return read_scalar (self, event, error);
    case YAML_SEQUENCE_START_EVENT: return read_sequence (self, depth, error);
    case YAML_MAPPING_START_EVENT: return read_mapping (self, depth, error);
    default: fail_at (&event->start_mark, error, "a value is missing"); return NULL;
    }
}

/* Past the marks of stream and document; the caller deletes the event. */
static gboolean
skip_to_content (YamlReader *self, yaml_event_t *out_event, GError **error)
{
  while (next_event (self, out_event, error))
    {
      if (out_event->type != YAML_STREAM_START_EVENT && out_event->type != YAML_DOCUMENT_START_EVENT
          && out_event->type != YAML_DOCUMENT_END_EVENT)
        return TRUE;
      yaml_event_delete (out_event);
    }
  return FALSE;
}

static yyjson_mut_val *
read_document (YamlReader *self, GError **error)
{
  yaml_event_t event, after;
  if (!skip_to_content (self, &event, error))
    return NULL;
  if (event.type == YAML_STREAM_END_EVENT)
    return yyjson_mut_null (self->doc);
  yyjson_mut_val *root = read_node (self, &event, 0, error);
  yaml_event_delete (&event);
  if (root == NULL || !skip_to_content (self, &after, error))
    return NULL;
  gboolean is_alone = after.type == YAML_STREAM_END_EVENT || fail_at (&after.start_mark, error, "a second document");
  yaml_event_delete (&after);
  return is_alone ? root : NULL;
}

yyjson_doc *
yaml_parse (gconstpointer data, gsize size, gsize limit_bytes, GError **error)
{
  if (size > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                         "the YAML has %" G_GSIZE_FORMAT " bytes, more than the %" G_GSIZE_FORMAT " that are read",
                         size, limit_bytes);
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  YamlReader self = { .doc = doc };
  g_autoptr (GError) problem = NULL;
  if (!yaml_parser_initialize (&self.parser))
    return am_fail_null (error, AM_ERROR_INTERNAL, NULL, "libyaml cannot be set up");
  yaml_parser_set_encoding (&self.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string (&self.parser, data, size);
  yyjson_mut_val *root = read_document (&self, &problem);
  yaml_parser_delete (&self.parser);
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  yyjson_mut_doc_set_root (doc, root);
  return yyjson_mut_doc_imut_copy (doc, NULL);
}
