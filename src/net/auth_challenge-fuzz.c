/* Whatever a registry puts into WWW-Authenticate: what is read comes from it, and no realm is trusted that is neither
 * https nor the registry's own. */
#include "net/auth_challenge.h"

#include <string.h>

#include "net/http_client.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_realm (const char *realm, const char *host)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) plain_error = NULL;
  g_autofree char *own = g_strdup_printf ("http://%s", host);
  g_autofree char *own_origin = http_origin (own);
  g_autofree char *origin = http_origin (realm);
  if (auth_realm_check (realm, host, FALSE, &error))
    {
      g_assert_nonnull (origin);
      g_assert_true (g_str_has_prefix (origin, "https://"));
      g_assert_true (auth_realm_check (realm, host, TRUE, NULL));
      return;
    }
  g_assert_true (am_error_has_reason (error, "RealmRefused"));
  if (!auth_realm_check (realm, host, TRUE, &plain_error))
    return;
  /* Without TLS only the very host, on whatever port. */
  gsize length = strlen (own_origin) - strlen (strrchr (own_origin, ':'));
  g_assert_cmpint (strncmp (origin, own_origin, length), ==, 0);
  g_assert_cmpint (origin[length], ==, ':');
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static const char *const hosts[] = { "registry.firm.co.uk:5000", "tenant.azurecr.io", "127.0.0.1", "[::1]:5000",
                                       "a" };
  g_autofree char *header = g_strndup ((const char *) data, size);
  g_auto (AuthChallenge) challenge = { 0 };
  auth_challenge_parse (header, &challenge);
  const char *const values[] = { challenge.realm, challenge.service, challenge.scope };
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    g_assert_true (values[i] == NULL || (challenge.offers_bearer && strlen (values[i]) <= strlen (header)));
  for (guint i = 0; i < G_N_ELEMENTS (hosts); i++)
    {
      check_realm (challenge.realm, hosts[i]);
      check_realm (header, hosts[i]);
    }
  return 0;
}
