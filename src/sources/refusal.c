#include "sources/refusal.h"

#include <string.h>

#include "base/json.h"

#define DETAIL_MAX_BYTES 200u
#define ERROR_BODY_LIMIT_BYTES (64u << 10)

static const struct {
  const char *reason, *text;
  gboolean names_mirror;
} no_answers[] = {
  { "HostUnreachable", "is the address right? A proxy is named by https_proxy, a mirror by ", TRUE },
  { "CertificateNotTrusted", "name the certificate authority of the mirror or proxy with SSL_CERT_FILE", FALSE },
  { "TlsFailed", "does the mirror speak HTTP without TLS? Then write http:// in ", TRUE },
  { "NoAnswer", "does a hub answer there? A mirror is named by ", TRUE },
};

/* Fit for a terminal and a log: one line, nothing but text. Caller frees. */
static char *
one_line (const char *text, gsize size)
{
  g_autofree char *valid = g_utf8_make_valid (text, (gssize) MIN (size, DETAIL_MAX_BYTES));
  char *line = http_hide_queries (valid);
  for (char *c = line; *c != '\0'; c++)
    if (g_ascii_iscntrl (*c))
      *c = ' ';
  return g_strstrip (line);
}

/* The hub's own words: a header, one of two forms of body, or plain text. Caller frees; "" when it says nothing. */
static char *
read_detail (const HttpReply *reply)
{
  const char *text = http_reply_header (reply, "x-error-message");
  const char *type = http_reply_header (reply, "content-type");
  gsize size = 0;
  const char *data = reply->body != NULL ? g_bytes_get_data (reply->body, &size) : NULL;
  g_autoptr (yyjson_doc) doc = size > 0 ? json_parse (data, size, ERROR_BODY_LIMIT_BYTES, JSON_STRICT, NULL) : NULL;
  yyjson_val *root = doc != NULL ? yyjson_doc_get_root (doc) : NULL;
  if (text == NULL)
    text = json_get_string (root, "error");
  if (text == NULL)
    text = json_get_string (yyjson_arr_get_first (json_get_array (root, "errors")), "message");
  if (text != NULL)
    return one_line (text, strlen (text));
  gboolean is_plain = doc == NULL && size > 0 && type != NULL && g_str_has_prefix (type, "text/plain");
  return one_line (is_plain ? data : "", is_plain ? size : 0);
}

static gboolean
fits (const RefusalRow *row, gboolean has_token, guint status, const char *code, const char *detail)
{
  gboolean same_status = row->status == status || (row->status == 500 && status >= 500);
  gboolean same_token = row->token == REFUSAL_ANY_TOKEN || (row->token == REFUSAL_WITH_TOKEN) == has_token;
  return same_status && same_token && (row->code == NULL || g_strcmp0 (row->code, code) == 0)
         && (row->says == NULL || strstr (detail, row->says) != NULL);
}

static void
explain_silence (const RefusalTable *table, const char *name, GError **error)
{
  g_prefix_error (error, "%s: ", name);
  for (gsize i = 0; i < G_N_ELEMENTS (no_answers); i++)
    if (am_error_has_reason (*error, no_answers[i].reason))
      {
        g_autofree char *message = g_strdup_printf ("%s; %s%s", (*error)->message, no_answers[i].text,
                                                    no_answers[i].names_mirror ? table->mirror_setting : "");
        AmErrorCode kind = (AmErrorCode) (*error)->code;
        g_clear_error (error);
        am_fail (error, kind, no_answers[i].reason, "%s", message);
        return;
      }
}

gboolean
refusal_explain (const RefusalTable *table, const char *name, gboolean has_token, const HttpReply *reply,
                 GError **error)
{
  if (error == NULL)
    return FALSE;
  g_autofree char *detail = read_detail (reply);
  const char *code = http_reply_header (reply, "x-error-code");
  gint64 retry_after_ms = am_error_retry_after_ms (*error);
  for (gsize i = 0; i < table->n_rows; i++)
    if (fits (&table->rows[i], has_token, reply->status, code, detail))
      {
        g_clear_error (error);
        am_fail (error, table->rows[i].error, table->rows[i].reason, "%s %s (status %u%s%s)", name,
                 table->rows[i].text, reply->status, *detail != '\0' ? ": " : "", detail);
        am_error_set_retry_after_ms (*error, retry_after_ms);
        return FALSE;
      }
  if (reply->status == 0)
    explain_silence (table, name, error);
  else
    g_prefix_error (error, "%s: ", name);
  return FALSE;
}
