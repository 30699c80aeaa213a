#include "dmcr/auth.h"

#include <crypt.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static char *
basic (const char *user, const char *password)
{
  g_autofree char *pair = g_strdup_printf ("%s:%s", user, password);
  g_autofree char *encoded = g_base64_encode ((const guchar *) pair, strlen (pair));
  return g_strdup_printf ("Basic %s", encoded);
}

static char *
users_file (const char *content)
{
  g_autoptr (GError) error = NULL;
  char *path = g_strdup_printf ("%s/users-XXXXXX", g_get_tmp_dir ());
  int fd = g_mkstemp (path);
  g_assert_cmpint (fd, >=, 0);
  close (fd);
  g_assert_true (file_replace (path, content, strlen (content), &error));
  return path;
}

/* 0: allowed; otherwise the error's code. */
static int
verdict (Auth *auth, const char *authorization, gboolean writes)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *user = NULL;
  gboolean ok = auth_check (auth, authorization, writes, &user, &error);
  g_assert_cmpint (ok, ==, error == NULL);
  return ok ? 0 : error->code;
}

static void
check_users (Auth *auth)
{
  g_autofree char *writer = basic ("ai-models", "secret"), *reader = basic ("ai-models-reader", "other");
  g_autofree char *wrong = basic ("ai-models", "Secret"), *unknown = basic ("nobody", "secret");
  const struct {
    const char *authorization;
    gboolean writes;
    int expected;
  } rows[] = {
    { writer, FALSE, 0 },
    { writer, TRUE, 0 },
    { writer, TRUE, 0 }, /* from the cache */
    { reader, FALSE, 0 },
    { reader, TRUE, AM_ERROR_PERMISSION_DENIED },
    { wrong, FALSE, AM_ERROR_UNAUTHENTICATED },
    { wrong, TRUE, AM_ERROR_UNAUTHENTICATED },
    { unknown, FALSE, AM_ERROR_UNAUTHENTICATED },
    { NULL, FALSE, AM_ERROR_UNAUTHENTICATED },
    { NULL, TRUE, AM_ERROR_UNAUTHENTICATED },
    { "Bearer abc", FALSE, AM_ERROR_UNAUTHENTICATED },
    { "Basic !!!", FALSE, AM_ERROR_UNAUTHENTICATED },
    { "Basic ", FALSE, AM_ERROR_UNAUTHENTICATED },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_assert_cmpint (verdict (auth, rows[i].authorization, rows[i].writes), ==, rows[i].expected);
    }
}

static void
test_plain (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = users_file ("# team\nai-models:secret\nai-models-reader:other\n");
  AuthConfig config = { .plain_users_file = path };
  g_autoptr (Auth) auth = auth_new (&config, &error);
  g_assert_no_error (error);
  check_users (auth);
  unlink (path);
}

static char *
hash_of (const char *password)
{
  char salt[CRYPT_GENSALT_OUTPUT_SIZE];
  g_assert_nonnull (crypt_gensalt_rn ("$2y$", 5, NULL, 0, salt, sizeof salt));
  g_autofree struct crypt_data *data = g_new0 (struct crypt_data, 1);
  return g_strdup (crypt_r (password, salt, data));
}

static void
test_htpasswd (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *first = hash_of ("secret"), *second = hash_of ("other");
  g_autofree char *content = g_strdup_printf ("ai-models:%s\nai-models-reader:%s\n", first, second);
  g_autofree char *path = users_file (content);
  AuthConfig config = { .htpasswd_file = path };
  g_autoptr (Auth) auth = auth_new (&config, &error);
  g_assert_no_error (error);
  check_users (auth);
  unlink (path);
}

/* A changed file counts within seconds, a broken one leaves the users as they were. */
static void
test_reload (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = users_file ("ai-models:secret\n");
  g_autofree char *old = basic ("ai-models", "secret"), *fresh = basic ("ai-models", "fresh");
  AuthConfig config = { .plain_users_file = path };
  g_autoptr (Auth) auth = auth_new (&config, &error);
  g_assert_no_error (error);
  g_assert_cmpint (verdict (auth, old, TRUE), ==, 0);
  g_assert_true (file_replace (path, "ai-models:fresh\n", 16, &error));
  g_usleep (1100000);
  g_assert_cmpint (verdict (auth, old, TRUE), ==, AM_ERROR_UNAUTHENTICATED);
  g_assert_cmpint (verdict (auth, fresh, TRUE), ==, 0);
  g_assert_true (file_replace (path, "nonsense", 8, &error));
  g_usleep (1100000);
  g_assert_cmpint (verdict (auth, fresh, TRUE), ==, 0);
  unlink (path);
}

static void
test_anonymous (void)
{
  g_autoptr (GError) error = NULL;
  AuthConfig open = { .anonymous_write = TRUE }, readable = { .anonymous_read = TRUE };
  g_autoptr (Auth) everything = auth_new (&open, &error);
  g_autoptr (Auth) reading = auth_new (&readable, &error);
  g_assert_no_error (error);
  g_assert_cmpint (verdict (everything, NULL, FALSE), ==, 0);
  g_assert_cmpint (verdict (everything, NULL, TRUE), ==, 0);
  g_assert_cmpint (verdict (reading, NULL, FALSE), ==, 0);
  g_assert_cmpint (verdict (reading, NULL, TRUE), ==, AM_ERROR_PERMISSION_DENIED);
  g_autofree char *path = users_file ("ai-models:secret\n");
  AuthConfig mixed = { .plain_users_file = path, .anonymous_read = TRUE };
  g_autoptr (Auth) both = auth_new (&mixed, &error);
  g_assert_cmpint (verdict (both, NULL, FALSE), ==, 0);
  g_assert_cmpint (verdict (both, NULL, TRUE), ==, AM_ERROR_UNAUTHENTICATED);
  unlink (path);
}

static void
test_bad_files (void)
{
  static const char *const contents[] = { "", "# nobody\n", "user\n", ":x\n", "user:\n" };
  for (gsize i = 0; i < G_N_ELEMENTS (contents); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *path = users_file (contents[i]);
      AuthConfig config = { .plain_users_file = path };
      g_assert_null (auth_new (&config, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      unlink (path);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/auth/plain", test_plain);
  g_test_add_func ("/auth/htpasswd", test_htpasswd);
  g_test_add_func ("/auth/reload", test_reload);
  g_test_add_func ("/auth/anonymous", test_anonymous);
  g_test_add_func ("/auth/bad-files", test_bad_files);
  return g_test_run ();
}
