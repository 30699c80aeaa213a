#include <string.h>

#include "base/json.h"
#include "sources/hf_hub_private.h"

#define DETAIL_MAX_BYTES 200
#define ERROR_BODY_LIMIT_BYTES (64u << 10)

typedef enum { ANY_TOKEN, WITHOUT_TOKEN, WITH_TOKEN } TokenState;

/* formats-huggingface.md 3.2; the first row that fits counts. */
static const struct {
  guint status;     /* 500: all from there on */
  const char *code; /* X-Error-Code; NULL: any */
  const char *says; /* a part of the hub's message; NULL: any */
  TokenState token;
  AmErrorCode error;
  const char *reason, *text;
} rows[] = {
  { 401, "GatedRepo", NULL, ANY_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubGated",
    "is gated: accept its terms on its page, then give a token of that account with --token-file or HF_TOKEN" },
  { 403, "GatedRepo", NULL, WITHOUT_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubGated",
    "is gated: accept its terms on its page, then give a token of that account with --token-file or HF_TOKEN" },
  { 403, "GatedRepo", NULL, WITH_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubGated",
    "is gated, and the token's account has no access yet: accept its terms on its page, or wait until its owner agrees; "
    "a fine-grained token also needs the right to read gated repositories" },
  { 401, NULL, "Invalid credentials", ANY_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "cannot be read: the hub does not accept the token, which is mistyped, expired or revoked; make a new one in the "
    "account's settings" },
  { 401, NULL, NULL, WITH_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "is not there, or the token may not read it: check the name, and the rights of the token" },
  { 401, NULL, NULL, WITHOUT_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "is not there, or is private: check the name; for a private one give a token with --token-file or HF_TOKEN" },
  { 403, NULL, "disabled", ANY_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubForbidden", "was disabled by the hub" },
  { 403, NULL, NULL, ANY_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubForbidden",
    "may not be read: check the rights of the token" },
  { 404, "RevisionNotFound", NULL, ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubRevisionNotFound",
    "has no such branch, tag or commit" },
  { 404, "EntryNotFound", NULL, ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubNotFound", "has no such file" },
  { 404, NULL, NULL, ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubNotFound", "is not there: check the name" },
  { 429, NULL, NULL, WITHOUT_TOKEN, AM_ERROR_UNAVAILABLE, "HubRateLimited",
    "cannot be read now: too many requests came from this address; wait some minutes, or give a token, which allows more" },
  { 429, NULL, NULL, WITH_TOKEN, AM_ERROR_UNAVAILABLE, "HubRateLimited",
    "cannot be read now: the token's account sent too many requests; wait some minutes" },
  { 500, NULL, NULL, ANY_TOKEN, AM_ERROR_UNAVAILABLE, "HubTrouble", "cannot be read now: the hub has trouble" },
};

static const struct {
  const char *reason, *text;
} no_answers[] = {
  { "HostUnreachable", "is the address right? A proxy is named by https_proxy, a mirror by HF_ENDPOINT" },
  { "CertificateNotTrusted", "name the certificate authority of the mirror or proxy with SSL_CERT_FILE" },
};

/* The hub's own words: a header, or one of two forms of body. Caller frees; "" when it says nothing. */
static char *
read_detail (const HttpReply *reply)
{
  const char *text = http_reply_header (reply, "x-error-message");
  gsize size = 0;
  gconstpointer data = reply->body != NULL ? g_bytes_get_data (reply->body, &size) : NULL;
  g_autoptr (yyjson_doc) doc = size > 0 ? json_parse (data, size, ERROR_BODY_LIMIT_BYTES, JSON_STRICT, NULL) : NULL;
  yyjson_val *root = doc != NULL ? yyjson_doc_get_root (doc) : NULL;
  if (text == NULL)
    text = json_get_string (root, "error");
  if (text == NULL)
    text = json_get_string (yyjson_arr_get_first (json_get_array (root, "errors")), "message");
  char *detail = g_utf8_make_valid (text != NULL ? text : "",
                                    (gssize) (text != NULL ? MIN (strlen (text), DETAIL_MAX_BYTES) : 0));
  return g_strstrip (g_strdelimit (detail, "\r\n\t", ' '));
}

static gboolean
fits (gsize row, const HfHub *self, guint status, const char *code, const char *detail)
{
  gboolean same_status = rows[row].status == status || (rows[row].status == 500 && status >= 500);
  gboolean same_token = rows[row].token == ANY_TOKEN || (rows[row].token == WITH_TOKEN) == self->has_token;
  return same_status && same_token && (rows[row].code == NULL || g_strcmp0 (rows[row].code, code) == 0)
         && (rows[row].says == NULL || strstr (detail, rows[row].says) != NULL);
}

static char *
name_of (const HfHub *self, const HfAsked *asked)
{
  return g_strdup_printf ("%s/%s%s%s%s%s", self->endpoint, asked->repository, asked->revision != NULL ? " at " : "",
                          asked->revision != NULL ? asked->revision : "", asked->path != NULL ? ", file " : "",
                          asked->path != NULL ? asked->path : "");
}

gboolean
hf_explain (const HfHub *self, const HfAsked *asked, const HttpReply *reply, GError **error)
{
  if (error == NULL)
    return FALSE;
  g_autofree char *name = name_of (self, asked), *detail = read_detail (reply);
  const char *code = http_reply_header (reply, "x-error-code");
  gint64 retry_after_ms = am_error_retry_after_ms (*error);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    if (fits (i, self, reply->status, code, detail))
      {
        g_clear_error (error);
        am_fail (error, rows[i].error, rows[i].reason, "%s %s (status %u%s%s)", name, rows[i].text, reply->status,
                 *detail != '\0' ? ": " : "", detail);
        am_error_set_retry_after_ms (*error, retry_after_ms);
        return FALSE;
      }
  g_prefix_error (error, "%s: ", name);
  for (gsize i = 0; reply->status == 0 && i < G_N_ELEMENTS (no_answers); i++)
    if (am_error_has_reason (*error, no_answers[i].reason))
      {
        g_autofree char *message = g_strdup_printf ("%s; %s", (*error)->message, no_answers[i].text);
        AmErrorCode kind = (AmErrorCode) (*error)->code;
        g_clear_error (error);
        am_fail (error, kind, no_answers[i].reason, "%s", message);
        return FALSE;
      }
  return FALSE;
}
