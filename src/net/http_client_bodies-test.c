/* The HTTP client: bodies both ways, their limits, and what becomes of them in a retry. */
#include "net/http_client.h"

#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "net/net_fixture.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define BUSY "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"

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
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (0);
      g_auto (RawScript) script = { 0 };
      RawServer *server = raw_script_start (&script, rows[i].answers);
      g_autofree char *url = fixture_url (server, "/");
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
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (0);
      g_auto (RawScript) script = { 0 };
      const char *answers[] = { rows[i].answer, NULL };
      RawServer *server = raw_script_start (&script, answers);
      g_autofree char *url = fixture_url (server, "/");
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
  for (gsize left = sizeof scrap; left > 0;)
    {
      gssize got = recv (fd, scrap, left, 0);
      if (got <= 0)
        return;
      left -= (gsize) got;
    }
  raw_send (fd, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbig!");
  if (data != NULL)
    {
      shutdown (fd, SHUT_WR);
      raw_closes_within (fd, 1000);
    }
}

static void
test_early_error (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  for (guint polite = 0; polite < 2; polite++)
    for (guint round = 0; round < 20; round++)
      {
        g_autoptr (HttpClient) client = fixture_client (0);
        g_autoptr (RawServer) server = raw_server_start (serve_early_error, GUINT_TO_POINTER (polite));
        g_autofree char *url = fixture_url (server, "/");
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
  while (left > 0 && (n > *n_failures || position < 1000000))
    {
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
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (HttpClient) client = fixture_client (0);
      guint n_failures = rows[i].n_failures;
      g_autoptr (RawServer) server = raw_server_start (serve_upload, &n_failures);
      g_autofree char *url = fixture_url (server, "/");
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
  g_autoptr (HttpClient) client = fixture_client (0);
  guint n_failures = 0;
  g_autoptr (RawServer) server = raw_server_start (serve_upload, &n_failures);
  g_autofree char *url = fixture_url (server, "/");
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

/* Our own server on the other end: kept connections, bodies both ways, statuses that are answers. */

static gboolean
count_body (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *empty = http_request_header (req, "X-Empty");
  g_autofree char *text = g_strdup_printf ("%s %" G_GSIZE_FORMAT " %s", http_request_method (req),
                                           g_bytes_get_size (http_request_body (req)), empty != NULL ? "empty" : "-");
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
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), expected, strlen (expected));
}

static void
check_upload (Ctx *ctx, HttpClient *client, guint16 port)
{
  g_autofree char *url = g_strdup_printf ("http://127.0.0.1:%u/count", port);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) reply = { 0 };
  Stream stream = { .size = 2000000 };
  HttpCall call = { .method = "PUT", .url = url, .upload = &rewindable, .upload_data = &stream, .upload_size = -1 };
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
  for (guint i = 0; i < 5; i++)
    {
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
  HttpServerConfig config = { .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = G_N_ELEMENTS (routes) };
  g_autoptr (HttpServer) server = http_server_start (ctx, &config, &error);
  g_assert_no_error (error);
  guint16 port = http_server_port (server);
  g_autoptr (HttpClient) client = fixture_client (0);
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
  g_test_add_func ("/http-client-bodies/download", test_download);
  g_test_add_func ("/http-client-bodies/limits", test_limits);
  g_test_add_func ("/http-client-bodies/upload", test_upload);
  g_test_add_func ("/http-client-bodies/short-upload", test_short_upload);
  g_test_add_func ("/http-client-bodies/early-error", test_early_error);
  g_test_add_func ("/http-client-bodies/own-server", test_own_server);
  return g_test_run ();
}
