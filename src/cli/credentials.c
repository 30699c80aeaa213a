#include "cli/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define CONFIG_LIMIT_BYTES (1u << 20)
#define PASSWORD_MAX_BYTES 4096

void
credentials_clear (Credentials *self)
{
  if (self->password != NULL)
    explicit_bzero (self->password, strlen (self->password));
  g_clear_pointer (&self->password, g_free);
  g_clear_pointer (&self->username, g_free);
}

/* `auth` is base64 of "user:password". */
static gboolean
decode_auth (const char *auth, const char *host, Credentials *out_credentials, GError **error)
{
  gsize size = 0;
  g_autofree guchar *decoded = g_base64_decode (auth, &size);
  g_autofree char *text = g_strndup ((const char *) decoded, size);
  explicit_bzero (decoded, size);
  char *colon = strchr (text, ':');
  gboolean good = colon != NULL && colon != text && strlen (text) == size && g_utf8_validate (text, -1, NULL);
  if (good)
    {
      out_credentials->username = g_strndup (text, (gsize) (colon - text));
      out_credentials->password = g_strdup (colon + 1);
    }
  explicit_bzero (text, strlen (text));
  return good
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the login for %s is not base64 of user:password", host);
}

/* TRUE when a key of `auths` means this host: "host", "host/", "https://host/v1/". */
static gboolean
key_is_host (const char *key, const char *host)
{
  const char *scheme = strstr (key, "://");
  const char *start = scheme != NULL ? scheme + 3 : key;
  gsize size = strcspn (start, "/");
  return size == strlen (host) && g_ascii_strncasecmp (start, host, size) == 0;
}

gboolean
credentials_parse (GBytes *config_json, const char *host, Credentials *out_credentials, GError **error)
{
  gsize size;
  const char *text = g_bytes_get_data (config_json, &size);
  g_autoptr (yyjson_doc) doc = json_parse (text, size, CONFIG_LIMIT_BYTES, JSON_STRICT, error);
  if (doc == NULL)
    return FALSE;
  yyjson_val *auths = json_get_object (yyjson_doc_get_root (doc), "auths");
  yyjson_val *entry = json_get_object (auths, host);
  size_t i, n;
  yyjson_val *key, *value;
  if (entry == NULL)
    yyjson_obj_foreach (auths, i, n, key, value)
    {
      if (entry == NULL && yyjson_is_obj (value) && key_is_host (yyjson_get_str (key), host))
        entry = value;
    }
  const char *auth = json_get_string (entry, "auth");
  if (auth == NULL || *auth == '\0')
    return TRUE;
  return decode_auth (auth, host, out_credentials, error);
}

static char *
config_path (void)
{
  const char *file = g_getenv ("REGISTRY_AUTH_FILE"), *folder = g_getenv ("DOCKER_CONFIG");
  if (file != NULL && *file != '\0')
    return g_strdup (file);
  if (folder != NULL && *folder != '\0')
    return g_build_filename (folder, "config.json", NULL);
  return g_build_filename (g_get_home_dir (), ".docker", "config.json", NULL);
}

gboolean
credentials_find (const char *host, Credentials *out_credentials, GError **error)
{
  g_autofree char *path = config_path ();
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE;
  g_autoptr (GBytes) bytes = file_read (path, CONFIG_LIMIT_BYTES, error);
  if (bytes != NULL && credentials_parse (bytes, host, out_credentials, error))
    return TRUE;
  g_prefix_error (error, "cannot read logins from %s: ", path);
  return FALSE;
}

char *
credentials_read_password (const char *path, GError **error)
{
  am_autofd int opened = strcmp (path, "-") == 0 ? -1 : open (path, O_RDONLY | O_CLOEXEC);
  int fd = strcmp (path, "-") == 0 ? STDIN_FILENO : opened;
  char buffer[PASSWORD_MAX_BYTES];
  gsize fill = 0;
  gssize n = fd < 0 ? -1 : 1;
  while (n > 0 && fill < sizeof buffer - 1 && memchr (buffer, '\n', fill) == NULL)
    {
      n = TEMP_FAILURE_RETRY (read (fd, buffer + fill, sizeof buffer - 1 - fill));
      fill += n > 0 ? (gsize) n : 0;
    }
  if (n < 0)
    {
      am_fail_errno (error, errno, "cannot read the password from %s", fd == STDIN_FILENO ? "standard input" : path);
      return NULL;
    }
  buffer[fill] = '\0';
  buffer[strcspn (buffer, "\r\n")] = '\0';
  char *password = *buffer != '\0' ? g_strdup (buffer) : NULL;
  explicit_bzero (buffer, sizeof buffer);
  if (password == NULL)
    am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the password is empty");
  return password;
}
