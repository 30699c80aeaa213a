#include "kube/kube_config.h"

#include <string.h>

#include "base/file.h"
#include "base/yaml_reader.h"

#define MAX_FILE_BYTES (1024 * 1024)
#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

void
kube_config_clear (KubeConfig *self)
{
  char **const texts[] = { &self->server,     &self->ca_pem,    &self->client_pem, &self->token,
                           &self->token_file, &self->proxy_url, &self->namespace };
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_clear_pointer (texts[i], g_free);
}

static char *
read_text (const char *path, GError **error)
{
  g_autoptr (GBytes) bytes = file_read (path, MAX_FILE_BYTES, error);
  if (bytes == NULL)
    return NULL;
  gsize size = 0;
  const char *text = g_bytes_get_data (bytes, &size);
  return g_strndup (text, size);
}

/* The object under `member` of the entry called `name` in a list such as "clusters". */
static yyjson_val *
find_entry (yyjson_val *root, const char *list, const char *member, const char *name, GError **error)
{
  size_t index, n;
  yyjson_val *entry;
  yyjson_arr_foreach (json_get_array (root, list), index, n, entry)
  {
    const char *entry_name = json_get_string (entry, "name");
    yyjson_val *found = json_get_object (entry, member);
    if (entry_name != NULL && strcmp (entry_name, name) == 0 && found != NULL)
      return found;
  }
  return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "no %s \"%s\" in it", member, name);
}

/* A text given as base64 under `<name>-data` or as a file under `name`; NULL when there is neither. */
static gboolean
read_data_or_file (yyjson_val *object, const char *name, const char *dir, char **out_text, GError **error)
{
  g_autofree char *data_name = g_strconcat (name, "-data", NULL);
  const char *encoded = json_get_string (object, data_name);
  const char *path = json_get_string (object, name);
  *out_text = NULL;
  if (encoded != NULL && encoded[0] != '\0')
    {
      gsize size = 0;
      g_autofree guchar *bytes = g_base64_decode (encoded, &size);
      if (size == 0 || memchr (bytes, '\0', size) != NULL)
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s is no base64 of a PEM text", data_name);
      *out_text = g_strndup ((const char *) bytes, size);
      return TRUE;
    }
  if (path == NULL || path[0] == '\0')
    return TRUE;
  g_autofree char *full = g_canonicalize_filename (path, dir);
  *out_text = read_text (full, error);
  return *out_text != NULL;
}

static gboolean
read_cluster (KubeConfig *self, yyjson_val *cluster, const char *dir, GError **error)
{
  const char *server = json_get_string (cluster, "server");
  if (server == NULL || (!g_str_has_prefix (server, "https://") && !g_str_has_prefix (server, "http://")))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the cluster's server is no http or https URL");
  self->server = g_strdup (server);
  while (g_str_has_suffix (self->server, "/"))
    self->server[strlen (self->server) - 1] = '\0';
  self->proxy_url = g_strdup (json_get_string (cluster, "proxy-url"));
  self->insecure_skip_verify = yyjson_is_true (yyjson_obj_get (cluster, "insecure-skip-tls-verify"));
  return read_data_or_file (cluster, "certificate-authority", dir, &self->ca_pem, error);
}

static gboolean
read_client_pem (KubeConfig *self, yyjson_val *user, const char *dir, GError **error)
{
  g_autofree char *certificate = NULL, *key = NULL;
  if (!read_data_or_file (user, "client-certificate", dir, &certificate, error)
      || !read_data_or_file (user, "client-key", dir, &key, error))
    return FALSE;
  if ((certificate != NULL) != (key != NULL))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                    "the user has a client certificate or key without the other");
  if (certificate != NULL)
    self->client_pem = g_strconcat (certificate, "\n", key, NULL);
  return TRUE;
}

static gboolean
read_user (KubeConfig *self, yyjson_val *user, const char *dir, GError **error)
{
  static const char *const foreign[] = { "exec", "auth-provider", "username", "password" };
  for (gsize i = 0; i < G_N_ELEMENTS (foreign); i++)
    if (yyjson_obj_get (user, foreign[i]) != NULL)
      return am_fail (error, AM_ERROR_UNIMPLEMENTED, NULL,
                      "its user is authenticated by \"%s\"; a token or a client certificate is needed", foreign[i]);
  const char *token_file = json_get_string (user, "tokenFile");
  self->token = g_strdup (json_get_string (user, "token"));
  if (token_file != NULL)
    self->token_file = g_canonicalize_filename (token_file, dir);
  return read_client_pem (self, user, dir, error);
}

static gboolean
read_context (KubeConfig *self, yyjson_val *root, const char *dir, const char *wanted, GError **error)
{
  const char *name = wanted != NULL ? wanted : json_get_string (root, "current-context");
  if (name == NULL || name[0] == '\0')
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "it has no current-context");
  yyjson_val *context = find_entry (root, "contexts", "context", name, error);
  if (context == NULL)
    return FALSE;
  const char *cluster_name = json_get_string (context, "cluster"), *user_name = json_get_string (context, "user");
  const char *namespace = json_get_string (context, "namespace");
  if (cluster_name == NULL || user_name == NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "context \"%s\" names no cluster or no user", name);
  yyjson_val *cluster = find_entry (root, "clusters", "cluster", cluster_name, error);
  yyjson_val *user = cluster != NULL ? find_entry (root, "users", "user", user_name, error) : NULL;
  self->namespace = g_strdup (namespace != NULL && namespace[0] != '\0' ? namespace : "default");
  return user != NULL && read_cluster (self, cluster, dir, error) && read_user (self, user, dir, error);
}

gboolean
kube_config_parse (const char *text, gsize size, const char *dir, const char *context, KubeConfig *out_config,
                   GError **error)
{
  g_auto (KubeConfig) config = { 0 };
  g_autoptr (yyjson_doc) doc = yaml_parse (text, size, MAX_FILE_BYTES, error);
  if (doc == NULL || !read_context (&config, yyjson_doc_get_root (doc), dir, context, error))
    return FALSE;
  *out_config = config;
  config = (KubeConfig){ 0 };
  return TRUE;
}

gboolean
kube_config_in_cluster (const char *dir, KubeConfig *out_config, GError **error)
{
  const char *host = g_getenv ("KUBERNETES_SERVICE_HOST"), *port = g_getenv ("KUBERNETES_SERVICE_PORT");
  const char *account = dir != NULL ? dir : ACCOUNT_DIR;
  g_auto (KubeConfig) config = { 0 };
  if (host == NULL || port == NULL)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "not in a Pod: KUBERNETES_SERVICE_HOST and _PORT are not set");
  config.token_file = g_build_filename (account, "token", NULL);
  g_autofree char *ca_file = g_build_filename (account, "ca.crt", NULL);
  g_autofree char *namespace_file = g_build_filename (account, "namespace", NULL);
  gboolean is_ipv6 = strchr (host, ':') != NULL;
  config.server = g_strdup_printf (is_ipv6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
  config.ca_pem = read_text (ca_file, error);
  config.namespace = config.ca_pem != NULL ? read_text (namespace_file, error) : NULL;
  if (config.namespace == NULL)
    return FALSE;
  g_strstrip (config.namespace);
  *out_config = config;
  config = (KubeConfig){ 0 };
  return TRUE;
}

static gboolean
load_file (const char *path, const char *context, KubeConfig *out_config, GError **error)
{
  g_autofree char *text = read_text (path, error);
  g_autofree char *full = g_canonicalize_filename (path, NULL);
  g_autofree char *dir = g_path_get_dirname (full);
  if (text == NULL)
    return FALSE;
  if (kube_config_parse (text, strlen (text), dir, context, out_config, error))
    return TRUE;
  g_prefix_error (error, "kubeconfig %s: ", path);
  return FALSE;
}

/* The first file of the list in $KUBECONFIG that is there, or NULL; caller frees. */
static char *
file_of_environment (void)
{
  const char *list = g_getenv ("KUBECONFIG");
  g_auto (GStrv) paths = g_strsplit (list != NULL ? list : "", ":", -1);
  for (guint i = 0; paths[i] != NULL; i++)
    if (paths[i][0] != '\0' && g_file_test (paths[i], G_FILE_TEST_EXISTS))
      return g_strdup (paths[i]);
  return NULL;
}

gboolean
kube_config_load (const char *path, const char *context, KubeConfig *out_config, GError **error)
{
  g_autofree char *named = path != NULL ? g_strdup (path) : file_of_environment ();
  if (named != NULL)
    return load_file (named, context, out_config, error);
  if (g_getenv ("KUBERNETES_SERVICE_HOST") != NULL)
    return kube_config_in_cluster (NULL, out_config, error);
  g_autofree char *home = g_build_filename (g_get_home_dir (), ".kube", "config", NULL);
  if (!g_file_test (home, G_FILE_TEST_EXISTS))
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL,
                    "no cluster is configured: $KUBECONFIG names no file, this is no Pod, and %s is not there", home);
  return load_file (home, context, out_config, error);
}
