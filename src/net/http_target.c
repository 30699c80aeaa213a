#include "net/http_target.h"

#include <string.h>

#define MAX_ARGUMENTS 256

typedef struct {
  char *text; /* the literal, or the parameter's name */
  enum { PART_LITERAL, PART_ONE, PART_MANY } kind;
} PatternPart;

struct HttpPattern {
  GArray *parts;
  guint n_parts;
  guint many; /* index of {x+}, or n_parts */
};

static HttpArgument *
argument_new (char *name, char *value)
{
  HttpArgument *self = g_new (HttpArgument, 1);
  *self = (HttpArgument){ name, value };
  return self;
}

static void
argument_free (gpointer data)
{
  HttpArgument *self = data;
  g_free (self->name);
  g_free (self->value);
  g_free (self);
}

/* Decodes %XX (and "+" as a blank in queries) once. NULL on a bad escape, NUL or invalid UTF-8. */
static char *
decode (const char *text, gsize size, gboolean plus_is_blank)
{
  g_autoptr (GString) out = g_string_sized_new (size);
  for (gsize i = 0; i < size; i++)
    {
      char c = text[i];
      if (c == '%')
        {
          int high = i + 2 < size ? g_ascii_xdigit_value (text[i + 1]) : -1;
          int low = i + 2 < size ? g_ascii_xdigit_value (text[i + 2]) : -1;
          if (high < 0 || low < 0)
            return NULL;
          c = (char) (high << 4 | low);
          i += 2;
        }
      else if (c == '+' && plus_is_blank)
        c = ' ';
      if (c == '\0')
        return NULL;
      g_string_append_c (out, c);
    }
  if (!g_utf8_validate (out->str, (gssize) out->len, NULL))
    return NULL;
  return g_string_free (g_steal_pointer (&out), FALSE);
}

static gboolean
is_bad_segment (const char *segment)
{
  if (strcmp (segment, ".") == 0 || strcmp (segment, "..") == 0)
    return TRUE;
  for (const guchar *c = (const guchar *) segment; *c != '\0'; c++)
    if (*c < 0x20 || *c == 0x7f)
      return TRUE;
  return FALSE;
}

/* For `path`: slashes inside a segment stay escaped. */
static void
append_segment (GString *path, const char *segment)
{
  g_string_append_c (path, '/');
  for (const char *c = segment; *c != '\0'; c++)
    if (*c == '/')
      g_string_append (path, "%2F");
    else
      g_string_append_c (path, *c);
}

static gboolean
parse_path (const char *raw, gsize size, HttpTarget *target, GError **error)
{
  g_autoptr (GString) path = g_string_sized_new (size);
  const char *end = raw + size;
  for (const char *start = raw + 1; start <= end;)
    {
      const char *slash = memchr (start, '/', (gsize) (end - start));
      const char *stop = slash != NULL ? slash : end;
      char *segment = decode (start, (gsize) (stop - start), FALSE);
      if (segment == NULL || is_bad_segment (segment))
        {
          g_free (segment);
          return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "malformed path");
        }
      append_segment (path, segment);
      g_ptr_array_add (target->segments, segment);
      start = stop + 1;
    }
  target->path = g_string_free (g_steal_pointer (&path), FALSE);
  return TRUE;
}

static gboolean
parse_query (const char *raw, HttpTarget *target, GError **error)
{
  while (*raw != '\0')
    {
      gsize size = strcspn (raw, "&");
      const char *equals = memchr (raw, '=', size);
      gsize name_size = equals != NULL ? (gsize) (equals - raw) : size;
      if (size > 0)
        {
          g_autofree char *name = decode (raw, name_size, TRUE);
          g_autofree char *value = equals != NULL ? decode (equals + 1, size - name_size - 1, TRUE) : g_strdup ("");
          if (name == NULL || value == NULL || target->query->len >= MAX_ARGUMENTS)
            return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "malformed query");
          g_ptr_array_add (target->query, argument_new (g_steal_pointer (&name), g_steal_pointer (&value)));
        }
      raw += size + (raw[size] == '&');
    }
  return TRUE;
}

/* Skips "http://host" of the absolute form. */
static const char *
skip_authority (const char *raw)
{
  gsize scheme = g_ascii_strncasecmp (raw, "http://", 7) == 0    ? 7
                 : g_ascii_strncasecmp (raw, "https://", 8) == 0 ? 8
                                                                 : 0;
  return scheme > 0 ? raw + scheme + strcspn (raw + scheme, "/?") : raw;
}

gboolean
http_target_parse (const char *raw, HttpTarget *out_target, GError **error)
{
  g_auto (HttpTarget) target = { 0 };
  target.segments = g_ptr_array_new_with_free_func (g_free);
  target.query = g_ptr_array_new_with_free_func (argument_free);
  raw = skip_authority (raw);
  gsize path_size = strcspn (raw, "?");
  if (*raw != '/' || strchr (raw, '#') != NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "malformed request target");
  if (!parse_path (raw, path_size, &target, error))
    return FALSE;
  if (raw[path_size] == '?' && !parse_query (raw + path_size + 1, &target, error))
    return FALSE;
  *out_target = target;
  target = (HttpTarget){ 0 };
  return TRUE;
}

void
http_target_clear (HttpTarget *self)
{
  g_clear_pointer (&self->path, g_free);
  g_clear_pointer (&self->segments, g_ptr_array_unref);
  g_clear_pointer (&self->query, g_ptr_array_unref);
}

static void
part_clear (gpointer data)
{
  g_free (((PatternPart *) data)->text);
}

HttpPattern *
http_pattern_new (const char *text)
{
  HttpPattern *self = g_new0 (HttpPattern, 1);
  self->parts = g_array_new (FALSE, FALSE, sizeof (PatternPart));
  g_array_set_clear_func (self->parts, part_clear);
  g_assert (text[0] == '/');
  g_auto (GStrv) texts = g_strsplit (text + 1, "/", -1);
  self->n_parts = self->many = g_strv_length (texts);
  if (self->n_parts == 0) /* g_strsplit makes nothing of "" */
    {
      PatternPart root = { g_strdup (""), PART_LITERAL };
      g_array_append_val (self->parts, root);
      self->n_parts = self->many = 1;
    }
  for (guint i = 0; texts[i] != NULL; i++)
    {
      gsize size = strlen (texts[i]);
      PatternPart part = { NULL, PART_LITERAL };
      if (texts[i][0] == '{')
        {
          g_assert (size > 2 && texts[i][size - 1] == '}');
          part.kind = texts[i][size - 2] == '+' ? PART_MANY : PART_ONE;
          part.text = g_strndup (texts[i] + 1, size - (part.kind == PART_MANY ? 3 : 2));
        }
      else
        part.text = g_strdup (texts[i]);
      if (part.kind == PART_MANY)
        {
          g_assert (self->many == self->n_parts);
          self->many = i;
        }
      g_array_append_val (self->parts, part);
    }
  return self;
}

void
http_pattern_free (HttpPattern *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->parts);
  g_free (self);
}

/* The value of one part over [first, first + count) of the segments; NULL when it does not fit. */
static char *
take_segments (const PatternPart *part, const HttpTarget *target, guint first, guint count)
{
  g_autoptr (GString) value = g_string_new (NULL);
  for (guint i = first; i < first + count; i++)
    {
      const char *segment = g_ptr_array_index (target->segments, i);
      if (*segment == '\0' || (part->kind == PART_MANY && strchr (segment, '/') != NULL))
        return NULL;
      g_string_append_printf (value, i > first ? "/%s" : "%s", segment);
    }
  return g_string_free (g_steal_pointer (&value), FALSE);
}

GPtrArray *
http_pattern_match (const HttpPattern *self, const HttpTarget *target)
{
  guint n_segments = target->segments->len;
  gboolean has_many = self->many < self->n_parts;
  if (has_many ? n_segments < self->n_parts : n_segments != self->n_parts)
    return NULL;
  g_autoptr (GPtrArray) arguments = g_ptr_array_new_with_free_func (argument_free);
  guint at = 0;
  for (guint i = 0; i < self->n_parts; i++)
    {
      const PatternPart *part = &g_array_index (self->parts, PatternPart, i);
      guint count = part->kind == PART_MANY ? n_segments - self->n_parts + 1 : 1;
      if (part->kind == PART_LITERAL)
        {
          if (strcmp (part->text, g_ptr_array_index (target->segments, at)) != 0)
            return NULL;
        }
      else
        {
          char *value = take_segments (part, target, at, count);
          if (value == NULL)
            return NULL;
          g_ptr_array_add (arguments, argument_new (g_strdup (part->text), value));
        }
      at += count;
    }
  return g_steal_pointer (&arguments);
}

const char *
http_arguments_find (const GPtrArray *arguments, const char *name)
{
  for (guint i = 0; arguments != NULL && i < arguments->len; i++)
    {
      const HttpArgument *argument = g_ptr_array_index (arguments, i);
      if (strcmp (argument->name, name) == 0)
        return argument->value;
    }
  return NULL;
}
