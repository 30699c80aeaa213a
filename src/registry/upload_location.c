#include "registry/upload_location.h"

#include <string.h>

char *
url_origin (const char *url)
{
  g_autoptr (GUri) uri = url == NULL ? NULL : g_uri_parse (url, G_URI_FLAGS_ENCODED, NULL);
  if (uri == NULL || g_uri_get_host (uri) == NULL)
    return NULL;
  gboolean is_https = strcmp (g_uri_get_scheme (uri), "https") == 0;
  if (!is_https && strcmp (g_uri_get_scheme (uri), "http") != 0)
    return NULL;
  int port = g_uri_get_port (uri) > 0 ? g_uri_get_port (uri) : is_https ? 443 : 80;
  g_autofree char *host = g_ascii_strdown (g_uri_get_host (uri), -1);
  gboolean is_ip6 = strchr (host, ':') != NULL;
  return g_strdup_printf ("%s://%s%s%s:%d", g_uri_get_scheme (uri), is_ip6 ? "[" : "", host, is_ip6 ? "]" : "", port);
}

char *
upload_location_resolve (const char *request_url, const char *location, GError **error)
{
  g_autofree char *resolved = location == NULL
                                ? NULL
                                : g_uri_resolve_relative (request_url, location, G_URI_FLAGS_ENCODED, NULL);
  g_autofree char *origin = url_origin (resolved);
  if (origin == NULL)
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, "BLOB_UPLOAD_INVALID",
                         "the registry's answer has no usable Location to upload to");
  if (g_str_has_prefix (request_url, "https:") && g_str_has_prefix (origin, "http:"))
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, "BLOB_UPLOAD_INVALID",
                         "the registry's Location leads from https to http; refused");
  char *fragment = strchr (resolved, '#');
  if (fragment != NULL)
    *fragment = '\0';
  return g_steal_pointer (&resolved);
}

char *
upload_location_below (const char *location, const char *segment)
{
  gsize path = strcspn (location, "?");
  gboolean has_slash = path > 0 && location[path - 1] == '/';
  return g_strdup_printf ("%.*s%s%s%s", (int) path, location, has_slash ? "" : "/", segment, location + path);
}

char *
upload_location_with (const char *location, const char *name, const char *value)
{
  const char *query = strchr (location, '?');
  const char *joint = query == NULL ? "?" : query[1] == '\0' || g_str_has_suffix (location, "&") ? "" : "&";
  return g_strdup_printf ("%s%s%s=%s", location, joint, name, value);
}
