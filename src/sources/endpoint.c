#include "sources/endpoint.h"

#include <string.h>

#include "net/http_client.h"

char *
endpoint_origin (const char *url)
{
  g_autoptr (GUri) uri = g_uri_parse (url, G_URI_FLAGS_ENCODED | G_URI_FLAGS_HAS_PASSWORD, NULL);
  return uri != NULL && g_uri_get_userinfo (uri) == NULL ? http_origin (url) : NULL;
}

gboolean
endpoint_parse (const char *text, const char *setting, char **out_endpoint, char **out_origin, GError **error)
{
  gsize size = strlen (text);
  while (size > 0 && text[size - 1] == '/')
    size--;
  g_autofree char *endpoint = g_strndup (text, size);
  g_autofree char *origin = endpoint_origin (endpoint);
  if (origin == NULL || strpbrk (endpoint, "?#") != NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                    "the hub's address (%s) must be an http or https URL without user, query and fragment", setting);
  *out_endpoint = g_steal_pointer (&endpoint);
  *out_origin = g_steal_pointer (&origin);
  return TRUE;
}
