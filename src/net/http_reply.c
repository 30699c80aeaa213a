#include "net/http_reply.h"

#include <curl/curl.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"
#include "net/http_transfer.h"

#define MAX_RETRY_AFTER_MS (5 * 60 * 1000)
#define MAX_DETAIL_BYTES 300
#define MAX_XML_BYTES 4096

static const struct {
  guint status;
  AmErrorCode code;
} status_codes[] = {
  { 400, AM_ERROR_INVALID_ARGUMENT },
  { 401, AM_ERROR_UNAUTHENTICATED },
  { 403, AM_ERROR_PERMISSION_DENIED },
  { 404, AM_ERROR_NOT_FOUND },
  { 405, AM_ERROR_UNIMPLEMENTED },
  { 408, AM_ERROR_UNAVAILABLE },
  { 409, AM_ERROR_ABORTED },
  { 410, AM_ERROR_NOT_FOUND },
  { 412, AM_ERROR_FAILED_PRECONDITION },
  { 413, AM_ERROR_RESOURCE_EXHAUSTED },
  { 416, AM_ERROR_OUT_OF_RANGE },
  { 422, AM_ERROR_INVALID_ARGUMENT },
  { 429, AM_ERROR_RESOURCE_EXHAUSTED },
  { 501, AM_ERROR_UNIMPLEMENTED },
  { 507, AM_ERROR_RESOURCE_EXHAUSTED },
};

static AmErrorCode
code_of (guint status)
{
  for (gsize i = 0; i < G_N_ELEMENTS (status_codes); i++)
    if (status_codes[i].status == status)
      return status_codes[i].code;
  return status >= 500 ? AM_ERROR_UNAVAILABLE : AM_ERROR_UNKNOWN;
}

gboolean
http_status_is_redirect (guint status)
{
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

gboolean
http_status_is_passing (guint status)
{
  return status == 408 || status == 429 || (status >= 500 && status <= 599 && status != 501);
}

gboolean
http_call_accepts (const HttpCall *call, guint status)
{
  for (const guint *each = call->accept_statuses; each != NULL && *each != 0; each++)
    if (*each == status)
      return TRUE;
  return status >= 200 && status <= 299;
}

gint64
http_retry_after_ms (const char *header)
{
  guint64 seconds;
  if (header == NULL)
    return 0;
  if (text_parse_u64 (header, &seconds))
    return (gint64) MIN (seconds, MAX_RETRY_AFTER_MS / 1000) * 1000;
  time_t when = curl_getdate (header, NULL);
  gint64 left = (gint64) when - (gint64) time (NULL);
  return when == -1 ? 0 : CLAMP (left, 0, MAX_RETRY_AFTER_MS / 1000) * 1000;
}

gint64
http_rate_limit_ms (const char *header)
{
  guint64 left = 1, seconds = 0;
  g_auto (GStrv) parts = g_strsplit_set (header != NULL ? header : "", ";,", 16);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      const char *part = g_strstrip (parts[i]);
      if (g_str_has_prefix (part, "r=") && !text_parse_u64 (part + 2, &left))
        return 0;
      if (g_str_has_prefix (part, "t=") && !text_parse_u64 (part + 2, &seconds))
        return 0;
    }
  return left == 0 ? MIN ((gint64) MIN (seconds, MAX_RETRY_AFTER_MS) * 1000 + 1000, MAX_RETRY_AFTER_MS) : 0;
}

/* Code and message of the first entry of an OCI error body (distribution-spec 1.1). */
static void
read_oci_error (const HttpReply *reply, char **out_code, char **out_message)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (reply->body, &size);
  g_autoptr (GError) ignored = NULL;
  g_autoptr (yyjson_doc) doc = json_parse (data, size, HTTP_ERROR_BODY_LIMIT, JSON_STRICT, &ignored);
  yyjson_val *first = doc != NULL ? yyjson_arr_get_first (json_get_array (yyjson_doc_get_root (doc), "errors"))
                                  : NULL;
  *out_code = g_strdup (json_get_string (first, "code"));
  *out_message = g_strdup (json_get_string (first, "message"));
}

/* What stands between <name> and </name> in `text`; NULL: nothing. Caller frees. */
static char *
xml_value (const char *text, const char *name)
{
  g_autofree char *open = g_strdup_printf ("<%s>", name), *close = g_strdup_printf ("</%s>", name);
  const char *start = strstr (text, open);
  const char *end = start != NULL ? strstr (start, close) : NULL;
  return end != NULL ? g_strndup (start + strlen (open), (gsize) (end - start) - strlen (open)) : NULL;
}

/* An object store's or a CDN's answer: <Error><Code>...</Code><Message>...</Message>. The rest may be secret. */
static char *
read_xml_text (const char *text)
{
  g_autofree char *code = xml_value (text, "Code");
  char *message = xml_value (text, "Message");
  return message != NULL ? message : g_steal_pointer (&code);
}

char *
http_hide_queries (const char *text)
{
  GString *out = g_string_new (NULL);
  while (*text != '\0')
    {
      gsize size = strcspn (text, " \"'<>");
      gsize shown = strcspn (text, "?");
      gboolean is_query = shown < size && memchr (text + shown, '=', size - shown) != NULL;
      g_string_append_len (out, text, (gssize) (is_query ? shown + 1 : size));
      text += size;
      if (*text != '\0')
        g_string_append_c (out, *text++);
    }
  return g_string_free (out, FALSE);
}

/* The beginning of an answer in plain text, or what one in XML says: some servers say there what is wrong. */
static char *
read_text (const HttpReply *reply)
{
  gsize size;
  const char *data = g_bytes_get_data (reply->body, &size);
  const char *type = http_reply_header (reply, "content-type");
  gboolean is_xml = type != NULL && strstr (type, "xml") != NULL;
  if (type == NULL || size == 0 || (!is_xml && !g_str_has_prefix (type, "text/plain")))
    return NULL;
  g_autofree char *text = g_utf8_make_valid (data, (gssize) MIN (size, is_xml ? MAX_XML_BYTES : MAX_DETAIL_BYTES));
  g_autofree char *told = is_xml ? read_xml_text (text) : g_steal_pointer (&text);
  return told != NULL ? g_strstrip (g_strdelimit (http_hide_queries (told), "\r\n\t", ' ')) : NULL;
}

/* What servers answer to HTTP where they speak TLS: Go's, nginx, Apache. */
static gboolean
expects_tls (const HttpReply *reply)
{
  static const char *const texts[] = { "HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port",
                                       "speaking plain HTTP to an SSL-enabled server port" };
  gsize size = 0;
  const char *data = reply->body != NULL ? g_bytes_get_data (reply->body, &size) : NULL;
  for (gsize i = 0; reply->status == 400 && data != NULL && i < G_N_ELEMENTS (texts); i++)
    if (g_strstr_len (data, (gssize) size, texts[i]) != NULL)
      return TRUE;
  return FALSE;
}

gboolean
http_fail_proxy (guint status, const char *proxy, const char *method, const char *display_url, GError **error)
{
  if (status == 407)
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "ProxyLogin",
                    "%s %s: the proxy%s asks for a login (status 407): put it into its address, "
                    "http://USER:PASSWORD@HOST:PORT in https_proxy or http_proxy",
                    method, display_url, proxy);
  return am_fail (
    error, http_status_is_passing (status) ? AM_ERROR_UNAVAILABLE : AM_ERROR_PERMISSION_DENIED,
    http_status_is_passing (status) ? NULL : "ProxyRefused",
    "%s %s: the proxy%s does not connect to it (status %u): no_proxy names hosts that are asked directly", method,
    display_url, proxy, status);
}

gboolean
http_reply_fail (const HttpReply *reply, const char *method, const char *display_url, GError **error)
{
  g_autofree char *code = NULL, *message = NULL;
  GError *made = NULL;
  if (reply->status == 407)
    return http_fail_proxy (407, "", method, display_url, error);
  if (expects_tls (reply))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "TlsExpected",
                    "%s %s: the server speaks TLS: write https://", method, display_url);
  read_oci_error (reply, &code, &message);
  if (message == NULL)
    message = read_text (reply);
  if (message != NULL && strlen (message) > MAX_DETAIL_BYTES)
    message[MAX_DETAIL_BYTES] = '\0';
  gboolean detailed = message != NULL && *message != '\0';
  const char *reason = reply->status == 507 ? "InsufficientStorage" : code; /* which no OCI code says */
  am_fail (&made, code_of (reply->status), reason, "%s %s: status %u%s%s", method, display_url, reply->status,
           detailed ? ": " : "", detailed ? message : "");
  gint64 limit_ms = reply->status == 429 ? http_rate_limit_ms (http_reply_header (reply, "ratelimit")) : 0;
  am_error_set_retry_after_ms (made, limit_ms > 0 ? limit_ms
                                                  : http_retry_after_ms (http_reply_header (reply, "retry-after")));
  g_propagate_error (error, made);
  return FALSE;
}

const char *
http_reply_header (const HttpReply *self, const char *lower_case_name)
{
  return self->headers != NULL ? g_hash_table_lookup (self->headers, lower_case_name) : NULL;
}

void
http_reply_clear (HttpReply *self)
{
  self->status = 0;
  g_clear_pointer (&self->headers, g_hash_table_unref);
  g_clear_pointer (&self->body, g_bytes_unref);
  g_clear_pointer (&self->url, g_free);
  g_clear_pointer (&self->scheme_host, g_free);
}
