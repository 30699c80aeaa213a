#include "net/http_client.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/http_reply.h"
#include "net/http_url.h"
#include "net/net_fixture.h"

/* A server that plays a list of answers, one a connection, the last one again and again. */
typedef struct {
  const char *const *answers; /* NULL-terminated */
  guint n_answers;
  GMutex lock;
  GPtrArray *requests; /* heads */
  RawServer *server;
} Script;

static void
script_clear (Script *self)
{
  raw_server_free (self->server); /* joins the thread that writes the requests */
  g_clear_pointer (&self->requests, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Script, script_clear)

static void
serve_script (int fd, guint n, gpointer data)
{
  Script *self = data;
  char *head = raw_read_head (fd);
  if (head == NULL)
    return;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->requests, head);
  g_mutex_unlock (&self->lock);
  const char *answer = self->answers[MIN (n, self->n_answers) - 1];
  raw_try_send (fd, answer, strlen (answer));
}

static RawServer *
start_script (Script *self, const char *const *answers)
{
  self->answers = answers;
  self->n_answers = g_strv_length ((char **) answers);
  self->requests = g_ptr_array_new_with_free_func (g_free);
  self->server = raw_server_start (serve_script, self);
  return self->server;
}

static const char *
nth_request (Script *self, guint n)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_assert_cmpuint (n, <, self->requests->len);
  return g_ptr_array_index (self->requests, n);
}

static HttpClient *
new_client (void)
{
  g_autoptr (GError) error = NULL;
  HttpClientConfig config = {
    .retry_base_ms = 1, .no_progress_timeout_ms = 400, .connect_timeout_ms = 2000, .proxy = ""
  };
  HttpClient *client = http_client_new (&config, &error);
  g_assert_no_error (error);
  return client;
}

static char *
url_of (RawServer *server, const char *path)
{
  return g_strdup_printf ("http://127.0.0.1:%u%s", raw_server_port (server), path);
}

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
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (HttpClient) client = new_client ();
    g_auto (Script) script = { 0 };
    RawServer *server = start_script (&script, rows[i].answers);
    g_autofree char *url = url_of (server, "/a?secret=1");
    g_auto (HttpReply) reply = { 0 };
    g_autoptr (GError) error = NULL;
    HttpCall call = { .method = rows[i].method, .url = url, .idempotent = rows[i].idempotent };
    gboolean done = http_client_call (ctx, client, &call, &reply, &error);
    g_test_message ("%s %s: %s", rows[i].method, rows[i].answers[0], done ? "done" : error->message);
    g_assert_cmpint (done, ==, rows[i].error == 0);
    g_assert_cmpuint (raw_server_n_connections (server), ==, rows[i].n_requests);
    if (done)
      g_assert_cmpuint (g_bytes_get_size (reply.body), ==, 2);
    else {
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
  g_autoptr (HttpClient) client = new_client ();
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  g_auto (Script) script = { 0 };
  RawServer *server = start_script (&script, answers);
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
  g_assert_nonnull (strstr (nth_request (&script, 0), "Authorization: Basic dXNlcjpwYXNz"));
  g_assert_nonnull (strstr (nth_request (&script, 0), "Accept-Encoding: identity"));
  g_assert_nonnull (strstr (nth_request (&script, 0), "User-Agent: ai-models/"));
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

  static const char *const answers[] = { "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
                                         OK, NULL };
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = new_client ();
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 }, refused = { 0 };
  g_auto (Script) script = { 0 }, again = { 0 };
  RawServer *server = start_script (&script, answers);
  g_autofree char *url = url_of (server, "/");
  HttpCall call = { .method = "GET", .url = url };
  gint64 start_us = g_get_monotonic_time ();
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_cmpint (g_get_monotonic_time () - start_us, >=, 1000 * 1000);
  /* No time left for that wait: the reason is reported at once. */
  RawServer *busy = start_script (&again, answers);
  g_autofree char *busy_url = url_of (busy, "/");
  g_autoptr (Ctx) hurried = ctx_new_child (ctx, 500);
  call.url = busy_url;
  start_us = g_get_monotonic_time ();
  g_assert_false (http_client_call (hurried, client, &call, &refused, &error));
  g_assert_true (am_error_is (error, AM_ERROR_UNAVAILABLE));
  g_assert_cmpint (am_error_retry_after_ms (error), ==, 1000);
  g_assert_cmpint (g_get_monotonic_time () - start_us, <, 400 * 1000);
}

/* Credentials go to their origin only; a redirect to another port is another origin. */
static void
test_redirects (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = new_client ();
  static const char *const ok[] = { OK, NULL };
  g_auto (Script) there = { 0 };
  RawServer *other = start_script (&there, ok);
  g_autofree char *cross = g_strdup_printf (
    "HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:%u/b?sig=x\r\nContent-Length: 4\r\n\r\nbody",
    raw_server_port (other));
  g_auto (Script) here = { 0 };
  const char *answers[] = { "HTTP/1.1 302 x\r\nLocation: /next?a=b\r\nContent-Length: 0\r\n\r\n", cross,
                            NULL };
  RawServer *server = start_script (&here, answers);
  g_autofree char *url = url_of (server, "/a/b");
  g_autofree char *other_url = url_of (other, "/b?sig=x");
  http_client_set_credentials (client, url, "Bearer token-here");
  const char *headers[] = { "Cookie: c=1", "X-Plain: yes", NULL };
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  HttpCall call = { .method = "GET", .url = url, .headers = headers };
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (reply.url, ==, other_url);
  g_assert_nonnull (strstr (nth_request (&here, 0), "Authorization: Bearer token-here"));
  g_assert_true (g_str_has_prefix (nth_request (&here, 1), "GET /next?a=b "));
  g_assert_nonnull (strstr (nth_request (&here, 1), "Authorization: Bearer token-here"));
  g_assert_nonnull (strstr (nth_request (&here, 1), "Cookie: c=1"));
  g_assert_null (strstr (nth_request (&there, 0), "Authorization"));
  g_assert_null (strstr (nth_request (&there, 0), "Cookie"));
  g_assert_nonnull (strstr (nth_request (&there, 0), "X-Plain: yes"));
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
    { { "HTTP/1.1 302 x\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n" },
      6,
      AM_ERROR_FAILED_PRECONDITION,
      FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: ftp://x/\r\nContent-Length: 0\r\n\r\n" },
      1,
      AM_ERROR_INVALID_ARGUMENT,
      FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n" },
      1,
      AM_ERROR_INVALID_ARGUMENT,
      FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: http://\r\nContent-Length: 0\r\n\r\n" },
      1,
      AM_ERROR_INVALID_ARGUMENT,
      FALSE },
    { { "HTTP/1.1 302 x\r\nContent-Length: 0\r\n\r\n" }, 1, AM_ERROR_UNKNOWN, FALSE },
    { { "HTTP/1.1 302 x\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n" }, 1, 0, TRUE },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (HttpClient) client = new_client ();
    g_auto (Script) script = { 0 };
    RawServer *server = start_script (&script, rows[i].answers);
    g_autofree char *url = url_of (server, "/");
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
    { "http://[::1]:5000/a", "/b", "http://[::1]:5000/b", "http://[::1]:5000", "http://[::1]:5000/b" },
  };
  static const char *const bad[] = {
    "", "/a", "h/a", "ftp://h/", "file:///etc/passwd", "http://", "http://h/\r\nX: y", "http://h/a b", NULL
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++) {
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
  for (guint i = 0; bad[i] != NULL; i++) {
    g_auto (HttpUrl) url = { 0 };
    g_autoptr (GError) error = NULL;
    g_test_message ("%s", bad[i]);
    g_assert_false (http_url_parse (bad[i], &url, &error));
    g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
  }
}

typedef struct {
  guint64 size, position;
  guint n_rewinds;
  guint64 received;
  guint n_restarts;
  guint started;
  gboolean refuse;
} Stream;

static gssize
stream_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  Stream *self = data;
  gsize n = MIN (size, self->size - self->position);
  for (gsize i = 0; i < n; i++)
    buffer[i] = (guint8) fixture_byte (self->position + i);
  self->position += n;
  return (gssize) n;
}

static gboolean
stream_rewind (gpointer data, GError **error)
{
  Stream *self = data;
  self->position = 0;
  self->n_rewinds++;
  return TRUE;
}

static gboolean
stream_start (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  Stream *self = data;
  self->started++;
  return !self->refuse || am_fail (error, AM_ERROR_DATA_LOSS, "Refused", "not what was asked for");
}

static gboolean
stream_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Stream *self = data;
  const char *text = bytes;
  for (gsize i = 0; i < size; i++)
    if (text[i] != fixture_byte (self->received + i))
      return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "wrong byte");
  self->received += size;
  return TRUE;
}

static gboolean
stream_restart (gpointer data, GError **error)
{
  Stream *self = data;
  self->received = 0;
  self->n_restarts++;
  return TRUE;
}

static const HttpUpload rewindable = { stream_read, stream_rewind };
static const HttpUpload one_way = { stream_read, NULL };
static const HttpDownload download = { stream_start, stream_write, stream_restart };
static const HttpDownload download_once = { stream_start, stream_write, NULL };

static void
test_download (void)
{
  static const char half[] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
  static const char whole[] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabcdefghij";
  static const struct {
    const char *answers[3];
    const HttpDownload *sink;
    gboolean refuse;
    guint n_requests;
    guint64 received;
    int error;
  } rows[] = {
    { { whole }, &download, FALSE, 1, 10, 0 },
    { { half, whole }, &download, FALSE, 2, 10, 0 },
    { { half, whole }, &download_once, FALSE, 1, 3, AM_ERROR_UNAVAILABLE },
    { { BUSY, whole }, &download_once, FALSE, 2, 10, 0 },
    { { whole }, &download, TRUE, 1, 0, AM_ERROR_DATA_LOSS },
    { { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }, &download, TRUE, 1, 0, AM_ERROR_DATA_LOSS },
    { { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxyz" }, &download, FALSE, 1, 0, AM_ERROR_DATA_LOSS },
    { { "HTTP/1.1 404 x\r\nContent-Length: 3\r\n\r\nabc" }, &download, FALSE, 1, 0, AM_ERROR_NOT_FOUND },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (HttpClient) client = new_client ();
    g_auto (Script) script = { 0 };
    RawServer *server = start_script (&script, rows[i].answers);
    g_autofree char *url = url_of (server, "/");
    g_autoptr (GError) error = NULL;
    g_auto (HttpReply) reply = { 0 };
    Stream stream = { .refuse = rows[i].refuse };
    HttpCall call = { .method = "GET", .url = url, .download = rows[i].sink, .download_data = &stream };
    gboolean done = http_client_call (ctx, client, &call, &reply, &error);
    g_test_message ("%" G_GSIZE_FORMAT ": %s", i, done ? "done" : error->message);
    g_assert_cmpint (done, ==, rows[i].error == 0);
    g_assert_cmpuint (stream.received, ==, rows[i].received);
    g_assert_cmpuint (raw_server_n_connections (server), ==, rows[i].n_requests);
    if (!done)
      g_assert_cmpint (error->code, ==, rows[i].error);
  }
}

static void
test_limits (void)
{
  g_autofree char *big = g_strnfill (100000, 'x');
  g_autofree char *large_ok = g_strdup_printf ("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n%s", big);
  g_autofree char *large_error = g_strdup_printf ("HTTP/1.1 404 x\r\nContent-Length: 100000\r\n\r\n%s", big);
  g_autoptr (GString) many = g_string_new ("HTTP/1.1 200 OK\r\n");
  for (guint i = 0; i < 300; i++)
    g_string_append_printf (many, "H%u: x\r\n", i);
  g_autoptr (GString) interim = g_string_new (NULL);
  for (guint i = 0; i < 300; i++)
    g_string_append (interim, "HTTP/1.1 102 Processing\r\n\r\n");
  const struct {
    const char *answer;
    int error;
    gsize body;
  } rows[] = {
    { large_ok, AM_ERROR_RESOURCE_EXHAUSTED, 0 },
    { large_error, AM_ERROR_NOT_FOUND, 65536 },
    { many->str, AM_ERROR_DATA_LOSS, 0 },
    { interim->str, AM_ERROR_DATA_LOSS, 0 },
  };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (HttpClient) client = new_client ();
    g_auto (Script) script = { 0 };
    const char *answers[] = { rows[i].answer, NULL };
    RawServer *server = start_script (&script, answers);
    g_autofree char *url = url_of (server, "/");
    g_autoptr (GError) error = NULL;
    g_auto (HttpReply) reply = { 0 };
    HttpCall call = { .method = "GET", .url = url, .reply_limit_bytes = 1000 };
    g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
    g_assert_cmpint (error->code, ==, rows[i].error);
    g_assert_cmpuint (reply.body != NULL ? g_bytes_get_size (reply.body) : 0, ==, rows[i].body);
    g_assert_cmpuint (raw_server_n_connections (server), ==, 1);
  }
}

/* Answers an error after some of the body, and closes without reading the rest. */
static void
serve_early_error (int fd, guint n, gpointer data)
{
  char scrap[200000];
  g_free (raw_read_head (fd));
  raw_try_send (fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
  for (gsize left = sizeof scrap; left > 0;) {
    gssize got = recv (fd, scrap, left, 0);
    if (got <= 0)
      return;
    left -= (gsize) got;
  }
  raw_send (fd, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbig!");
  if (data != NULL) {
    shutdown (fd, SHUT_WR);
    raw_closes_within (fd, 1000);
  }
}

static void
test_early_error (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  for (guint polite = 0; polite < 2; polite++)
    for (guint round = 0; round < 20; round++) {
      g_autoptr (HttpClient) client = new_client ();
      g_autoptr (RawServer) server = raw_server_start (serve_early_error, GUINT_TO_POINTER (polite));
      g_autofree char *url = url_of (server, "/");
      g_autoptr (GError) error = NULL;
      g_auto (HttpReply) reply = { 0 };
      Stream stream = { .size = 1000000000 };
      HttpCall call = {
        .method = "PUT", .url = url, .upload = &one_way, .upload_data = &stream, .upload_size = 1000000000
      };
      g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
      g_test_message ("polite %u: %s", polite, error->message);
      g_assert_cmpuint (reply.status, ==, 413);
      g_assert_true (am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED));
      g_assert_cmpuint (stream.position, <, stream.size);
    }
}

static void
serve_upload (int fd, guint n, gpointer data)
{
  guint *n_failures = data;
  g_autofree char *head = raw_read_head (fd);
  if (head == NULL)
    return;
  if (strstr (head, "Expect: 100-continue") != NULL)
    raw_try_send (fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
  char buffer[65536];
  guint64 left = 3000000, position = 0;
  while (left > 0 && (n > *n_failures || position < 1000000)) {
    gssize got = recv (fd, buffer, MIN (sizeof buffer, left), 0);
    if (got <= 0)
      return;
    for (gssize i = 0; i < got; i++)
      g_assert_cmpint (buffer[i], ==, fixture_byte (position + (guint64) i));
    position += (guint64) got;
    left -= (guint64) got;
  }
  if (left == 0)
    raw_try_send (fd, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 43);
}

static void
test_upload (void)
{
  static const struct {
    guint n_failures;
    const HttpUpload *upload;
    gboolean works;
    guint n_requests;
  } rows[] = { { 0, &one_way, TRUE, 1 }, { 2, &rewindable, TRUE, 3 }, { 1, &one_way, FALSE, 1 } };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (HttpClient) client = new_client ();
    guint n_failures = rows[i].n_failures;
    g_autoptr (RawServer) server = raw_server_start (serve_upload, &n_failures);
    g_autofree char *url = url_of (server, "/");
    g_autoptr (GError) error = NULL;
    g_auto (HttpReply) reply = { 0 };
    Stream stream = { .size = 3000000 };
    HttpCall call = {
      .method = "PUT", .url = url, .upload = rows[i].upload, .upload_data = &stream, .upload_size = 3000000
    };
    g_assert_cmpint (http_client_call (ctx, client, &call, &reply, &error), ==, rows[i].works);
    g_assert_cmpuint (raw_server_n_connections (server), ==, rows[i].n_requests);
    if (rows[i].works)
      g_assert_cmpuint (reply.status, ==, 201);
  }
}

/* A source that gives less than was declared. */
static void
test_short_upload (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HttpClient) client = new_client ();
  guint n_failures = 0;
  g_autoptr (RawServer) server = raw_server_start (serve_upload, &n_failures);
  g_autofree char *url = url_of (server, "/");
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  Stream stream = { .size = 2999999 };
  HttpCall call = {
    .method = "PUT", .url = url, .upload = &rewindable, .upload_data = &stream, .upload_size = 3000000
  };
  g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_true (am_error_is (error, AM_ERROR_DATA_LOSS));
  g_assert_cmpuint (raw_server_n_connections (server), ==, 1);
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
  for (gsize i = 0; i < G_N_ELEMENTS (beginnings); i++) {
    g_autoptr (HttpClient) client = new_client ();
    g_autoptr (RawServer) server = raw_server_start (serve_stall, (gpointer) beginnings[i]);
    g_autofree char *url = url_of (server, "/");
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
  static const char *const answers[] = { "HTTP/1.1 503 x\r\nRetry-After: 100\r\nContent-Length: 0\r\n\r\n",
                                         NULL };
  for (guint in_backoff = 0; in_backoff < 2; in_backoff++) {
    g_autoptr (Ctx) ctx = ctx_new ();
    g_autoptr (HttpClient) client = new_client ();
    g_auto (Script) script = { 0 };
    g_autoptr (RawServer) stalling = in_backoff ? NULL : raw_server_start (serve_stall, NULL);
    g_autofree char *url = url_of (in_backoff ? start_script (&script, answers) : stalling, "/");
    g_autoptr (GError) error = NULL;
    g_auto (HttpReply) reply = { 0 };
    HttpCall call = { .method = "GET", .url = url };
    GThread *thread = g_thread_new ("cancel", cancel_soon, ctx);
    gint64 start_us = g_get_monotonic_time ();
    g_assert_false (http_client_call (ctx, client, &call, &reply, &error));
    g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
    g_assert_cmpint (g_get_monotonic_time () - start_us, <, 500 * 1000);
    g_thread_join (thread);
  }
  g_autoptr (Ctx) root = ctx_new ();
  g_autoptr (Ctx) ctx = ctx_new_child (root, 150);
  g_autoptr (HttpClient) client = new_client ();
  g_autoptr (RawServer) server = raw_server_start (serve_stall, NULL);
  g_autofree char *url = url_of (server, "/");
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
  g_autoptr (HttpClient) client = new_client ();
  RawServer *server = raw_server_start (serve_stall, NULL);
  g_autofree char *url = url_of (server, "/");
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

/* Our own server on the other end: kept connections, bodies both ways, statuses that are answers. */

static gboolean
count_body (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *empty = http_request_header (req, "X-Empty");
  g_autofree char *text = g_strdup_printf ("%s %" G_GSIZE_FORMAT " %s", http_request_method (req),
                                           g_bytes_get_size (http_request_body (req)),
                                           empty != NULL ? "empty" : "-");
  http_response_text (res, "text/plain", text);
  return TRUE;
}

static gboolean
get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  guint64 size = g_ascii_strtoull (http_request_param (req, "size"), NULL, 10);
  http_response_stream (res, NULL, size, &fixture_source, fixture_source_new (size, 0));
  return TRUE;
}

static const HttpRoute routes[] = {
  { "POST", "/count", count_body, .body_limit_bytes = 4 * 1024 * 1024 },
  { "PUT", "/count", count_body, .body_limit_bytes = 4 * 1024 * 1024 },
  { "GET", "/blob/{size}", get_blob },
};

static void
check_count (Ctx *ctx, HttpClient *client, guint16 port, const char *method, gsize size)
{
  g_autofree char *url = g_strdup_printf ("http://127.0.0.1:%u/count", port);
  g_autofree char *data = g_strnfill (size, 'x');
  g_autoptr (GBytes) body = size > 0 ? g_bytes_new (data, size) : NULL;
  g_autofree char *expected = g_strdup_printf ("%s %" G_GSIZE_FORMAT " empty", method, size);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  const char *headers[] = { "X-Empty:", NULL };
  HttpCall call = { .method = method, .url = url, .body = body, .headers = headers };
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), expected,
                   strlen (expected));
}

static void
check_upload (Ctx *ctx, HttpClient *client, guint16 port)
{
  g_autofree char *url = g_strdup_printf ("http://127.0.0.1:%u/count", port);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  Stream stream = { .size = 2000000 };
  HttpCall call = {
    .method = "PUT", .url = url, .upload = &rewindable, .upload_data = &stream, .upload_size = -1
  };
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), "PUT 2000000 -", 13);
}

static void
check_download (Ctx *ctx, HttpClient *client, guint16 port)
{
  static const guint accepted[] = { 404, 0 };
  g_autofree char *url = g_strdup_printf ("http://127.0.0.1:%u/blob/5000000", port);
  g_autofree char *missing = g_strdup_printf ("http://127.0.0.1:%u/missing", port);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 }, head = { 0 }, none = { 0 };
  Stream stream = { 0 };
  HttpCall call = { .method = "GET", .url = url, .download = &download, .download_data = &stream };
  g_assert_true (http_client_call (ctx, client, &call, &reply, &error));
  g_assert_cmpuint (stream.received, ==, 5000000);
  g_assert_null (reply.body);
  HttpCall head_call = { .method = "HEAD", .url = url };
  g_assert_true (http_client_call (ctx, client, &head_call, &head, &error));
  g_assert_cmpstr (http_reply_header (&head, "content-length"), ==, "5000000");
  HttpCall none_call = { .method = "GET", .url = missing, .accept_statuses = accepted };
  g_assert_true (http_client_call (ctx, client, &none_call, &none, &error));
  g_assert_cmpuint (none.status, ==, 404);
  g_assert_cmpuint (g_bytes_get_size (none.body), >, 0);
}

typedef struct {
  Ctx *ctx;
  HttpClient *client;
  guint16 port;
} Shared;

static gpointer
use_shared_client (gpointer data)
{
  Shared *self = data;
  for (guint i = 0; i < 5; i++) {
    check_count (self->ctx, self->client, self->port, "POST", i * 1000);
    check_download (self->ctx, self->client, self->port);
  }
  return NULL;
}

static void
test_own_server (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = { .listen_address = "127.0.0.1:0",
                              .routes = routes,
                              .n_routes = G_N_ELEMENTS (routes) };
  g_autoptr (HttpServer) server = http_server_start (ctx, &config, &error);
  g_assert_no_error (error);
  guint16 port = http_server_port (server);
  g_autoptr (HttpClient) client = new_client ();
  check_count (ctx, client, port, "POST", 0);
  check_count (ctx, client, port, "PUT", 0);
  check_count (ctx, client, port, "POST", 1000);
  check_count (ctx, client, port, "PUT", 2000000);
  check_upload (ctx, client, port);
  check_download (ctx, client, port);
  Shared shared = { ctx, client, port };
  GThread *threads[8];
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("client", use_shared_client, &shared);
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  g_test_add_func ("/http-client/urls", test_urls);
  g_test_add_func ("/http-client/retries", test_retries);
  g_test_add_func ("/http-client/error-body", test_error_body);
  g_test_add_func ("/http-client/retry-after", test_retry_after);
  g_test_add_func ("/http-client/redirects", test_redirects);
  g_test_add_func ("/http-client/redirect-limits", test_redirect_limits);
  g_test_add_func ("/http-client/download", test_download);
  g_test_add_func ("/http-client/limits", test_limits);
  g_test_add_func ("/http-client/upload", test_upload);
  g_test_add_func ("/http-client/short-upload", test_short_upload);
  g_test_add_func ("/http-client/early-error", test_early_error);
  g_test_add_func ("/http-client/stall", test_stall);
  g_test_add_func ("/http-client/cancellation", test_cancellation);
  g_test_add_func ("/http-client/refused-connection", test_refused_connection);
  g_test_add_func ("/http-client/own-server", test_own_server);
  return g_test_run ();
}
