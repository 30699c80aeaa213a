#include "registry/resume_file.h"

#include <glib/gstdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

#define LIMIT_BYTES 16384

char *
resume_file_path (const char *dir, const char *host, const char *name, const char *key)
{
  if (dir == NULL || key == NULL)
    return NULL;
  g_autofree char *text = g_strdup_printf ("%s\n%s\n%s", host, name, key);
  Digest digest;
  char hex[2 * DIGEST_MAX_BYTES + 1];
  digest_of (DIGEST_SHA256, text, strlen (text), &digest);
  return g_strdup_printf ("%s/%s.json", dir, digest_hex (&digest, hex));
}

char *
resume_file_load (const char *path)
{
  g_autoptr (GError) problem = NULL;
  if (path == NULL)
    return NULL;
  g_autoptr (GBytes) bytes = file_read (path, LIMIT_BYTES, &problem);
  if (bytes == NULL)
    {
      am_ignore (&problem, "no push was interrupted");
      return NULL;
    }
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, LIMIT_BYTES, JSON_STRICT, &problem);
  const char *location = doc == NULL ? NULL : json_get_string (yyjson_doc_get_root (doc), "location");
  am_ignore (&problem, "a damaged note starts the push anew");
  return location != NULL && location[0] == '/' && location[1] != '/' ? g_strdup (location) : NULL;
}

void
resume_file_save (Ctx *ctx, const char *path, const char *location)
{
  g_autoptr (GError) problem = NULL;
  const char *after_scheme = strstr (location, "://");
  const char *url_path = after_scheme == NULL ? NULL : strchr (after_scheme + 3, '/');
  if (path == NULL || url_path == NULL || strchr (url_path, '?') != NULL)
    return;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "location", url_path);
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  g_autofree char *dir = g_path_get_dirname (path);
  if (!file_make_dirs (dir, NULL, &problem) || !file_replace (path, text, size, &problem))
    am_log_warning (ctx, "the push cannot be resumed if it is interrupted", "err", problem->message, NULL);
}

void
resume_file_remove (const char *path)
{
  if (path != NULL)
    g_unlink (path);
}
