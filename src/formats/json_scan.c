#include "formats/json_scan.h"

#include <string.h>

#include "formats/format_error.h"

void
json_scan_init (JsonScan *self, const char *text, gsize size)
{
  *self = (JsonScan){ .text = text, .size = size };
}

void
json_scan_clear (JsonScan *self)
{
  if (self->scratch != NULL)
    g_string_free (g_steal_pointer (&self->scratch), TRUE);
}

static gboolean
fail_at (JsonScan *self, const char *what, GError **error)
{
  return format_fail (error, "bad JSON at byte %" G_GSIZE_FORMAT ": %s", self->pos, what);
}

char
json_scan_peek (JsonScan *self)
{
  while (self->pos < self->size)
    {
      char c = self->text[self->pos];
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
        return c;
      self->pos++;
    }
  return 0;
}

gboolean
json_scan_open (JsonScan *self, char bracket, GError **error)
{
  if (json_scan_peek (self) != bracket)
    return fail_at (self, bracket == '{' ? "an object is expected" : "an array is expected", error);
  self->pos++;
  self->opened = TRUE;
  return TRUE;
}

gboolean
json_scan_next (JsonScan *self, char close, gboolean *out_more, GError **error)
{
  char c = json_scan_peek (self);
  gboolean first = self->opened;
  self->opened = FALSE;
  *out_more = c != close;
  if (c == close)
    {
      self->pos++;
      return TRUE;
    }
  if (first)
    return TRUE;
  if (c != ',')
    return fail_at (self, "a comma or the closing bracket is expected", error);
  self->pos++;
  return json_scan_peek (self) != close || fail_at (self, "a comma before the closing bracket", error);
}

/* Four hex digits at the position. */
static gboolean
scan_hex4 (JsonScan *self, guint *out_unit)
{
  if (self->size - self->pos < 4)
    return FALSE;
  guint unit = 0;
  for (guint i = 0; i < 4; i++)
    {
      int digit = g_ascii_xdigit_value (self->text[self->pos + i]);
      if (digit < 0)
        return FALSE;
      unit = unit << 4 | (guint) digit;
    }
  self->pos += 4;
  *out_unit = unit;
  return TRUE;
}

/* Behind "\u": one unit, or a pair of surrogates. A lone surrogate is no character. */
static gboolean
scan_unicode_escape (JsonScan *self, GError **error)
{
  guint high, low;
  if (!scan_hex4 (self, &high))
    return fail_at (self, "a bad \\u escape", error);
  gunichar c = high;
  if (high >= 0xd800 && high <= 0xdfff)
    {
      gboolean paired = high < 0xdc00 && self->size - self->pos >= 6
                        && memcmp (self->text + self->pos, "\\u", 2) == 0;
      self->pos += paired ? 2 : 0;
      if (!paired || !scan_hex4 (self, &low) || low < 0xdc00 || low > 0xdfff)
        return fail_at (self, "half a surrogate pair", error);
      c = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
  if (c == 0)
    g_string_append_c (self->scratch, '\0');
  else
    g_string_append_unichar (self->scratch, c);
  return TRUE;
}

/* Behind a backslash. */
static gboolean
scan_escape (JsonScan *self, GError **error)
{
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  char c = self->pos < self->size ? self->text[self->pos] : '\0';
  self->pos++;
  if (c == 'u')
    return scan_unicode_escape (self, error);
  const char *found = c != '\0' ? strchr (from, c) : NULL;
  if (found == NULL)
    return fail_at (self, "a bad escape", error);
  g_string_append_c (self->scratch, to[found - from]);
  return TRUE;
}

/* Behind the first escape's start: what stood before it is in `scratch`. */
static gboolean
scan_escaped_string (JsonScan *self, GError **error)
{
  while (self->pos < self->size)
    {
      guchar c = (guchar) self->text[self->pos++];
      if (c == '"')
        return TRUE;
      if (c < 0x20)
        return fail_at (self, "a control character in a string", error);
      if (c != '\\')
        g_string_append_c (self->scratch, (char) c);
      else if (!scan_escape (self, error))
        return FALSE;
    }
  return fail_at (self, "an unfinished string", error);
}

gboolean
json_scan_string (JsonScan *self, const char **out_text, gsize *out_size, GError **error)
{
  if (json_scan_peek (self) != '"')
    return fail_at (self, "a string is expected", error);
  gsize start = ++self->pos;
  self->opened = FALSE;
  for (; self->pos < self->size; self->pos++)
    {
      guchar c = (guchar) self->text[self->pos];
      if (c == '"')
        {
          *out_text = self->text + start;
          *out_size = self->pos++ - start;
          return TRUE;
        }
      if (c < 0x20)
        return fail_at (self, "a control character in a string", error);
      if (c != '\\')
        continue;
      if (self->scratch == NULL)
        self->scratch = g_string_new (NULL);
      g_string_truncate (self->scratch, 0);
      g_string_append_len (self->scratch, self->text + start, (gssize) (self->pos - start));
      if (!scan_escaped_string (self, error))
        return FALSE;
      *out_text = self->scratch->str;
      *out_size = self->scratch->len;
      return TRUE;
    }
  return fail_at (self, "an unfinished string", error);
}

gboolean
json_scan_key (JsonScan *self, const char **out_text, gsize *out_size, GError **error)
{
  if (!json_scan_string (self, out_text, out_size, error))
    return FALSE;
  if (json_scan_peek (self) != ':')
    return fail_at (self, "a colon is expected", error);
  self->pos++;
  return TRUE;
}

gboolean
json_scan_u64 (JsonScan *self, guint64 *out_value, GError **error)
{
  char c = json_scan_peek (self);
  self->opened = FALSE;
  if (!g_ascii_isdigit (c))
    return fail_at (self, "a non-negative integer is expected", error);
  gsize start = self->pos;
  guint64 value = 0;
  for (; self->pos < self->size && g_ascii_isdigit (self->text[self->pos]); self->pos++)
    if (__builtin_mul_overflow (value, 10, &value)
        || __builtin_add_overflow (value, (guint64) (self->text[self->pos] - '0'), &value))
      return fail_at (self, "an integer beyond 64 bits", error);
  if (c == '0' && self->pos > start + 1)
    return fail_at (self, "a number with a leading zero", error);
  if (self->pos < self->size && strchr (".eE", self->text[self->pos]) != NULL && self->text[self->pos] != '\0')
    return fail_at (self, "an integer is expected, not a fraction or an exponent", error);
  *out_value = value;
  return TRUE;
}

static gsize
skip_digits (JsonScan *self)
{
  gsize start = self->pos;
  while (self->pos < self->size && g_ascii_isdigit (self->text[self->pos]))
    self->pos++;
  return self->pos - start;
}

static gboolean
skip_byte (JsonScan *self, const char *set)
{
  if (self->pos >= self->size || self->text[self->pos] == '\0' || strchr (set, self->text[self->pos]) == NULL)
    return FALSE;
  self->pos++;
  return TRUE;
}

static gboolean
skip_number (JsonScan *self, GError **error)
{
  skip_byte (self, "-");
  gboolean zero = self->pos < self->size && self->text[self->pos] == '0';
  gsize n_digits = skip_digits (self);
  gboolean good = n_digits == 1 || (n_digits > 1 && !zero);
  if (good && skip_byte (self, "."))
    good = skip_digits (self) > 0;
  if (good && skip_byte (self, "eE"))
    {
      skip_byte (self, "+-");
      good = skip_digits (self) > 0;
    }
  return good || fail_at (self, "a bad number", error);
}

static gboolean
skip_scalar (JsonScan *self, GError **error)
{
  static const char *const words[] = { "true", "false", "null" };
  const char *text;
  gsize size;
  char c = json_scan_peek (self);
  self->opened = FALSE;
  if (c == '"')
    return json_scan_string (self, &text, &size, error);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      gsize length = strlen (words[i]);
      if (self->size - self->pos >= length && memcmp (self->text + self->pos, words[i], length) == 0)
        {
          self->pos += length;
          return TRUE;
        }
    }
  return skip_number (self, error);
}

gboolean
json_scan_skip (JsonScan *self, GError **error)
{
  guint depth = 0;
  guint64 objects = 0; /* bit d: level d is an object */
  const char *text;
  gsize size;
  do
    {
      char c = json_scan_peek (self);
      if (c == '{' || c == '[')
        {
          if (depth == JSON_SCAN_MAX_DEPTH)
            return fail_at (self, "nested too deeply", error);
          objects = c == '{' ? objects | G_GUINT64_CONSTANT (1) << depth
                             : objects & ~(G_GUINT64_CONSTANT (1) << depth);
          depth++;
          if (!json_scan_open (self, c, error))
            return FALSE;
        }
      else if (!skip_scalar (self, error))
        {
          return FALSE;
        }
      gboolean more = FALSE;
      while (depth > 0 && !more)
        {
          gboolean is_object = objects >> (depth - 1) & 1;
          if (!json_scan_next (self, is_object ? '}' : ']', &more, error))
            return FALSE;
          if (more && is_object && !json_scan_key (self, &text, &size, error))
            return FALSE;
          depth -= more ? 0 : 1;
        }
    }
  while (depth > 0);
  return TRUE;
}

gboolean
json_scan_end (JsonScan *self, GError **error)
{
  json_scan_peek (self);
  return self->pos == self->size || fail_at (self, "something follows the document", error);
}

gboolean
json_scan_is (const char *text, gsize size, const char *name)
{
  return size == strlen (name) && memcmp (text, name, size) == 0;
}
