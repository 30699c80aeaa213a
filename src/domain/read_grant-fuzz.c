/* Any claims, rightly signed or not: no grant, or one whose every word is there. */
#include "domain/read_grant.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  guint8 key[READ_GRANT_KEY_SIZE];
  read_grant_key ("salt", key);
  /* The text as it is, and as the claims of a signed token. */
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_autofree char *body = g_base64_encode (data, size);
  g_strdelimit (body, "+", '-');
  g_strdelimit (body, "/", '_');
  body[strcspn (body, "=")] = '\0';
  guint8 signature[32];
  gsize signature_size = sizeof signature;
  GHmac *hmac = g_hmac_new (G_CHECKSUM_SHA256, key, sizeof key);
  g_hmac_update (hmac, (const guchar *) body, -1);
  g_hmac_get_digest (hmac, signature, &signature_size);
  g_hmac_unref (hmac);
  g_autofree char *end = g_base64_encode (signature, sizeof signature);
  g_strdelimit (end, "+", '-');
  g_strdelimit (end, "/", '_');
  end[strcspn (end, "=")] = '\0';
  g_autofree char *token = g_strconcat (body, ".", end, NULL);
  const char *const tokens[] = { text, token };
  for (gsize i = 0; i < G_N_ELEMENTS (tokens); i++)
    {
      g_auto (ReadGrant) grant = { 0 };
      if (read_grant_verify (tokens[i], key, 1800000000, &grant, NULL))
        g_assert_true (grant.id != NULL && grant.purpose != NULL && grant.repository != NULL && grant.digest != NULL);
    }
  return 0;
}
