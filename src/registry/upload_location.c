#include "registry/upload_location.h"

#include <string.h>

#include "net/http_client.h"

char *
upload_location_resolve (const char *request_url, const char *location, GError **error)
{
  g_autofree char *resolved = location == NULL
                                ? NULL
                                : g_uri_resolve_relative (request_url, location, G_URI_FLAGS_ENCODED, NULL);
  g_autofree char *origin = http_origin (resolved);
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
