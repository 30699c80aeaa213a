#include "storage/s3_config.h"

#include <glib/gstdio.h>
#include <string.h>

static const char *const variables[] = {
  "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
  "AWS_REGION",        "AWS_DEFAULT_REGION",    "AWS_CA_BUNDLE",     "AWS_PROFILE",
};

static void
set_environment (const char *const *values)
{
  for (gsize i = 0; i < G_N_ELEMENTS (variables); i++)
    g_unsetenv (variables[i]);
  g_setenv ("AWS_ACCESS_KEY_ID", "key", TRUE);
  g_setenv ("AWS_SECRET_ACCESS_KEY", "secret", TRUE);
  g_setenv ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", TRUE); /* not this user's */
  for (; values != NULL && *values != NULL; values += 2)
    g_setenv (values[0], values[1], TRUE);
}

static const struct {
  const char *url;
  const char *environment[5];
  const char *bucket, *prefix, *endpoint, *region;
  gboolean path_style;
} places[] = {
  { "s3://models", { NULL }, "models", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", FALSE },
  { "s3://my.models/", { NULL }, "my.models", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", TRUE },
  { "s3://models/a/b/",
    { "AWS_REGION", "eu-west-1" },
    "models",
    "a/b/",
    "https://s3.eu-west-1.amazonaws.com",
    "eu-west-1",
    FALSE },
  { "s3://models/a%20b",
    { "AWS_DEFAULT_REGION", "r", "AWS_ENDPOINT_URL", "http://h:80/" },
    "models",
    "a b/",
    "http://h",
    "r",
    TRUE },
  { "s3://models?endpoint=https://h:443&region=x&path-style=false",
    { "AWS_ENDPOINT_URL_S3", "http://other", "AWS_REGION", "other" },
    "models",
    "",
    "https://h",
    "x",
    FALSE },
  { "s3://models?endpoint=http%3A%2F%2F127.0.0.1%3A9000",
    { NULL },
    "models",
    "",
    "http://127.0.0.1:9000",
    "us-east-1",
    TRUE },
  { "s3://models?endpoint=http://[::1]:9000", { NULL }, "models", "", "http://[::1]:9000", "us-east-1", TRUE },
  { "s3://models",
    { "AWS_ENDPOINT_URL", "http://a", "AWS_ENDPOINT_URL_S3", "http://b:81" },
    "models",
    "",
    "http://b:81",
    "us-east-1",
    TRUE },
};

static void
test_places (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_auto (S3Config) config = { 0 };
      g_autoptr (GError) error = NULL;
      set_environment (places[i].environment);
      s3_config_parse (places[i].url, &config, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (config.bucket, ==, places[i].bucket);
      g_assert_cmpstr (config.prefix, ==, places[i].prefix);
      g_assert_cmpstr (config.endpoint, ==, places[i].endpoint);
      g_assert_cmpstr (config.region, ==, places[i].region);
      g_assert_cmpint (config.path_style, ==, places[i].path_style);
      g_assert_cmpstr (config.access_key_id, ==, "key");
      g_assert_cmpstr (config.secret_access_key, ==, "secret");
      g_assert_null (config.session_token);
    }
}

static void
test_bad_urls (void)
{
  static const char *const urls[] = {
    "/srv/models",
    "s3:models",
    "s3://",
    "s3://ab",
    "s3://a/b",
    "s3://UPPER_and.fine-but:80",
    "s3://models:9000/x",
    "s3://key:secret@models/x",
    "s3://models/a//b",
    "s3://models?endpoint=h:9000",
    "s3://models?endpoint=ftp://h",
    "s3://models?endpoint=http://u:p@h",
    "s3://models?endpoint=http://h/path",
    "s3://models?endpoint=http://h?x=y",
    "s3://models?region=a/b",
    "s3://models?region=",
    "s3://models?path-style=yes",
    "s3://models?secret=x",
    "s3://models?endpoint",
    "s3://models#x",
  };
  set_environment (NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (urls); i++)
    {
      g_auto (S3Config) config = { 0 };
      g_autoptr (GError) error = NULL;
      g_test_message ("%s", urls[i]);
      g_assert_false (s3_config_parse (urls[i], &config, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_null (strstr (error->message, "secret@"));
      g_assert_null (config.bucket);
    }
}

static void
test_keys (void)
{
  static const char *const token[] = { "AWS_SESSION_TOKEN", "t", "AWS_CA_BUNDLE", "/ca.pem", NULL };
  g_autoptr (GError) error = NULL;
  g_auto (S3Config) config = { 0 }, none = { 0 };
  set_environment (token);
  g_assert_true (s3_config_parse ("s3://models", &config, &error));
  g_assert_cmpstr (config.session_token, ==, "t");
  g_assert_cmpstr (config.ca_file, ==, "/ca.pem");
  set_environment (NULL);
  g_setenv ("AWS_SECRET_ACCESS_KEY", "", TRUE);
  g_assert_false (s3_config_parse ("s3://models", &none, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_FAILED_PRECONDITION);
  g_assert_cmpstr (am_error_reason (error), ==, "CredentialsMissing");
}

static const struct {
  const char *text;
  const char *environment[5];
  const char *id, *secret, *token; /* NULL: CredentialsMissing */
} files[] = {
  { "[default]\naws_access_key_id = one\naws_secret_access_key=two+/= \n", { NULL }, "one", "two+/=", NULL },
  { "# mine\n[default]\naws_access_key_id=one\naws_secret_access_key=two\n\n[other]\naws_access_key_id=three\n"
    "aws_secret_access_key=four\naws_session_token=five==\n",
    { "AWS_PROFILE", "other" },
    "three",
    "four",
    "five==" },
  { "[default]\naws_access_key_id=one\naws_secret_access_key=two\n",
    { "AWS_ACCESS_KEY_ID", "env", "AWS_SECRET_ACCESS_KEY", "ment" },
    "env",
    "ment",
    NULL },
  { "[default]\naws_access_key_id=one\naws_secret_access_key=two\n",
    { "AWS_ACCESS_KEY_ID", "half" },
    NULL,
    NULL,
    NULL },
  { "[default]\naws_access_key_id=one\naws_secret_access_key=two\n", { "AWS_PROFILE", "nobody" }, NULL, NULL, NULL },
  { "[default]\naws_access_key_id=one\n", { NULL }, NULL, NULL, NULL },
  { "very-secret\n", { NULL }, NULL, NULL, NULL },
  { "", { NULL }, NULL, NULL, NULL },
};

static void
test_shared_file (void)
{
  g_autoptr (GError) failure = NULL;
  g_autofree char *directory = g_dir_make_tmp ("keys-XXXXXX", &failure);
  g_autofree char *path = g_build_filename (directory, "credentials", NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_auto (S3Config) config = { 0 };
      g_autoptr (GError) error = NULL;
      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_assert_true (g_file_set_contents (path, files[i].text, -1, &failure));
      set_environment (NULL);
      g_unsetenv ("AWS_ACCESS_KEY_ID");
      g_unsetenv ("AWS_SECRET_ACCESS_KEY");
      g_setenv ("AWS_SHARED_CREDENTIALS_FILE", path, TRUE);
      for (const char *const *pair = files[i].environment; *pair != NULL; pair += 2)
        g_setenv (pair[0], pair[1], TRUE);
      g_assert_cmpint (s3_config_parse ("s3://models", &config, &error), ==, files[i].id != NULL);
      g_assert_cmpstr (config.access_key_id, ==, files[i].id);
      g_assert_cmpstr (config.secret_access_key, ==, files[i].secret);
      g_assert_cmpstr (config.session_token, ==, files[i].token);
      if (files[i].id == NULL)
        {
          g_assert_cmpstr (am_error_reason (error), ==, "CredentialsMissing");
          g_assert_nonnull (strstr (error->message, path));
          g_assert_null (strstr (error->message, "very-secret"));
        }
    }
  g_assert_cmpint (g_remove (path) | g_rmdir (directory), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/s3-config/places", test_places);
  g_test_add_func ("/s3-config/bad-urls", test_bad_urls);
  g_test_add_func ("/s3-config/keys", test_keys);
  g_test_add_func ("/s3-config/shared-file", test_shared_file);
  return g_test_run ();
}
