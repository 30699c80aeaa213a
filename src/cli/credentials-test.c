#include "cli/credentials.h"

#include <glib/gstdio.h>
#include <string.h>

/* amU6cGFzcw== is "je:pass", dTpwOnE= is "u:p:q". */
static const struct {
  const char *config, *host, *username, *password;
} known[] = {
  { "{\"auths\":{\"reg.example\":{\"auth\":\"amU6cGFzcw==\"}}}", "reg.example", "je", "pass" },
  { "{\"auths\":{\"https://reg.example/v1/\":{\"auth\":\"dTpwOnE=\"}}}", "reg.example", "u", "p:q" },
  { "{\"auths\":{\"reg.example:5000\":{\"auth\":\"amU6cGFzcw==\"}}}", "reg.example:5000", "je", "pass" },
  { "{\"auths\":{\"reg.example:5000\":{\"auth\":\"amU6cGFzcw==\"}}}", "reg.example", NULL, NULL },
  { "{\"auths\":{\"reg.example\":{\"auth\":\"amU6cGFzcw==\"}}}", "evil.reg.example", NULL, NULL },
  { "{\"auths\":{\"reg.example.evil\":{\"auth\":\"amU6cGFzcw==\"}}}", "reg.example", NULL, NULL },
  { "{\"auths\":{\"http://reg.example/x\":{\"auth\":\"amU6cGFzcw==\"},\"reg.example\":{\"auth\":\"dTpwOnE=\"}}}",
    "reg.example", "u", "p:q" },
  { "{\"auths\":{\"reg.example\":{}},\"credsStore\":\"desktop\"}", "reg.example", NULL, NULL },
  { "{\"auths\":{\"reg.example\":{\"auth\":\"\"}}}", "reg.example", NULL, NULL },
  { "{}", "reg.example", NULL, NULL },
};

static void
test_known (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (known); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (Credentials) login = { NULL, NULL };
      g_autoptr (GBytes) bytes = g_bytes_new_static (known[i].config, strlen (known[i].config));
      g_assert_true (credentials_parse (bytes, known[i].host, &login, &error));
      g_assert_no_error (error);
      g_assert_cmpstr (login.username, ==, known[i].username);
      g_assert_cmpstr (login.password, ==, known[i].password);
    }
}

static void
test_bad (void)
{
  static const char *const configs[] = {
    "",
    "[",
    "{\"auths\":{\"h\":{\"auth\":\"bm9jb2xvbg==\"}}}",
    "{\"auths\":{\"h\":{\"auth\":\"OnBhc3M=\"}}}",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (configs); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (Credentials) login = { NULL, NULL };
      g_autoptr (GBytes) bytes = g_bytes_new_static (configs[i], strlen (configs[i]));
      g_assert_false (credentials_parse (bytes, "h", &login, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_null (login.username);
    }
}

static void
test_password_file (void)
{
  static const struct {
    const char *content, *password;
  } files[] = {
    { "secret\n", "secret" }, { "secret", "secret" }, { "a b\r\nmore\n", "a b" }, { "\n", NULL }, { "", NULL }
  };
  g_autofree char *dir = g_dir_make_tmp ("password-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (dir, "file", NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_true (g_file_set_contents (path, files[i].content, -1, NULL));
      g_autofree char *password = credentials_read_password (path, &error);
      g_assert_cmpstr (password, ==, files[i].password);
      g_assert_cmpint (error == NULL, ==, files[i].password != NULL);
    }
  g_unlink (path);
  g_autoptr (GError) error = NULL;
  g_assert_null (credentials_read_password (path, &error));
  g_assert_true (am_error_is (error, AM_ERROR_NOT_FOUND));
  g_rmdir (dir);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/credentials/known", test_known);
  g_test_add_func ("/cli/credentials/bad", test_bad);
  g_test_add_func ("/cli/credentials/password-file", test_password_file);
  return g_test_run ();
}
