#include "storage/s3_config.h"

#include <string.h>

#include "base/file.h"

#define MAX_SHARED_FILE_BYTES (1u << 20)
#define DEFAULT_REGION "us-east-1"

void
s3_config_clear (S3Config *self)
{
  if (self->secret_access_key != NULL)
    explicit_bzero (self->secret_access_key, strlen (self->secret_access_key));
  char **const places[] = { &self->endpoint,      &self->region,        &self->bucket,
                            &self->prefix,        &self->access_key_id, &self->secret_access_key,
                            &self->session_token, &self->ca_file };
  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    g_clear_pointer (places[i], g_free);
}

/* The first of the variables that is set to something; NULL: none. */
static const char *
from_environment (const char *first, const char *second)
{
  const char *value = g_getenv (first);
  if (value == NULL || *value == '\0')
    value = second != NULL ? g_getenv (second) : NULL;
  return value != NULL && *value != '\0' ? value : NULL;
}

static gboolean
fail_url (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s: a bucket is named as %sBUCKET[/PREFIX][?endpoint=URL]",
                  what, S3_SCHEME);
}

static gboolean
take_flag (gboolean *out_flag, const char *text)
{
  *out_flag = strcmp (text, "true") == 0;
  return *out_flag || strcmp (text, "false") == 0;
}

/* A region becomes part of a host name. */
static gboolean
is_plain_name (const char *text, const char *also)
{
  for (const char *at = text; *at != '\0'; at++)
    if (!g_ascii_isalnum (*at) && strchr (also, *at) == NULL)
      return FALSE;
  return *text != '\0';
}

static gboolean
take_bucket (S3Config *self, GUri *uri, GError **error)
{
  const char *bucket = g_uri_get_host (uri);
  g_autofree char *path = g_strdup (g_uri_get_path (uri));
  char *prefix = path + strspn (path, "/");
  while (g_str_has_suffix (prefix, "/"))
    prefix[strlen (prefix) - 1] = '\0';
  if (bucket == NULL || strlen (bucket) < 3 || strlen (bucket) > 63 || !is_plain_name (bucket, "-._"))
    return fail_url (error, "the name of the bucket is missing or malformed");
  if (g_uri_get_userinfo (uri) != NULL)
    return fail_url (error, "keys do not belong into a URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  if (g_uri_get_port (uri) != -1 || g_uri_get_fragment (uri) != NULL)
    return fail_url (error, "a port or a fragment makes no sense here");
  if (*prefix != '\0' && !path_is_safe (prefix))
    return fail_url (error, "the prefix is malformed");
  self->bucket = g_strdup (bucket);
  self->prefix = *prefix != '\0' ? g_strconcat (prefix, "/", NULL) : g_strdup ("");
  return TRUE;
}

/* "https://host[:port]", without a port that goes without saying: it would be signed, but not sent. */
static char *
normal_endpoint (const char *text)
{
  g_autoptr (GUri) uri = g_uri_parse (text, G_URI_FLAGS_NONE, NULL);
  if (uri == NULL || g_uri_get_host (uri) == NULL || *g_uri_get_host (uri) == '\0' || g_uri_get_userinfo (uri) != NULL
      || g_uri_get_query (uri) != NULL || strspn (g_uri_get_path (uri), "/") != strlen (g_uri_get_path (uri)))
    return NULL;
  const char *scheme = g_uri_get_scheme (uri);
  int usual = strcmp (scheme, "https") == 0 ? 443 : strcmp (scheme, "http") == 0 ? 80 : 0;
  if (usual == 0)
    return NULL;
  int port = g_uri_get_port (uri) == usual ? -1 : g_uri_get_port (uri);
  return g_uri_join (G_URI_FLAGS_NONE, scheme, NULL, g_uri_get_host (uri), port, "", NULL, NULL);
}

typedef struct {
  const char *endpoint, *region, *path_style, *ca_file;
} Wishes;

static gboolean
read_query (GUri *uri, GHashTable **out_parameters, Wishes *out_wishes, GError **error)
{
  const char *query = g_uri_get_query (uri);
  const struct {
    const char *name;
    const char **place;
  } names[] = { { "endpoint", &out_wishes->endpoint },
                { "region", &out_wishes->region },
                { "path-style", &out_wishes->path_style },
                { "ca-file", &out_wishes->ca_file } };
  *out_parameters = g_uri_parse_params (query != NULL ? query : "", -1, "&", G_URI_PARAMS_NONE, NULL);
  if (*out_parameters == NULL)
    return fail_url (error, "what follows the \"?\" is malformed");
  guint known = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if ((*names[i].place = g_hash_table_lookup (*out_parameters, names[i].name)) != NULL)
      known++;
  return known == g_hash_table_size (*out_parameters)
         || fail_url (error, "after the \"?\" only endpoint, region, path-style and ca-file are known");
}

static gboolean
take_place (S3Config *self, Wishes *wishes, GError **error)
{
  if (wishes->region == NULL)
    wishes->region = from_environment ("AWS_REGION", "AWS_DEFAULT_REGION");
  if (wishes->endpoint == NULL)
    wishes->endpoint = from_environment ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  self->region = g_strdup (wishes->region != NULL ? wishes->region : DEFAULT_REGION);
  if (!is_plain_name (self->region, "-_"))
    return fail_url (error, "the region is malformed");
  g_autofree char *amazon = g_strdup_printf ("https://s3.%s.amazonaws.com", self->region);
  self->endpoint = normal_endpoint (wishes->endpoint != NULL ? wishes->endpoint : amazon);
  if (self->endpoint == NULL)
    return fail_url (error, "the endpoint must be http://HOST[:PORT] or https://HOST[:PORT]");
  self->path_style = !g_str_has_suffix (self->endpoint, ".amazonaws.com") || strchr (self->bucket, '.') != NULL;
  if (wishes->path_style != NULL && !take_flag (&self->path_style, wishes->path_style))
    return fail_url (error, "path-style is true or false");
  self->ca_file = g_strdup (wishes->ca_file != NULL ? wishes->ca_file : from_environment ("AWS_CA_BUNDLE", NULL));
  return TRUE;
}

static char *
shared_file (void)
{
  const char *named = from_environment ("AWS_SHARED_CREDENTIALS_FILE", NULL);
  return named != NULL ? g_strdup (named) : g_build_filename (g_get_home_dir (), ".aws", "credentials", NULL);
}

static char *
shared_value (GKeyFile *file, const char *profile, const char *name)
{
  char *value = g_key_file_get_value (file, profile, name, NULL);
  return value != NULL ? g_strstrip (value) : NULL;
}

/* The keys of a profile in the file that the AWS tools share; none where there is no such file. What the parser says of
 * a line is not repeated: it may hold a key. */
static gboolean
take_shared_keys (S3Config *self, const char *path, GError **error)
{
  const char *profile = from_environment ("AWS_PROFILE", NULL);
  g_autofree char *text = NULL;
  gsize size = 0;
  g_autoptr (GKeyFile) file = g_key_file_new ();
  if (!g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return TRUE;
  if (!g_file_get_contents (path, &text, &size, NULL) || size > MAX_SHARED_FILE_BYTES
      || (size > 0 && !g_key_file_load_from_data (file, text, size, G_KEY_FILE_NONE, NULL)))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "CredentialsMissing", "cannot read keys from %s", path);
  profile = profile != NULL ? profile : "default";
  self->access_key_id = shared_value (file, profile, "aws_access_key_id");
  self->secret_access_key = shared_value (file, profile, "aws_secret_access_key");
  self->session_token = shared_value (file, profile, "aws_session_token");
  return TRUE;
}

static gboolean
take_keys (S3Config *self, GError **error)
{
  g_autofree char *path = shared_file ();
  self->access_key_id = g_strdup (from_environment ("AWS_ACCESS_KEY_ID", NULL));
  self->secret_access_key = g_strdup (from_environment ("AWS_SECRET_ACCESS_KEY", NULL));
  self->session_token = g_strdup (from_environment ("AWS_SESSION_TOKEN", NULL));
  if (self->access_key_id == NULL && self->secret_access_key == NULL && self->session_token == NULL
      && !take_shared_keys (self, path, error))
    return FALSE;
  return (self->access_key_id != NULL && self->secret_access_key != NULL)
         || am_fail (error, AM_ERROR_FAILED_PRECONDITION, "CredentialsMissing",
                     "no keys for bucket %s: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or put them into %s",
                     self->bucket, path);
}

gboolean
s3_config_parse (const char *url, S3Config *out_config, GError **error)
{
  g_auto (S3Config) config = { 0 };
  g_autoptr (GHashTable) parameters = NULL;
  Wishes wishes = { 0 };
  g_autoptr (GUri) uri = g_str_has_prefix (url, S3_SCHEME) ? g_uri_parse (url, G_URI_FLAGS_ENCODED_QUERY, NULL)
                                                           : NULL;
  if (uri == NULL)
    return fail_url (error, "this is no URL of a bucket");
  if (!take_bucket (&config, uri, error) || !read_query (uri, &parameters, &wishes, error)
      || !take_place (&config, &wishes, error) || !take_keys (&config, error))
    return FALSE;
  *out_config = config;
  config = (S3Config){ 0 };
  return TRUE;
}
