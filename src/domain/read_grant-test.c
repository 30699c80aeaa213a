#include "domain/read_grant.h"

#include <string.h>

#define NOW 1800000000

static guint8 key[READ_GRANT_KEY_SIZE], other_key[READ_GRANT_KEY_SIZE];

static ReadGrant
grant_for (GPtrArray *groups)
{
  return (ReadGrant){ .id = (char *) "g-1",
                      .purpose = (char *) "shared-pvc",
                      .repository = (char *) "a/b",
                      .digest = (char *) "sha256:0",
                      .namespace = (char *) "ns",
                      .name = (char *) "job",
                      .groups = groups,
                      .expected_bytes = G_MAXUINT64,
                      .issued_s = NOW,
                      .expires_s = NOW + 900 };
}

static gboolean
verifies (const char *token, const guint8 *with, gint64 now_s)
{
  g_auto (ReadGrant) grant = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean good = read_grant_verify (token, with, now_s, &grant, &error);
  g_assert_true (good
                 || (am_error_is (error, AM_ERROR_UNAUTHENTICATED) && am_error_has_reason (error, "UNAUTHORIZED")));
  g_assert_true (good || strlen (token) < 20 || strstr (error->message, token) == NULL);
  return good;
}

static void
test_round_trip (void)
{
  g_autoptr (GPtrArray) groups = g_ptr_array_new ();
  g_ptr_array_add (groups, (char *) "system:serviceaccounts");
  ReadGrant grant = grant_for (groups);
  g_autofree char *token = read_grant_sign (&grant, key);
  g_auto (ReadGrant) back = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (read_grant_verify (token, key, NOW, &back, &error));
  g_assert_cmpstr (back.id, ==, "g-1");
  g_assert_cmpstr (back.purpose, ==, "shared-pvc");
  g_assert_cmpstr (back.repository, ==, "a/b");
  g_assert_cmpstr (back.digest, ==, "sha256:0");
  g_assert_cmpstr (back.namespace, ==, "ns");
  g_assert_cmpstr (back.name, ==, "job");
  g_assert_null (back.user);
  g_assert_cmpuint (back.groups->len, ==, 1);
  g_assert_cmpuint (back.expected_bytes, ==, G_MAXUINT64);
}

static void
test_time_and_key (void)
{
  ReadGrant grant = grant_for (NULL);
  g_autofree char *token = read_grant_sign (&grant, key);
  g_assert_true (verifies (token, key, NOW + 899));
  g_assert_true (verifies (token, key, NOW - 60));
  g_assert_false (verifies (token, key, NOW + 900));
  g_assert_false (verifies (token, key, NOW - 61));
  g_assert_false (verifies (token, other_key, NOW));
}

/* Whatever bit is changed, it is no grant any more. */
static void
test_tampering (void)
{
  ReadGrant grant = grant_for (NULL);
  g_autofree char *token = read_grant_sign (&grant, key);
  for (gsize i = 0; i < strlen (token); i++)
    for (guint bit = 0; bit < 7; bit++)
      {
        g_autofree char *changed = g_strdup (token);
        changed[i] = (char) (changed[i] ^ (1 << bit));
        g_assert_false (verifies (changed, key, NOW));
      }
  g_autofree char *longer = g_strconcat (token, "A", NULL), *padded = g_strconcat (token, "=", NULL);
  g_autofree char *cut = g_strndup (token, strlen (token) - 1), *huge = g_strnfill (READ_GRANT_MAX_BYTES, 'A');
  const char *const bad[] = { longer, padded, cut, huge, "", ".", "a.b", "a", "..", "e30." };
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_false (verifies (bad[i], key, NOW));
}

/* What others make of the same words: RFC 2104 and 4648 in another program. */
static void
test_known_token (void)
{
  guint8 known[READ_GRANT_KEY_SIZE];
  g_autofree char *hex = NULL;
  GString *text = g_string_new (NULL);
  read_grant_key ("salt", known);
  for (gsize i = 0; i < sizeof known; i++)
    g_string_append_printf (text, "%02x", known[i]);
  hex = g_string_free (text, FALSE);
  g_assert_cmpstr (hex, ==, "0c1b2d0e4fcaca47ef4477e23f6c1c88d9915b3741a6856c087577da08877890");
  g_assert_true (verifies (
    "eyJ2IjogMSwgImp0aSI6ICJ4IiwgInB1cnBvc2UiOiAiaW1wb3J0IiwgInJlcG9zaXRvcnkiOiAiciIsICJkaWdlc3QiOiAic2hhMjU2OjEiLCAiaWF0IjogMTgwMDAwMDAwMCwgImV4cCI6IDE4MDAwMDA5MDAsICJzdWJqZWN0IjogeyJ1c2VyIjogInUiLCAidWlkIjogIjEiLCAiZ3JvdXBzIjogWyJnIl19fQ"
    ".Zttyrbf6dbuM_t6yJ2l7PROTjXXakSszYmhJKiQ6T38",
    known, NOW));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  read_grant_key ("one", key);
  read_grant_key ("two", other_key);
  g_test_add_func ("/read-grant/round-trip", test_round_trip);
  g_test_add_func ("/read-grant/time-and-key", test_time_and_key);
  g_test_add_func ("/read-grant/tampering", test_tampering);
  g_test_add_func ("/read-grant/known-token", test_known_token);
  return g_test_run ();
}
