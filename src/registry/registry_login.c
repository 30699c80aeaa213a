#include "registry/registry_login.h"

#include <string.h>

#include "base/file.h"

#define MAX_LOGIN_BYTES 4096

static char *
read_login (const char *dir, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename (dir, name, NULL);
  g_autoptr (GBytes) bytes = file_read (path, MAX_LOGIN_BYTES, error);
  return bytes != NULL ? g_strstrip (g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes))) : NULL;
}

char *
registry_login_header (const char *dir, GError **error)
{
  g_autofree char *user = read_login (dir, "username", error);
  g_autofree char *password = user != NULL ? read_login (dir, "password", error) : NULL;
  if (password == NULL)
    return NULL;
  g_autofree char *pair = g_strdup_printf ("%s:%s", user, password);
  g_autofree char *encoded = g_base64_encode ((const guchar *) pair, strlen (pair));
  return g_strconcat ("Basic ", encoded, NULL);
}

gboolean
registry_tell_failure (const char *who, const GError *failure, guint status, GError **error)
{
  const AmErrorInfo *info = am_error_info_of (failure);
  const char *reason = am_error_reason (failure);
  if (info->code == AM_ERROR_CANCELLED)
    return am_fail (error, AM_ERROR_CANCELLED, NULL, "stopped");
  if (status != 0)
    return am_fail (error, info->code, reason, "%s answered with status %u", who, status);
  return am_fail (error, info->code, reason, "%s cannot be reached (%s)", who, reason != NULL ? reason : info->name);
}
