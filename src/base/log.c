#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define N_NUMBERS 16
#define MAX_VALUE_BYTES 4096

static AmLogLevel least_level = AM_LOG_INFO;
static AmLogFormat log_format = AM_LOG_FORMAT_TEXT;
static char *log_component;
static char *(*log_veil) (const char *value, gpointer data);
static gpointer log_veil_data;
static const char *const level_names[] = { "debug", "info", "warning", "error" };

void
am_log_init (AmLogLevel level, AmLogFormat format, const char *component)
{
  least_level = level;
  log_format = format;
  g_free (log_component);
  log_component = g_strdup (component);
}

void
am_log_set_veil (char *(*veil) (const char *value, gpointer data), gpointer data)
{
  log_veil = veil;
  log_veil_data = data;
}

gboolean
am_log_enabled (AmLogLevel level)
{
  return level >= least_level;
}

gboolean
am_log_level_parse (const char *text, AmLogLevel *out_level)
{
  for (guint i = 0; i < G_N_ELEMENTS (level_names); i++)
    if (g_ascii_strcasecmp (text, level_names[i]) == 0)
      {
        *out_level = (AmLogLevel) i;
        return TRUE;
      }
  return FALSE;
}

/* JSON string body; bytes that are not UTF-8 become U+FFFD, so a line is always valid JSON. */
static void
append_escaped (GString *line, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, (gssize) strnlen (text, MAX_VALUE_BYTES));
  for (const guchar *c = (const guchar *) valid; *c != '\0'; c++)
    {
      if (*c == '"' || *c == '\\')
        g_string_append_c (line, '\\');
      if (*c < 0x20 || *c == 0x7f)
        g_string_append_printf (line, "\\u%04x", *c);
      else
        g_string_append_c (line, (char) *c);
    }
}

static void
append_field (const char *key, const char *value, gpointer data)
{
  GString *line = data;
  if (value == NULL)
    return;
  g_autofree char *veiled = log_veil != NULL ? log_veil (value, log_veil_data) : NULL;
  if (veiled != NULL)
    value = veiled;
  if (log_format == AM_LOG_FORMAT_JSON)
    {
      g_string_append_printf (line, ",\"%s\":\"", key);
      append_escaped (line, value);
      g_string_append_c (line, '"');
      return;
    }
  gboolean bare = *value != '\0' && strpbrk (value, " \t\r\n\"\\=") == NULL;
  g_string_append_printf (line, bare ? " %s=" : " %s=\"", key);
  append_escaped (line, value);
  if (!bare)
    g_string_append_c (line, '"');
}

static void
append_head (GString *line, AmLogLevel level, const char *message)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *seconds = g_date_time_format (now, "%Y-%m-%dT%H:%M:%S");
  int milliseconds = g_date_time_get_microsecond (now) / 1000;
  if (log_format == AM_LOG_FORMAT_TEXT)
    {
      g_string_append_printf (line, "%s.%03dZ %-7s %s", seconds, milliseconds, level_names[level], message);
      return;
    }
  g_string_append_printf (line, "{\"ts\":\"%s.%03dZ\",\"level\":\"%s\",\"msg\":\"", seconds, milliseconds,
                          level_names[level]);
  append_escaped (line, message);
  g_string_append_c (line, '"');
  if (log_component != NULL)
    append_field ("component", log_component, line);
}

void
am_log (Ctx *ctx, AmLogLevel level, const char *message, ...)
{
  if (!am_log_enabled (level))
    return;
  g_autoptr (GString) line = g_string_sized_new (256);
  append_head (line, level, message);
  ctx_foreach_field (ctx, append_field, line);
  va_list args;
  va_start (args, message);
  for (const char *key = va_arg (args, const char *); key != NULL; key = va_arg (args, const char *))
    append_field (key, va_arg (args, const char *), line);
  va_end (args);
  g_string_append (line, log_format == AM_LOG_FORMAT_JSON ? "}\n" : "\n");
  if (write (STDERR_FILENO, line->str, line->len) < 0)
    {
      /* Nowhere left to say it. */
    }
}

const char *
am_u64 (guint64 value)
{
  static _Thread_local char numbers[N_NUMBERS][24];
  static _Thread_local guint next;
  char *text = numbers[next++ % N_NUMBERS];
  g_snprintf (text, sizeof numbers[0], "%" G_GUINT64_FORMAT, value);
  return text;
}
