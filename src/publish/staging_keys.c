#include "publish/staging_keys.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"

#define LIMIT_BYTES 4096

static gboolean
differs (const char *dir, const char *file, const char *variable)
{
  g_autoptr (GError) problem = NULL;
  g_autofree char *path = g_build_filename (dir, file, NULL);
  const char *held = g_getenv (variable);
  g_autoptr (GBytes) bytes = file_read (path, LIMIT_BYTES, &problem);
  if (bytes == NULL)
    {
      am_ignore (&problem, "the keys that are there go on");
      return FALSE;
    }
  g_autofree char *now = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  return held != NULL && strcmp (now, held) != 0;
}

gboolean
staging_keys_are_old (const char *dir)
{
  return dir != NULL
         && (differs (dir, "accessKey", "AWS_ACCESS_KEY_ID") || differs (dir, "secretKey", "AWS_SECRET_ACCESS_KEY"));
}
