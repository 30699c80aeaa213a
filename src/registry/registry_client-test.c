/* Challenges, tokens and where credentials may go, against a registry that follows a script. */
#include <string.h>

#include "registry/registry_fixture.h"
#include "registry/scripted_registry.h"

#define TAGS "/v2/team/m/tags/list*"
#define SOME_TAGS "{\"name\":\"team/m\",\"tags\":[\"v1\"]}"

/* Asks for the tags; the error's message, or NULL. Caller frees. */
static char *
list_tags (Repository *repository, AmErrorCode code)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) tags = repository_list_tags (NULL, repository, &error);
  if (tags != NULL)
    {
      g_assert_cmpuint (tags->len, ==, 1);
      return NULL;
    }
  g_assert_error (error, AM_ERROR, (gint) code);
  g_assert_nonnull (strstr (error->message, repository->display));
  return g_strdup (error->message);
}

static void
test_basic (void)
{
  static const ScriptRule rules[] = {
    { NULL, "*", .unless = SCRIPT_BASIC, .status = 401, .headers = "WWW-Authenticate: Basic realm=\"r\"" },
    { "GET", TAGS, .status = 200, .text = SOME_TAGS },
  };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_assert_null (list_tags (repository, 0));
  g_assert_cmpuint (scripted_registry_count (&home, "*auth=*"), ==, 1);
  g_assert_null (list_tags (repository, 0));
  g_assert_cmpuint (scripted_registry_count (&home, "*"), ==, 3); /* asked for a password once */
}

static void
test_bearer (void)
{
  static const ScriptRule rules[] = {
    { "GET", "/token?*", .status = 200, .text = "{\"access_token\":\"good\"}" },
    { NULL, "*", .unless = "Bearer good", .status = 401,
      .headers
      = "WWW-Authenticate: Bearer realm=\"@HERE@/token\",service=\"the service\",scope=\"repository:team/m:pull\"" },
    { "GET", TAGS, .status = 200, .text = SOME_TAGS },
  };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_assert_null (list_tags (repository, 0));
  g_assert_null (list_tags (repository, 0));
  g_assert_cmpuint (scripted_registry_count (
                      &home, "GET /token?scope=repository:team/m:pull&service=the service auth=" SCRIPT_BASIC " *"),
                    ==, 1);
  g_assert_cmpuint (scripted_registry_count (&home, "*"), ==, 4);
  g_assert_cmpuint (scripted_registry_count (&home, "* /v2/*auth=Basic*"), ==,
                    0); /* the password goes to the service alone */
}

/* A registry that names no scope is asked for what the call needs. */
static void
test_own_scope (void)
{
  static const ScriptRule rules[] = {
    { "GET", "/token?scope=repository:team/m:pull", .status = 200, .text = "{\"token\":\"read\"}" },
    { "GET", "/token?scope=repository:team/m:pull,push", .status = 200, .text = "{\"token\":\"write\"}" },
    { "GET", "/token?scope=repository:team/m:pull,push,delete", .status = 200, .text = "{\"token\":\"delete\"}" },
    { "GET", TAGS, .unless = "Bearer read", .status = 401,
      .headers = "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" },
    { "GET", TAGS, .status = 200, .text = SOME_TAGS },
    { "PUT", "*", .unless = "Bearer write", .status = 401,
      .headers = "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" },
    { "PUT", "*", .status = 201 },
    { "DELETE", "*", .unless = "Bearer delete", .status = 401,
      .headers = "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" },
    { "DELETE", "*", .status = 202 },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static ("{}", 2);
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_assert_null (list_tags (repository, 0));
  g_assert_true (repository_put_manifest (NULL, repository, "v1", NULL, bytes, NULL, &error));
  g_assert_true (repository_remove_manifest (NULL, repository, "v1", &error));
  g_assert_no_error (error);
}

static void
test_token_expires (void)
{
  static const ScriptRule rules[] = {
    { "GET", "/token*", .status = 200, .text = "{\"token\":\"good\",\"expires_in\":1}" },
    { "GET", TAGS, .unless = "Bearer good", .status = 401,
      .headers = "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" },
    { "GET", TAGS, .status = 200, .text = SOME_TAGS },
  };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_assert_null (list_tags (repository, 0));
  g_usleep (1100 * 1000);
  g_assert_null (list_tags (repository, 0));
  g_assert_cmpuint (scripted_registry_count (&home, "GET /token*"), ==, 2);
  g_assert_cmpuint (scripted_registry_count (&home, "GET /v2/*"), ==, 3); /* it was renewed before it was refused */
}

/* Whatever is answered, a registry that stays with 401 is asked twice. */
static void
test_refused_for_good (void)
{
  static const char *const challenges[] = { "WWW-Authenticate: Basic realm=\"r\"",
                                            "WWW-Authenticate: Bearer realm=\"@HERE@/token\"",
                                            "WWW-Authenticate: Bearer realm=\"@HERE@/token\", Basic realm=\"r\"",
                                            "WWW-Authenticate: Negotiate", "X-Nothing: here" };
  for (guint i = 0; i < G_N_ELEMENTS (challenges); i++)
    {
      const ScriptRule rules[] = {
        { "GET", "/token*", .status = 200, .text = "{\"token\":\"good\"}" },
        { NULL, "*", .status = 401, .headers = challenges[i] },
      };
      g_auto (ScriptedRegistry) home = { 0 };
      scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
      g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
      g_autofree char *message = list_tags (repository, AM_ERROR_UNAUTHENTICATED);
      g_assert_nonnull (strstr (message, "log in"));
      g_assert_cmpuint (scripted_registry_count (&home, "GET /v2/*"), <=, 2);
      g_assert_cmpuint (scripted_registry_count (&home, "GET /token*"), <=, 1);
    }
}

static void
test_useless_tokens (void)
{
  static const char *const answers[] = { "",
                                         "no json",
                                         "[]",
                                         "{}",
                                         "{\"token\":7}",
                                         "{\"token\":\"\"}",
                                         "{\"token\":\"a b\"}",
                                         "{\"token\":\"a\\r\\nX-Evil: b\"}" };
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      const ScriptRule rules[] = {
        { "GET", "/token*", .status = 200, .text = answers[i] },
        { NULL, "*", .status = 401, .headers = "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" },
      };
      g_auto (ScriptedRegistry) home = { 0 };
      scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
      g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
      g_autofree char *message = list_tags (repository, AM_ERROR_UNAUTHENTICATED);
      g_assert_nonnull (strstr (message, "token service of registry"));
      g_assert_cmpuint (scripted_registry_count (&home, "GET /v2/*"), ==, 1);
    }
}

static void
test_token_service_down (void)
{
  static const ScriptRule rules[] = {
    { "GET", "/token*", .status = 503 },
    { NULL, "*", .status = 401, .headers = "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" },
  };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_autofree char *message = list_tags (repository, AM_ERROR_UNAVAILABLE);
  g_assert_nonnull (strstr (message, "token service of registry"));
  g_assert_null (strstr (message, "dTpw"));
}

/* A token service elsewhere gets neither the password nor a question. */
static void
test_realm_elsewhere (void)
{
  static const ScriptRule steals[] = { { NULL, "*", .status = 200, .text = "{\"token\":\"good\"}" } };
  static const ScriptRule rules[] = {
    { NULL, "*", .status = 401, .headers = "WWW-Authenticate: Bearer realm=\"@ELSEWHERE@/token\"" },
  };
  g_auto (ScriptedRegistry) other = { 0 };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&other, steals, G_N_ELEMENTS (steals), NULL);
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), &other);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_autofree char *message = list_tags (repository, AM_ERROR_FAILED_PRECONDITION);
  g_assert_nonnull (strstr (message, "nothing was sent there"));
  g_assert_cmpuint (scripted_registry_count (&other, "*"), ==, 0);
}

static gboolean
read_blob (Repository *repository, GBytes *bytes, GByteArray *got, GError **error)
{
  Digest digest;
  fixture_digest (bytes, &digest);
  return repository_read_blob (NULL, repository, &digest, 0, g_bytes_get_size (bytes), fixture_append, got, error);
}

/* A blob that lies behind a redirect, in a store that must not see the registry's credentials. */
static void
test_redirect_drops_credentials (void)
{
  g_autoptr (GBytes) bytes = fixture_noise (50000, 1);
  g_autoptr (GByteArray) got = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  const ScriptRule stored[] = { { "GET", "/data?sig=secret", .status = 206, .blob = bytes } };
  static const ScriptRule rules[] = {
    { NULL, "*", .unless = SCRIPT_BASIC, .status = 401, .headers = "WWW-Authenticate: Basic realm=\"r\"" },
    { "GET", "*/blobs/*", .status = 307, .headers = "Location: @OTHER@/data?sig=secret" },
  };
  g_auto (ScriptedRegistry) other = { 0 };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&other, stored, G_N_ELEMENTS (stored), NULL);
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), &other);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  read_blob (repository, bytes, got, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (got->data, got->len, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  g_assert_cmpuint (scripted_registry_count (&home, "*auth=" SCRIPT_BASIC "*"), ==, 1);
  g_assert_cmpuint (scripted_registry_count (&other, "*"), ==, 1);
  g_assert_cmpuint (scripted_registry_count (&other, "*auth=*"), ==, 0);
}

/* What asks for a password behind a redirect is not the registry, whatever it says. */
static void
test_challenge_behind_redirect (void)
{
  static const char *const challenges[] = { "WWW-Authenticate: Basic realm=\"r\"",
                                            "WWW-Authenticate: Bearer realm=\"@HERE@/token\"" };
  g_autoptr (GBytes) bytes = fixture_noise (100, 1);
  for (guint i = 0; i < G_N_ELEMENTS (challenges); i++)
    {
      g_autoptr (GByteArray) got = g_byte_array_new ();
      g_autoptr (GError) error = NULL;
      const ScriptRule greedy[] = { { "GET", "/token*", .status = 200, .text = "{\"token\":\"x\"}" },
                                    { NULL, "*", .status = 401, .headers = challenges[i] } };
      static const ScriptRule rules[] = {
        { "GET", "*/blobs/*", .status = 307, .headers = "Location: @OTHER@/data?sig=secret" },
      };
      g_auto (ScriptedRegistry) other = { 0 };
      g_auto (ScriptedRegistry) home = { 0 };
      scripted_registry_start (&other, greedy, G_N_ELEMENTS (greedy), NULL);
      scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), &other);
      g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
      g_assert_false (read_blob (repository, bytes, got, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_UNAUTHENTICATED);
      g_assert_null (strstr (error->message, "secret"));
      g_assert_cmpuint (scripted_registry_count (&other, "GET /token*"), ==, 0);
      g_assert_cmpuint (scripted_registry_count (&other, "*auth=*"), ==, 0);
      g_assert_cmpuint (scripted_registry_count (&home, "*auth=*"), ==, 0);
    }
}

static void
test_redirect_loop (void)
{
  g_autoptr (GBytes) bytes = fixture_noise (100, 1);
  g_autoptr (GByteArray) got = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  static const ScriptRule rules[] = { { "GET", "*", .status = 307, .headers = "Location: @HERE@/again" } };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  g_assert_false (read_blob (repository, bytes, got, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_FAILED_PRECONDITION);
  g_assert_nonnull (strstr (error->message, "too many redirects"));
  g_assert_cmpuint (scripted_registry_count (&home, "*"), <=, 6);
}

static void
test_passing_trouble (void)
{
  static const ScriptRule rules[] = {
    { NULL, "*", .times = 2, .status = 500 },
    { NULL, "*", .times = 1, .status = 429, .headers = "Retry-After: 1" },
    { "GET", TAGS, .status = 200, .text = SOME_TAGS },
  };
  g_auto (ScriptedRegistry) home = { 0 };
  scripted_registry_start (&home, rules, G_N_ELEMENTS (rules), NULL);
  g_autoptr (Repository) repository = scripted_registry_client (&home, 0);
  gint64 start_us = g_get_monotonic_time ();
  g_assert_null (list_tags (repository, 0));
  g_assert_cmpint (g_get_monotonic_time () - start_us, >=, G_USEC_PER_SEC);
  g_assert_cmpuint (scripted_registry_count (&home, "*"), ==, 4);
}

/* Nothing listens: that is found out at once, tried again, and said in a few seconds. */
static void
test_nobody_there (void)
{
  g_auto (ScriptedRegistry) home = { 0 };
  g_autoptr (GError) error = NULL;
  scripted_registry_start (&home, NULL, 0, NULL);
  g_autofree char *host = g_strdup (home.host);
  RegistryConfig config = { .host = host, .plain_http = TRUE };
  scripted_registry_stop (&home);
  home = (ScriptedRegistry){ 0 };
  g_autoptr (Repository) repository = repository_remote_new (&config, "team/m", &error);
  gint64 start_us = g_get_monotonic_time ();
  g_autofree char *message = list_tags (repository, AM_ERROR_UNAVAILABLE);
  g_assert_cmpint (g_get_monotonic_time () - start_us, <, 6 * G_USEC_PER_SEC);
  g_assert_nonnull (strstr (message, "is the address right"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/registry-client/basic", test_basic);
  g_test_add_func ("/registry-client/bearer", test_bearer);
  g_test_add_func ("/registry-client/own-scope", test_own_scope);
  g_test_add_func ("/registry-client/token-expires", test_token_expires);
  g_test_add_func ("/registry-client/refused-for-good", test_refused_for_good);
  g_test_add_func ("/registry-client/useless-tokens", test_useless_tokens);
  g_test_add_func ("/registry-client/token-service-down", test_token_service_down);
  g_test_add_func ("/registry-client/realm-elsewhere", test_realm_elsewhere);
  g_test_add_func ("/registry-client/redirect-drops-credentials", test_redirect_drops_credentials);
  g_test_add_func ("/registry-client/challenge-behind-redirect", test_challenge_behind_redirect);
  g_test_add_func ("/registry-client/redirect-loop", test_redirect_loop);
  g_test_add_func ("/registry-client/passing-trouble", test_passing_trouble);
  g_test_add_func ("/registry-client/nobody-there", test_nobody_there);
  return g_test_run ();
}
