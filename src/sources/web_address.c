#include "sources/web_address.h"

#include <string.h>

const char *
web_address_start (const char *text)
{
  while (g_ascii_isspace (*text))
    text++;
  return text;
}

gboolean
web_address_has_scheme (const char *text, const char *scheme)
{
  return g_ascii_strncasecmp (text, scheme, strlen (scheme)) == 0;
}

const char *
web_address_after_host (const char *text, const char *const *hosts)
{
  gsize size = strcspn (text, "/?#");
  gsize name_size = size > 4 && strncmp (text + size - 4, ":443", 4) == 0 ? size - 4 : size;
  for (gsize i = 0; hosts[i] != NULL; i++)
    if (strlen (hosts[i]) == name_size && g_ascii_strncasecmp (text, hosts[i], name_size) == 0)
      return text + size;
  return NULL;
}

const char *
web_address_after_endpoint (const char *text, const char *endpoint)
{
  gsize size = endpoint != NULL ? strlen (endpoint) : 0;
  if (size == 0 || strncmp (text, endpoint, size) != 0 || (text[size] != '\0' && strchr ("/?#", text[size]) == NULL))
    return NULL;
  return text + size;
}

gboolean
web_address_has_user_info (const char *text)
{
  const char *scheme = strstr (text, "://");
  return scheme != NULL && scheme[3 + strcspn (scheme + 3, "@/?#")] == '@';
}

GPtrArray *
web_address_segments (const char *path, gsize size)
{
  g_autoptr (GPtrArray) segments = g_ptr_array_new_with_free_func (g_free);
  while (size > 0 && path[0] == '/')
    {
      path++;
      size--;
    }
  while (size > 0 && path[size - 1] == '/')
    size--;
  g_autofree char *text = g_strndup (path, size);
  g_auto (GStrv) parts = g_strsplit (text, "/", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      char *decoded = g_uri_unescape_string (parts[i], NULL);
      if (decoded == NULL || *decoded == '\0')
        {
          g_free (decoded);
          return NULL;
        }
      g_ptr_array_add (segments, decoded);
    }
  return g_steal_pointer (&segments);
}

const char *
web_address_segment (const GPtrArray *segments, guint i)
{
  return i < segments->len ? g_ptr_array_index (segments, i) : NULL;
}

char *
web_address_join (const GPtrArray *segments, guint first)
{
  if (first >= segments->len)
    return NULL;
  g_autoptr (GString) text = g_string_new (web_address_segment (segments, first));
  for (guint i = first + 1; i < segments->len; i++)
    g_string_append_printf (text, "/%s", web_address_segment (segments, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
}

gboolean
web_address_fail (GError **error, const char *reason, const char *text, const char *why)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, reason, "\"%.*s\" %s", (int) MIN (strcspn (text, "?#"), 200),
                  text, why);
}
