#include "net/auth_challenge.h"

static const struct {
  const char *header;
  gboolean basic, bearer;
  const char *realm, *service, *scope;
} headers[] = {
  { NULL, FALSE, FALSE, NULL, NULL, NULL },
  { "", FALSE, FALSE, NULL, NULL, NULL },
  { "Basic realm=\"x\"", TRUE, FALSE, NULL, NULL, NULL },
  { "basic", TRUE, FALSE, NULL, NULL, NULL },
  { "Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:x:pull,push\"", FALSE, TRUE, "https://a/t", "s",
    "repository:x:pull,push" },
  { "bearer Realm = \"https://a/t\" , service=s", FALSE, TRUE, "https://a/t", "s", NULL },
  { "Basic realm=\"b\", Bearer realm=\"https://a/t\"", TRUE, TRUE, "https://a/t", NULL, NULL },
  { "Bearer realm=\"https://a/t\", Basic realm=\"b\"", TRUE, TRUE, "https://a/t", NULL, NULL },
  { "Bearer realm=\"https://a/t\", Bearer realm=\"https://b/t\"", FALSE, TRUE, "https://a/t", NULL, NULL },
  { "Negotiate, NTLM, Bearer realm=\"q\\\"u\"", FALSE, TRUE, "q\"u", NULL, NULL },
  { "Bearer", FALSE, TRUE, NULL, NULL, NULL },
  { "Bearer realm=\"unended", FALSE, TRUE, "unended", NULL, NULL },
  { ",,, \t(;)=\"Basic\" Bearer realm=x,realm=y", FALSE, TRUE, "x", NULL, NULL },
  { "Digest realm=\"Basic\", nonce=\"Bearer realm=z\"", FALSE, FALSE, NULL, NULL, NULL },
};

static void
test_parse (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (headers); i++)
    {
      g_auto (AuthChallenge) challenge = { 0 };
      auth_challenge_parse (headers[i].header, &challenge);
      g_test_message ("%s", headers[i].header);
      g_assert_cmpint (challenge.offers_basic, ==, headers[i].basic);
      g_assert_cmpint (challenge.offers_bearer, ==, headers[i].bearer);
      g_assert_cmpstr (challenge.realm, ==, headers[i].realm);
      g_assert_cmpstr (challenge.service, ==, headers[i].service);
      g_assert_cmpstr (challenge.scope, ==, headers[i].scope);
    }
}

static const struct {
  const char *realm, *host;
  gboolean plain_http;
  gboolean is_fine;
} realms[] = {
  { "https://auth.docker.io/token", "registry-1.docker.io", FALSE, TRUE },
  { "https://ghcr.io/token", "ghcr.io", FALSE, TRUE },
  { "https://gitlab.com/jwt/auth", "registry.gitlab.com", FALSE, TRUE },
  { "https://registry.example:5001/auth", "registry.example:5000", FALSE, TRUE },
  { "https://REGISTRY.example/auth", "registry.EXAMPLE:5000", FALSE, TRUE },
  { "https://auth.firm.co.uk/t", "registry.firm.co.uk", FALSE, TRUE },
  { "https://auth.other.co.uk/t", "registry.firm.co.uk", FALSE, FALSE },
  { "https://evil.example/token", "registry.firm.com", FALSE, FALSE },
  { "https://firm.com.evil.net/token", "registry.firm.com", FALSE, FALSE },
  { "https://registryfirm.com/token", "registry.firm.com", FALSE, FALSE },
  { "https://tenant2.azurecr.io/token", "tenant1.azurecr.io", FALSE, FALSE },
  { "https://tenant1.azurecr.io/token", "tenant1.azurecr.io", FALSE, TRUE },
  { "http://auth.firm.com/token", "registry.firm.com", FALSE, FALSE },
  { "http://registry.firm.com/token", "registry.firm.com", FALSE, FALSE },
  { "http://registry.firm.com/token", "registry.firm.com", TRUE, TRUE },
  { "http://auth.firm.com/token", "registry.firm.com", TRUE, FALSE },
  { "http://169.254.169.254/latest/meta-data", "registry.firm.com", TRUE, FALSE },
  { "https://169.254.169.254/latest/meta-data", "registry.firm.com", FALSE, FALSE },
  { "https://10.0.0.2/t", "10.0.0.1", FALSE, FALSE },
  { "http://127.0.0.1:9/t", "127.0.0.1:5000", TRUE, TRUE },
  { "https://[::1]:9/t", "[::1]:5000", FALSE, TRUE },
  { "https://[::2]/t", "[::1]", FALSE, FALSE },
  { "https://localhost/t", "dmcr", FALSE, FALSE },
  { "https://user:pw@registry.firm.com/t", "registry.firm.com", FALSE, FALSE },
  { "ftp://registry.firm.com/t", "registry.firm.com", FALSE, FALSE },
  { "file:///etc/passwd", "registry.firm.com", FALSE, FALSE },
  { "/token", "registry.firm.com", FALSE, FALSE },
  { "", "registry.firm.com", FALSE, FALSE },
  { NULL, "registry.firm.com", FALSE, FALSE },
};

static void
test_realm (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (realms); i++)
    {
      g_autoptr (GError) error = NULL;
      g_test_message ("%s for %s", realms[i].realm, realms[i].host);
      g_assert_cmpint (auth_realm_check (realms[i].realm, realms[i].host, realms[i].plain_http, &error), ==,
                       realms[i].is_fine);
      g_assert_true (realms[i].is_fine || am_error_has_reason (error, "RealmRefused"));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/auth-challenge/parse", test_parse);
  g_test_add_func ("/auth-challenge/realm", test_realm);
  return g_test_run ();
}
