/* What a foreign server says: its error body, Retry-After and Location. Messages stay text of bounded
 * size, waits stay within their cap, and a redirect leads to an http or https URL or nowhere. */
#include <string.h>

#include "net/http_reply.h"
#include "net/http_url.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_redirect (const char *location)
{
  static HttpUrl base; /* once: it is the same for every input */
  g_auto (HttpUrl) next = { 0 };
  g_assert_true (base.text != NULL || http_url_parse ("https://user:secret@host/a/b?c", &base, NULL));
  if (!http_url_resolve (&base, location, &next, NULL))
    return;
  g_assert_true (g_str_has_prefix (next.origin, next.is_https ? "https://" : "http://"));
  g_assert_null (strchr (next.display, '?'));
}

static void
check_error (GBytes *body, const char *header, const char *type)
{
  static const guint statuses[] = { 400, 404, 429, 500, 503, 599, 302 };
  guint status = statuses[g_bytes_get_size (body) % G_N_ELEMENTS (statuses)];
  g_autoptr (GHashTable) headers = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GError) error = NULL;
  HttpReply reply = { .status = status, .headers = headers, .body = body };
  g_hash_table_insert (headers, (gpointer) "content-type", (gpointer) type);
  g_hash_table_insert (headers, (gpointer) "retry-after", (gpointer) header);
  g_hash_table_insert (headers, (gpointer) "ratelimit", (gpointer) header);
  g_assert_false (http_reply_fail (&reply, "GET", "http://h/", &error));
  g_assert_cmpuint (strlen (error->message), <, 2000);
  g_assert_cmpint (am_error_retry_after_ms (error), >=, 0);
  g_assert_cmpint (am_error_retry_after_ms (error), <=, 300000);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) body = g_bytes_new (data, size);
  g_autofree char *text = g_strndup ((const char *) data, size);
  check_redirect (text);
  check_error (body, text, "text/plain");
  check_error (body, text, "application/xml");
  return 0;
}
