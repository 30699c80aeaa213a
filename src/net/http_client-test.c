#include "net/http_client.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "net/http_reply.h"
#include "net/http_url.h"
#include "net/net_fixture.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define BUSY "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"

static void
test_retries (void)
{
  static const struct {
    const char *method;
    gboolean idempotent;
    const char *answers[6];
    guint n_requests;
    int error; /* 0: none */
  } rows[] = {
    { "GET", FALSE, { OK }, 1, 0 },
    { "GET", FALSE, { BUSY, BUSY, OK }, 3, 0 },
    { "GET", FALSE, { BUSY }, 5, AM_ERROR_UNAVAILABLE },
    { "GET", FALSE, { "", OK }, 2, 0 },
    { "GET", FALSE, { "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", OK }, 2, 0 },
    { "GET", FALSE, { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", OK }, 2, 0 },
    { "GET", FALSE, { "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf" }, 5, AM_ERROR_UNAVAILABLE },
    { "GET", FALSE, { "HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n", OK }, 2, 0 },
    { "GET", FALSE, { "HTTP/1.1 408 x\r\nContent-Length: 0\r\n\r\n", OK }, 2, 0 },
    { "GET", FALSE, { "HTTP/1.1 501 x\r\nContent-Length: 0\r\n\r\n", OK }, 1, AM_ERROR_UNIMPLEMENTED },
    { "GET", FALSE, { "HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", OK }, 1, AM_ERROR_NOT_FOUND },
    { "GET", FALSE, { "nonsense\r\n\r\n", OK }, 2, 0 },
    { "DELETE", FALSE, { BUSY, OK }, 2, 0 },
    { "POST", FALSE, { BUSY, OK }, 1, AM_ERROR_UNAVAILABLE },
    { "POST", FALSE, { "", OK }, 1, AM_ERROR_UNAVAILABLE },
    { "POST", FALSE, { "HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n", OK }, 2, 0 },
    { "POST", TRUE, { BUSY, OK }, 2, 0 },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (0);
      g_auto (RawScript) script = { 0 };
      RawServer *server = raw_script_start (&script, rows[i].answers);
      g_autofree char *url = fixture_url (server, "/a?secret=1");
      g_auto (HttpReply) reply = { 0 };
      g_autoptr (GError) error = NULL;
      HttpCall call = { .method = rows[i].method, .url = url, .idempotent = rows[i].idempotent };
      gboolean done = http_client_call (ctx, client, &call, &reply, &error);
      g_test_message ("%s %s: %s", rows[i].method, rows[i].answers[0], done ? "done" : error->message);
      g_assert_cmpint (done, ==, rows[i].error == 0);
      g_assert_cmpuint (raw_server_n_connections (server), ==, rows[i].n_requests);
      if (done)
        g_assert_cmpuint (g_bytes_get_size (reply.body), ==, 2);
      else
        {
          g_assert_cmpint (error->code, ==, rows[i].error);
          g_assert_null (strstr (error->message, "secret"));
          g_assert_nonnull (strstr (error->message, "/a"));
        }
    }
}

static void
test_error_body (void)
{
  static const char *const answers[] = {
    "HTTP/1.1 400 x\r\nContent-Type: application/json\r\nContent-Length: 68\r\n\r\n"
    "{\"errors\":[{\"code\":\"DIGEST_INVALID\",\"message\":\"it does not match\"}]}",
    NULL,
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = fixture_client (0);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  g_auto (RawScript) script = { 0 };
  RawServer *server = raw_script_start (&script, answers);
  g_autofree char *url = g_strdup_printf ("http://user:pass@127.0.0.1:%u/x?q=1#f", raw_server_port (server));
  HttpCall call = { .method = "GET", .url = url };
  g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
  g_assert_cmpstr (am_error_reason (error), ==, "DIGEST_INVALID");
  g_autofree char *expected = g_strdup_printf ("GET http://127.0.0.1:%u/x: status 400: it does not match",
                                               raw_server_port (server));
  g_assert_cmpstr (error->message, ==, expected);
  g_assert_cmpuint (reply.status, ==, 400);
  g_assert_cmpuint (g_bytes_get_size (reply.body), ==, 68);
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "Authorization: Basic dXNlcjpwYXNz"));
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "Accept-Encoding: identity"));
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "User-Agent: ai-models/"));
}

/* What else servers and proxies say is told, but for what may be secret in it. */
static void
test_words (void)
{
  static const struct {
    guint status;
    const char *type, *body;
    AmErrorCode code;
    const char *reason, *says;
  } rows[] = {
    { 403, "application/xml", "<?xml?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
      AM_ERROR_PERMISSION_DENIED, NULL, "status 403: Request has expired" },
    { 403, "text/xml", "<Error><Code>AccessDenied</Code><StringToSign>SECRET</StringToSign></Error>",
      AM_ERROR_PERMISSION_DENIED, NULL, "status 403: AccessDenied" },
    { 403, "application/xml", "<Error>SECRET", AM_ERROR_PERMISSION_DENIED, NULL, "status 403" },
    { 502, "text/plain", "cannot get http://cdn/a?X-Amz-Signature=SECRET&b=SECRET now", AM_ERROR_UNAVAILABLE, NULL,
      "cannot get http://cdn/a? now" },
    { 502, "text/plain", "\"/a?b=SECRET\" why? x=y", AM_ERROR_UNAVAILABLE, NULL, "\"/a?\" why? x=y" },
    { 404, "text/html", "<html>SECRET", AM_ERROR_NOT_FOUND, NULL, "status 404" },
    { 400, "text/plain", "Client sent an HTTP request to an HTTPS server.\n", AM_ERROR_FAILED_PRECONDITION,
      "TlsExpected", "write https://" },
    { 400, "text/html", "<p>The plain HTTP request was sent to HTTPS port</p>", AM_ERROR_FAILED_PRECONDITION,
      "TlsExpected", "write https://" },
    { 507, "application/json", "{\"errors\":[{\"code\":\"TOOMANYREQUESTS\",\"message\":\"full\"}]}",
      AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", "status 507: full" },
    { 407, "text/html", "<html>", AM_ERROR_UNAUTHENTICATED, "ProxyLogin", "the proxy asks for a login" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GHashTable) headers = g_hash_table_new (g_str_hash, g_str_equal);
      g_autoptr (GBytes) body = g_bytes_new_static (rows[i].body, strlen (rows[i].body));
      g_autoptr (GError) error = NULL;
      HttpReply reply = { .status = rows[i].status, .headers = headers, .body = body };
      g_hash_table_insert (headers, (gpointer) "content-type", (gpointer) rows[i].type);
      g_assert_false (http_reply_fail (&reply, "GET", "http://h/", &error));
      g_test_message ("%s", error->message);
      g_assert_error (error, AM_ERROR, (int) rows[i].code);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_nonnull (strstr (error->message, rows[i].says));
      g_assert_null (strstr (error->message, "SECRET"));
    }
}

/* A proxy that does not connect: what it wants is said once, and asked for once where asking again is no use. */
static void
test_proxies (void)
{
  static const struct {
    const char *answer, *url;
    AmErrorCode code;
    const char *reason, *says;
    guint n_requests;
  } rows[] = {
    { "HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n", "https://h.invalid/", AM_ERROR_UNAUTHENTICATED, "ProxyLogin",
      "the proxy at 127.0.0.1 port ", 1 },
    { "HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n", "http://h.invalid/", AM_ERROR_UNAUTHENTICATED, "ProxyLogin",
      "https_proxy", 1 },
    { "HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n", "https://h.invalid/", AM_ERROR_PERMISSION_DENIED, "ProxyRefused",
      "status 403", 1 },
    { "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n", "https://h.invalid/", AM_ERROR_UNAVAILABLE, NULL, "status 503",
      3 },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (RawScript) script = { 0 };
      const char *const answers[] = { rows[i].answer, NULL };
      RawServer *server = raw_script_start (&script, answers);
      g_autofree char *proxy = g_strdup_printf ("http://user:SECRET@127.0.0.1:%u", raw_server_port (server));
      HttpClientConfig config = { .retry_base_ms = 1, .max_attempts = 3, .proxy = proxy };
      g_autoptr (GError) error = NULL;
      g_autoptr (HttpClient) client = http_client_new (&config, &error);
      g_auto (HttpReply) reply = { 0 };
      HttpCall call = { .method = "GET", .url = rows[i].url };
      g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
      g_test_message ("%s", error->message);
      g_assert_error (error, AM_ERROR, (int) rows[i].code);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_nonnull (strstr (error->message, rows[i].says));
      g_assert_null (strstr (error->message, "SECRET"));
      g_assert_cmpuint (raw_server_n_connections (server), ==, rows[i].n_requests);
    }
}

/* Answers whatever comes as a server without TLS does, or not at all. */
static void
serve_words (int fd, guint n, gpointer data)
{
  char buffer[4096];
  g_assert_cmpint (read (fd, buffer, sizeof buffer), >, 0);
  if (data != NULL)
    raw_try_send (fd, data, strlen (data));
}

/* http where TLS is spoken, and the other way round. */
static void
test_wrong_scheme (void)
{
  static const struct {
    const char *scheme, *words, *reason;
  } rows[] = {
    { "https", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "TlsFailed" },
    { "https", NULL, "TlsFailed" },
    { "http", "\x15\x03\x01\x02\x02\x28", "NoAnswer" },
    { "http", NULL, "NoAnswer" },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (0);
      g_autoptr (RawServer) server = raw_server_start (serve_words, (gpointer) rows[i].words);
      g_autofree char *url = g_strdup_printf ("%s://127.0.0.1:%u/", rows[i].scheme, raw_server_port (server));
      g_autoptr (GError) error = NULL;
      g_auto (HttpReply) reply = { 0 };
      HttpCall call = { .method = "GET", .url = url };
      g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
      g_test_message ("%s", error->message);
      g_assert_error (error, AM_ERROR, AM_ERROR_UNAVAILABLE);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
    }
}

static void
test_retry_after (void)
{
  char date[64];
  time_t soon = time (NULL) + 100;
  struct tm parts;
  strftime (date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r (&soon, &parts));
  g_assert_cmpint (http_retry_after_ms (NULL), ==, 0);
  g_assert_cmpint (http_retry_after_ms ("nonsense"), ==, 0);
  g_assert_cmpint (http_retry_after_ms ("-1"), ==, 0);
  g_assert_cmpint (http_retry_after_ms ("7"), ==, 7000);
  g_assert_cmpint (http_retry_after_ms ("100000"), ==, 300000);
  g_assert_cmpint (http_retry_after_ms ("99999999999999999999"), ==, 0);
  g_assert_cmpint (http_retry_after_ms ("Thu, 01 Jan 1970 00:00:10 GMT"), ==, 0);
  g_assert_cmpint (http_retry_after_ms (date), >, 90000);
  g_assert_cmpint (http_retry_after_ms (date), <=, 100000);
  g_assert_cmpint (http_rate_limit_ms (NULL), ==, 0);
  g_assert_cmpint (http_rate_limit_ms ("\"api\";r=0;t=7"), ==, 8000);
  g_assert_cmpint (http_rate_limit_ms ("\"api\"; r=0; t=900"), ==, 300000);
  g_assert_cmpint (http_rate_limit_ms ("r=0;t=18446744073709551615"), ==, 300000);
  g_assert_cmpint (http_rate_limit_ms ("\"api\";r=3;t=7"), ==, 0);
  g_assert_cmpint (http_rate_limit_ms ("\"api\";r=0;t=x"), ==, 0);

  static const char *const answers[] = { "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", OK,
                                         NULL };
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = fixture_client (0);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 }, refused = { 0 };
  g_auto (RawScript) script = { 0 }, again = { 0 };
  RawServer *server = raw_script_start (&script, answers);
  g_autofree char *url = fixture_url (server, "/");
  HttpCall call = { .method = "GET", .url = url };
  gint64 start_us = g_get_monotonic_time ();
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_cmpint (g_get_monotonic_time () - start_us, >=, 1000 * 1000);
  /* No time left for that wait: the reason is reported at once. */
  RawServer *busy = raw_script_start (&again, answers);
  g_autofree char *busy_url = fixture_url (busy, "/");
  g_autoptr (Ctx) hurried = ctx_new_child (ctx, 950);
  call.url = busy_url;
  start_us = g_get_monotonic_time ();
  g_assert_false (http_client_call (hurried, client, &call, &refused, &error));
  g_assert_true (am_error_is (error, AM_ERROR_UNAVAILABLE));
  g_assert_cmpint (am_error_retry_after_ms (error), ==, 1000);
  g_assert_cmpint (g_get_monotonic_time () - start_us, <, 900 * 1000);
}

/* Credentials go to their origin only; a redirect to another port is another origin. */
static void
test_redirects (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = fixture_client (0);
  static const char *const ok[] = { OK, NULL };
  g_auto (RawScript) there = { 0 };
  RawServer *other = raw_script_start (&there, ok);
  g_autofree char *cross = g_strdup_printf (
    "HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:%u/b?sig=x\r\nContent-Length: 4\r\n\r\nbody",
    raw_server_port (other));
  g_auto (RawScript) here = { 0 };
  const char *answers[] = { "HTTP/1.1 302 x\r\nLocation: /next?a=b\r\nContent-Length: 0\r\n\r\n", cross, NULL };
  RawServer *server = raw_script_start (&here, answers);
  g_autofree char *url = fixture_url (server, "/a/b");
  g_autofree char *other_url = fixture_url (other, "/b?sig=x");
  http_client_set_credentials (client, url, "Bearer token-here");
  const char *headers[] = { "Cookie: c=1", "X-Plain: yes", NULL };
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  HttpCall call = { .method = "GET", .url = url, .headers = headers };
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (reply.url, ==, other_url);
  g_assert_nonnull (strstr (raw_script_request (&here, 0), "Authorization: Bearer token-here"));
  g_assert_true (g_str_has_prefix (raw_script_request (&here, 1), "GET /next?a=b "));
  g_assert_nonnull (strstr (raw_script_request (&here, 1), "Authorization: Bearer token-here"));
  g_assert_nonnull (strstr (raw_script_request (&here, 1), "Cookie: c=1"));
  g_assert_null (strstr (raw_script_request (&there, 0), "Authorization"));
  g_assert_null (strstr (raw_script_request (&there, 0), "Cookie"));
  g_assert_nonnull (strstr (raw_script_request (&there, 0), "X-Plain: yes"));
}

static void
test_redirect_limits (void)
{
  static const struct {
    const char *answers[3];
    guint n_requests;
    int error;
    gboolean no_redirects;
  } rows[] = {
    { { "HTTP/1.1 302 x\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n" }, 6, AM_ERROR_FAILED_PRECONDITION, FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: ftp://x/\r\nContent-Length: 0\r\n\r\n" }, 1, AM_ERROR_INVALID_ARGUMENT, FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n" },
      1,
      AM_ERROR_INVALID_ARGUMENT,
      FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: http://\r\nContent-Length: 0\r\n\r\n" }, 1, AM_ERROR_INVALID_ARGUMENT, FALSE },
    { { "HTTP/1.1 302 x\r\nContent-Length: 0\r\n\r\n" }, 1, AM_ERROR_UNKNOWN, FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n" }, 1, 0, TRUE },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (0);
      g_auto (RawScript) script = { 0 };
      RawServer *server = raw_script_start (&script, rows[i].answers);
      g_autofree char *url = fixture_url (server, "/");
      g_autoptr (GError) error = NULL;
      g_auto (HttpReply) reply = { 0 };
      HttpCall call = { .method = "GET", .url = url, .no_redirects = rows[i].no_redirects };
      g_test_message ("%s", rows[i].answers[0]);
      gboolean done = http_client_call (ctx, client, &call, &reply, &error);
      g_assert_cmpint (done, ==, rows[i].error == 0);
      g_assert_cmpuint (raw_server_n_connections (server), ==, rows[i].n_requests);
      if (!done)
        g_assert_cmpint (error->code, ==, rows[i].error);
    }
}

static void
test_urls (void)
{
  static const struct {
    const char *base, *location, *text, *origin, *display;
  } rows[] = {
    { "http://Host/a/b?c", NULL, "http://Host/a/b?c", "http://host:80", "http://Host/a/b" },
    { "https://u:p@h:8443/?x#y", NULL, "https://u:p@h:8443/?x#y", "https://h:8443", "https://h:8443/" },
    { "http://h/a//../b", NULL, "http://h/a//../b", "http://h:80", "http://h/a//../b" },
    { "http://h/a/b?c", "d?e", "http://h/a/d?e", "http://h:80", "http://h/a/d" },
    { "http://h/a/b?c", "/d", "http://h/d", "http://h:80", "http://h/d" },
    { "http://h/a/b?c", "//other:81/d", "http://other:81/d", "http://other:81", "http://other:81/d" },
    { "http://u:p@h/a", "http://other/", "http://other/", "http://other:80", "http://other/" },
    { "http://u:p@h/a", "//other/", "http://other/", "http://other:80", "http://other/" },
    { "http://u:p@h/a", "/b", "http://u:p@h/b", "http://h:80", "http://h/b" },
    { "http://[::1]:5000/a", "/b", "http://[::1]:5000/b", "http://[::1]:5000", "http://[::1]:5000/b" },
  };
  static const char *const bad[] = {
    "", "/a", "h/a", "ftp://h/", "file:///etc/passwd", "http://", "http://h/\r\nX: y", "http://h/a b", NULL
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (HttpUrl) base = { 0 }, next = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_true (http_url_parse (rows[i].base, &base, &error));
      if (rows[i].location != NULL)
        g_assert_true (http_url_resolve (&base, rows[i].location, &next, &error));
      const HttpUrl *result = rows[i].location != NULL ? &next : &base;
      g_assert_cmpstr (result->text, ==, rows[i].text);
      g_assert_cmpstr (result->origin, ==, rows[i].origin);
      g_assert_cmpstr (result->display, ==, rows[i].display);
    }
  for (guint i = 0; bad[i] != NULL; i++)
    {
      g_auto (HttpUrl) url = { 0 };
      g_autoptr (GError) error = NULL;
      g_test_message ("%s", bad[i]);
      g_assert_false (http_url_parse (bad[i], &url, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
    }
}

static void
serve_stall (int fd, guint n, gpointer data)
{
  g_free (raw_read_head (fd));
  if (data != NULL)
    raw_try_send (fd, data, strlen (data));
  raw_closes_within (fd, 5000);
}

static void
test_stall (void)
{
  static const char *const beginnings[] = { NULL, "HTTP/1.1 200 OK\r\nContent-Le",
                                            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc" };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (beginnings); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (400);
      g_autoptr (RawServer) server = raw_server_start (serve_stall, (gpointer) beginnings[i]);
      g_autofree char *url = fixture_url (server, "/");
      g_autoptr (GError) error = NULL;
      g_auto (HttpReply) reply = { 0 };
      HttpCall call = { .method = "POST", .url = url };
      gint64 start_us = g_get_monotonic_time ();
      g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
      g_assert_true (am_error_is (error, AM_ERROR_UNAVAILABLE));
      g_assert_nonnull (strstr (error->message, "no byte moved"));
      g_assert_cmpint (g_get_monotonic_time () - start_us, <, 1500 * 1000);
    }
}

static gpointer
cancel_soon (gpointer data)
{
  g_usleep (200 * 1000);
  ctx_cancel (data);
  return NULL;
}

static void
test_cancellation (void)
{
  static const char *const answers[] = { "HTTP/1.1 503 x\r\nRetry-After: 100\r\nContent-Length: 0\r\n\r\n", NULL };
  for (guint in_backoff = 0; in_backoff < 2; in_backoff++)
    {
      g_autoptr (Ctx) ctx = ctx_new ();
      g_autoptr (HttpClient) client = fixture_client (0);
      g_auto (RawScript) script = { 0 };
      g_autoptr (RawServer) stalling = in_backoff ? NULL : raw_server_start (serve_stall, NULL);
      g_autofree char *url = fixture_url (in_backoff ? raw_script_start (&script, answers) : stalling, "/");
      g_autoptr (GError) error = NULL;
      g_auto (HttpReply) reply = { 0 };
      HttpCall call = { .method = "GET", .url = url };
      GThread *thread = g_thread_new ("cancel", cancel_soon, ctx);
      gint64 start_us = g_get_monotonic_time ();
      g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
      g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
      g_assert_cmpint (g_get_monotonic_time () - start_us, <, 700 * 1000);
      g_thread_join (thread);
    }
  g_autoptr (Ctx) root = ctx_new ();
  g_autoptr (Ctx) ctx = ctx_new_child (root, 150);
  g_autoptr (HttpClient) client = fixture_client (0);
  g_autoptr (RawServer) server = raw_server_start (serve_stall, NULL);
  g_autofree char *url = fixture_url (server, "/");
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  HttpCall call = { .method = "GET", .url = url };
  g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_true (am_error_is (error, AM_ERROR_DEADLINE_EXCEEDED));
}

static void
test_refused_connection (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = fixture_client (0);
  RawServer *server = raw_server_start (serve_stall, NULL);
  g_autofree char *url = fixture_url (server, "/");
  raw_server_free (server);
  g_autoptr (GError) error = NULL, bad_header = NULL;
  g_auto (HttpReply) reply = { 0 };
  HttpCall call = { .method = "POST", .url = url };
  g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_true (am_error_is (error, AM_ERROR_UNAVAILABLE));
  call.headers = (const char *[]){ "X: a\r\nY: b", NULL };
  g_assert_false (http_client_call (ctx, client, &call, &reply, &bad_header));
  g_assert_true (am_error_is (bad_header, AM_ERROR_INVALID_ARGUMENT));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  fixture_multiplexed = argc > 1 && strcmp (argv[1], "multiplexed") == 0;
  g_test_add_func ("/http-client/urls", test_urls);
  g_test_add_func ("/http-client/retries", test_retries);
  g_test_add_func ("/http-client/error-body", test_error_body);
  g_test_add_func ("/http-client/words", test_words);
  g_test_add_func ("/http-client/proxies", test_proxies);
  g_test_add_func ("/http-client/wrong-scheme", test_wrong_scheme);
  g_test_add_func ("/http-client/retry-after", test_retry_after);
  g_test_add_func ("/http-client/redirects", test_redirects);
  g_test_add_func ("/http-client/redirect-limits", test_redirect_limits);
  g_test_add_func ("/http-client/stall", test_stall);
  g_test_add_func ("/http-client/cancellation", test_cancellation);
  g_test_add_func ("/http-client/refused-connection", test_refused_connection);
  return g_test_run ();
}
