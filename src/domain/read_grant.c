#include "domain/read_grant.h"

#include <string.h>

#include "base/json.h"

#define VERSION 1
#define SKEW_S 60
#define SIGNATURE_SIZE 32

static const JsonField claims[] = {
  JSON_FIELD (ReadGrant, id, "jti", JSON_STRING, TRUE),
  JSON_FIELD (ReadGrant, purpose, "purpose", JSON_STRING, TRUE),
  JSON_FIELD (ReadGrant, repository, "repository", JSON_STRING, TRUE),
  JSON_FIELD (ReadGrant, digest, "digest", JSON_STRING, TRUE),
  JSON_FIELD (ReadGrant, expected_bytes, "expectedBytes", JSON_UINT64, FALSE),
  JSON_FIELD (ReadGrant, issued_s, "iat", JSON_INT64, TRUE),
  JSON_FIELD (ReadGrant, expires_s, "exp", JSON_INT64, TRUE),
};
static const JsonField subject_claims[] = {
  JSON_FIELD (ReadGrant, namespace, "namespace", JSON_STRING, FALSE),
  JSON_FIELD (ReadGrant, name, "name", JSON_STRING, FALSE),
  JSON_FIELD (ReadGrant, user, "user", JSON_STRING, FALSE),
  JSON_FIELD (ReadGrant, uid, "uid", JSON_STRING, FALSE),
  JSON_FIELD (ReadGrant, groups, "groups", JSON_STRINGS, FALSE),
};

void
read_grant_clear (ReadGrant *self)
{
  json_clear (claims, G_N_ELEMENTS (claims), self);
  json_clear (subject_claims, G_N_ELEMENTS (subject_claims), self);
}

static void
hmac (const guint8 *key, gsize key_size, const char *text, gsize size, guint8 out[SIGNATURE_SIZE])
{
  gsize out_size = SIGNATURE_SIZE;
  GHmac *self = g_hmac_new (G_CHECKSUM_SHA256, key, key_size);
  g_hmac_update (self, (const guchar *) text, (gssize) size);
  g_hmac_get_digest (self, out, &out_size);
  g_hmac_unref (self);
}

void
read_grant_key (const char *salt, guint8 out_key[READ_GRANT_KEY_SIZE])
{
  static const char purpose[] = "ai-models/read-grant/v1";
  hmac ((const guint8 *) salt, strlen (salt), purpose, strlen (purpose), out_key);
}

/* RFC 4648, 5: without padding. */
static char *
base64url (gconstpointer data, gsize size)
{
  char *text = g_base64_encode (data, size);
  g_strdelimit (text, "+", '-');
  g_strdelimit (text, "/", '_');
  text[strcspn (text, "=")] = '\0';
  return text;
}

/* Only the one text that base64url makes of the bytes; NULL otherwise. */
static guint8 *
unbase64url (const char *text, gsize size, gsize *out_size)
{
  g_autofree char *plain = g_strndup (text, size);
  g_strdelimit (plain, "-", '+');
  g_strdelimit (plain, "_", '/');
  g_autofree char *padded = g_strconcat (plain, &"===="[size % 4 == 0 ? 4 : size % 4], NULL);
  g_autofree guint8 *bytes = g_base64_decode (padded, out_size);
  g_autofree char *again = base64url (bytes, *out_size);
  return strlen (again) == size && memcmp (again, text, size) == 0 ? g_steal_pointer (&bytes) : NULL;
}

char *
read_grant_sign (const ReadGrant *self, const guint8 key[READ_GRANT_KEY_SIZE])
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_int (doc, root, "v", VERSION);
  json_unbind (doc, root, claims, G_N_ELEMENTS (claims), self);
  json_unbind (doc, yyjson_mut_obj_add_obj (doc, root, "subject"), subject_claims, G_N_ELEMENTS (subject_claims),
               self);
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  g_autofree char *body = base64url (text, size);
  guint8 signature[SIGNATURE_SIZE];
  hmac (key, READ_GRANT_KEY_SIZE, body, strlen (body), signature);
  g_autofree char *signed_by = base64url (signature, sizeof signature);
  return g_strconcat (body, ".", signed_by, NULL);
}

static gboolean
is_signed (const char *token, gsize body_size, const guint8 *key)
{
  gsize size = 0;
  const char *text = token + body_size + 1;
  g_autofree guint8 *signature = unbase64url (text, strlen (text), &size);
  guint8 expected[SIGNATURE_SIZE], difference = 0;
  hmac (key, READ_GRANT_KEY_SIZE, token, body_size, expected);
  if (signature == NULL || size != SIGNATURE_SIZE)
    return FALSE;
  for (gsize i = 0; i < SIGNATURE_SIZE; i++) /* takes as long wherever they differ */
    difference |= (guint8) (signature[i] ^ expected[i]);
  return difference == 0;
}

static gboolean
read_claims (const guint8 *text, gsize size, ReadGrant *grant)
{
  g_autoptr (yyjson_doc) doc = json_parse (text, size, READ_GRANT_MAX_BYTES, JSON_STRICT, NULL);
  yyjson_val *root = yyjson_doc_get_root (doc);
  yyjson_val *subject = json_get_object (root, "subject");
  return yyjson_get_uint (yyjson_obj_get (root, "v")) == VERSION
         && json_bind (root, claims, G_N_ELEMENTS (claims), grant, NULL)
         && (subject == NULL || json_bind (subject, subject_claims, G_N_ELEMENTS (subject_claims), grant, NULL));
}

gboolean
read_grant_verify (const char *token, const guint8 key[READ_GRANT_KEY_SIZE], gint64 now_s, ReadGrant *out_grant,
                   GError **error)
{
  g_auto (ReadGrant) grant = { 0 };
  const char *dot = strnlen (token, READ_GRANT_MAX_BYTES) < READ_GRANT_MAX_BYTES ? strchr (token, '.') : NULL;
  gsize size = 0;
  g_autofree guint8 *text = NULL;
  if (dot != NULL && is_signed (token, (gsize) (dot - token), key))
    text = unbase64url (token, (gsize) (dot - token), &size);
  if (text == NULL || !read_claims (text, size, &grant))
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", "this is no valid read grant");
  if (now_s >= grant.expires_s || now_s < grant.issued_s - SKEW_S)
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", "the read grant %.64s has %s", grant.id,
                    now_s >= grant.expires_s ? "ended" : "not begun");
  *out_grant = grant;
  grant = (ReadGrant){ 0 };
  return TRUE;
}
