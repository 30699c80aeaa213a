#include "net/http_server.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/net_fixture.h"

typedef struct {
  guint64 received;
  guint64 fail_at;
  gboolean fail_finish;
} Upload;

static gint uploads_alive, uploads_finished, handlers_run;

static gboolean
upload_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Upload *self = data;
  const char *text = bytes;
  for (gsize i = 0; i < size; i++)
    g_assert_cmpint (text[i], ==, fixture_byte (self->received + i));
  self->received += size;
  if (self->fail_at != 0 && self->received >= self->fail_at)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", "the disk is full");
  return TRUE;
}

static gboolean
upload_finish (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  Upload *self = data;
  g_atomic_int_inc (&uploads_finished);
  if (self->fail_finish)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "not what was promised");
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, self->received);
  http_response_status (res, 201);
  http_response_text (res, "text/plain", text);
  return TRUE;
}

static void
upload_free (gpointer data)
{
  g_atomic_int_add (&uploads_alive, -1);
  g_free (data);
}

static const HttpBodySink upload_sink = { upload_write, upload_finish, upload_free };

static gboolean
put_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *fail_at = http_request_query (req, "fail_at");
  if (http_request_query (req, "refuse") != NULL)
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, "DENIED", "not here");
  Upload *upload = g_new0 (Upload, 1);
  upload->fail_at = fail_at != NULL ? g_ascii_strtoull (fail_at, NULL, 10) : 0;
  upload->fail_finish = http_request_query (req, "fail_finish") != NULL;
  g_atomic_int_inc (&uploads_alive);
  http_request_set_sink (req, &upload_sink, upload);
  return TRUE;
}

static gboolean
get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  guint64 size = g_ascii_strtoull (http_request_param (req, "size"), NULL, 10);
  const char *fail_at = http_request_query (req, "fail_at");
  gpointer source = fixture_source_new (size, fail_at != NULL ? g_ascii_strtoull (fail_at, NULL, 10) : 0);
  if (http_request_query (req, "chunked") != NULL)
    http_response_stream_chunked (res, "application/octet-stream", &fixture_source, source);
  else
    http_response_stream (res, "application/octet-stream", size, &fixture_source, source);
  return TRUE;
}

static void
append_argument (const char *name, const char *value, gpointer data)
{
  g_string_append_printf (data, "%s=%s;", name, value);
}

/* Says what it saw. */
static gboolean
echo (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_atomic_int_inc (&handlers_run);
  const char *name = http_request_param (req, "name");
  const char *accept = http_request_header_joined (req, "accept");
  g_string_append_printf (text, "%s %s name=%s accept=%s body=", http_request_method (req), http_request_path (req),
                          name != NULL ? name : "-", accept != NULL ? accept : "-");
  gsize size;
  const char *body = g_bytes_get_data (http_request_body (req), &size);
  if (size > 0)
    g_string_append_len (text, body, (gssize) size);
  g_string_append (text, " query=");
  http_request_foreach_query (req, append_argument, text);
  http_response_header (res, "X-Evil", "a\r\nSet-Cookie: x=y");
  http_response_text (res, "text/plain", text->str);
  return TRUE;
}

static gboolean
fail_with_headers (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_headerf (res, "Content-Range", "bytes */%d", 10);
  am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "come \"later\"");
  am_error_set_retry_after_ms (error != NULL ? *error : NULL, 1500);
  return FALSE;
}

static gboolean
authorize (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *given = http_request_header (req, "Authorization");
  if (g_strcmp0 (given, "Bearer no") == 0)
    {
      http_response_header (res, "WWW-Authenticate", "Basic realm=\"x\"");
      return am_fail (error, AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", "who are you?");
    }
  http_request_set_identity (req, given);
  http_request_set_data (req, g_strdup ("data"), g_free);
  return TRUE;
}

static const HttpRoute routes[] = {
  { "GET", "/v2/", echo },
  { "GET", "/v2/{name+}/manifests/{reference}", echo },
  { "PUT", "/v2/{name+}/manifests/{reference}", echo, .body_limit_bytes = 1000 },
  { "DELETE", "/v2/{name+}/manifests/{reference}", echo },
  { "PUT", "/upload", put_upload, .streams_body = TRUE },
  { "GET", "/blob/{size}", get_blob },
  { "GET", "/fail", fail_with_headers },
};

static HttpServer *
start (Ctx *ctx)
{
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = {
    .listen_address = "127.0.0.1:0",
    .routes = routes,
    .n_routes = G_N_ELEMENTS (routes),
    .authorize = authorize,
  };
  HttpServer *server = http_server_start (ctx, &config, &error);
  g_assert_no_error (error);
  return server;
}

typedef struct {
  Ctx *ctx;
  HttpServer *server;
  int fd;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  self->ctx = ctx_new ();
  self->server = start (self->ctx);
  self->fd = raw_connect (http_server_port (self->server));
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  close (self->fd);
  http_server_free (self->server);
  ctx_unref (self->ctx);
  g_assert_cmpint (g_atomic_int_get (&fixture_sources_alive), ==, 0);
  g_assert_cmpint (g_atomic_int_get (&uploads_alive), ==, 0);
}

#define HOST "Host: x\r\n"

static void
test_routes (Fixture *self, gconstpointer data)
{
  static const struct {
    const char *request;
    guint status;
    const char *body_has;
  } rows[] = {
    { "GET /v2/ HTTP/1.1\r\n" HOST "\r\n", 200, "GET /v2/ name=-" },
    { "GET /v2/a/b/manifests/latest?x=1&y=a%20b&x=2 HTTP/1.1\r\n" HOST "\r\n", 200,
      "name=a/b accept=- body= query=x=1;y=a b;x=2;" },
    { "GET /v2/a/manifests/manifests/manifests/1 HTTP/1.1\r\n" HOST "\r\n", 200, "name=a/manifests/manifests " },
    { "GET http://host:5000/v2/a/manifests/x HTTP/1.1\r\n" HOST "\r\n", 200, "name=a " },
    { "GET /v2/a/manifests/x HTTP/1.1\r\n" HOST "Accept: a\r\nX: y\r\naccept: b\r\n\r\n", 200, "accept=a, b " },
    { "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 200, "body=hello" },
    { "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST
      "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
      200, "body=hello" },
    { "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "body= " },
    { "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 200, "body= " },
    { "DELETE /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "body= " },
    { "GET /nothing HTTP/1.1\r\n" HOST "\r\n", 404, "\"code\":\"NOT_FOUND\"" },
    { "GET /v2 HTTP/1.1\r\n" HOST "\r\n", 404, "NOT_FOUND" },
    { "GET /v2//manifests/x HTTP/1.1\r\n" HOST "\r\n", 404, "NOT_FOUND" },
    { "GET /v2/a%2Fb/manifests/x HTTP/1.1\r\n" HOST "\r\n", 404, "NOT_FOUND" },
    { "GET /v2/a/manifests/x%2Fy HTTP/1.1\r\n" HOST "\r\n", 200, "/v2/a/manifests/x%2Fy" },
    { "GET /v2/%2e%2e/manifests/x HTTP/1.1\r\n" HOST "\r\n", 400, "INVALID_ARGUMENT" },
    { "GET /v2/a%00/manifests/x HTTP/1.1\r\n" HOST "\r\n", 400, "INVALID_ARGUMENT" },
    { "GET /v2/%ff/manifests/x HTTP/1.1\r\n" HOST "\r\n", 400, "INVALID_ARGUMENT" },
    { "GET /v2/?q=%zz HTTP/1.1\r\n" HOST "\r\n", 400, "INVALID_ARGUMENT" },
    { "POST /v2/a/manifests/x HTTP/1.1\r\n" HOST "\r\n", 405, "UNIMPLEMENTED" },
    { "GET /fail HTTP/1.1\r\n" HOST "\r\n", 503, "come \\\"later\\\"" },
    { "GET /v2/ HTTP/1.1\r\n" HOST "Authorization: Bearer no\r\n\r\n", 401, "UNAUTHORIZED" },
    { "GET /healthz HTTP/1.1\r\n" HOST "Authorization: Bearer no\r\n\r\n", 200, "ok" },
    { "GET /readyz HTTP/1.1\r\n" HOST "\r\n", 200, "ok" },
    { "GET /metrics HTTP/1.1\r\n" HOST "\r\n", 200, "http_requests_total{method=\"GET\",code=\"404\"} " },
  };
  /* All on one connection: none of these may cost it. */
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (RawReply) reply = { 0 };
      g_test_message ("%s", rows[i].request);
      raw_ask (self->fd, rows[i].request, &reply);
      g_assert_cmpuint (reply.status, ==, rows[i].status);
      g_assert_nonnull (strstr (reply.body->str, rows[i].body_has));
      g_assert_null (strstr (reply.head, "\r\nSet-Cookie"));
      g_assert_null (strstr (reply.head, "Connection: close"));
    }
}

static void
test_error_headers (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) not_allowed = { 0 }, failed = { 0 }, unknown = { 0 };
  raw_ask (self->fd, "POST /v2/a/manifests/x HTTP/1.1\r\n" HOST "\r\n", &not_allowed);
  g_autofree char *allow = raw_header (&not_allowed, "Allow");
  g_assert_cmpstr (allow, ==, "GET, HEAD, PUT, DELETE");
  raw_ask (self->fd, "GET /fail HTTP/1.1\r\n" HOST "X-Request-Id: my-id.1\r\n\r\n", &failed);
  g_autofree char *range = raw_header (&failed, "Content-Range");
  g_autofree char *retry = raw_header (&failed, "Retry-After");
  g_autofree char *id = raw_header (&failed, "X-Request-Id");
  g_autofree char *type = raw_header (&failed, "Content-Type");
  g_assert_cmpstr (range, ==, "bytes */10");
  g_assert_cmpstr (retry, ==, "2");
  g_assert_cmpstr (id, ==, "my-id.1");
  g_assert_cmpstr (type, ==, "application/json");
  raw_ask (self->fd, "GET /v2/ HTTP/1.1\r\n" HOST "X-Request-Id: a b\r\nAuthorization: Bearer no\r\n\r\n", &unknown);
  g_autofree char *made = raw_header (&unknown, "X-Request-Id");
  g_autofree char *challenge = raw_header (&unknown, "WWW-Authenticate");
  g_assert_cmpuint (strlen (made), ==, 36);
  g_assert_cmpstr (challenge, ==, "Basic realm=\"x\"");
}

static void
check_alphabet (const GString *body, guint64 size)
{
  g_assert_cmpuint (body->len, ==, size);
  for (gsize i = 0; i < body->len; i++)
    if (body->str[i] != fixture_byte (i))
      g_error ("byte %" G_GSIZE_FORMAT " is wrong", i);
}

static void
test_download (Fixture *self, gconstpointer data)
{
  static const guint64 sizes[] = { 0, 1, 4096, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3000000 };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint chunked = 0; chunked < 2; chunked++)
      {
        g_auto (RawReply) reply = { 0 }, head = { 0 };
        g_autofree char *request = g_strdup_printf ("GET /blob/%" G_GUINT64_FORMAT "%s HTTP/1.1\r\n" HOST "\r\n",
                                                    sizes[i], chunked ? "?chunked" : "");
        raw_ask (self->fd, request, &reply);
        g_assert_cmpuint (reply.status, ==, 200);
        g_assert_true (reply.complete);
        check_alphabet (reply.body, sizes[i]);
        g_assert_cmpint (strstr (reply.head, "chunked") != NULL, ==, chunked);
      }
}

static void
test_head (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) head = { 0 }, get = { 0 }, chunked = { 0 };
  raw_ask (self->fd, "HEAD /blob/3000000?fail_at=1 HTTP/1.1\r\n" HOST "\r\n", &head);
  g_autofree char *length = raw_header (&head, "Content-Length");
  g_assert_cmpuint (head.status, ==, 200);
  g_assert_cmpstr (length, ==, "3000000");
  raw_ask (self->fd, "GET /blob/5 HTTP/1.1\r\n" HOST "\r\n", &get); /* no stray byte came before */
  check_alphabet (get.body, 5);
  raw_ask (self->fd, "HEAD /blob/5?chunked HTTP/1.1\r\n" HOST "\r\n", &chunked);
  g_assert_cmpuint (chunked.status, ==, 200);
  char scrap;
  g_assert_cmpint (recv (self->fd, &scrap, 1, 0), ==, 0); /* closed, and nothing in between */
}

static void
test_broken_source (Fixture *self, gconstpointer data)
{
  static const char *const requests[] = {
    "GET /blob/3000000?fail_at=1000000 HTTP/1.1\r\n" HOST "\r\n",
    "GET /blob/3000000?fail_at=1000000&chunked HTTP/1.1\r\n" HOST "\r\n",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (requests); i++)
    {
      g_auto (RawReply) reply = { 0 };
      am_autofd int fd = raw_connect (http_server_port (self->server));
      raw_ask (fd, requests[i], &reply);
      g_assert_cmpuint (reply.status, ==, 200);
      g_assert_false (reply.complete);
      g_assert_cmpuint (reply.body->len, <=, 1000000);
    }
  /* HTTP/1.0 has no framing for an unknown length: only a reset says that something is missing. */
  am_autofd int fd = raw_connect (http_server_port (self->server));
  raw_send (fd, "GET /blob/3000000?fail_at=1000&chunked HTTP/1.0\r\n" HOST "\r\n");
  char scrap[65536];
  gssize n;
  while ((n = recv (fd, scrap, sizeof scrap, 0)) > 0)
    ;
  g_assert_cmpint (n, ==, -1);
}

static gboolean
send_alphabet (int fd, guint64 size)
{
  g_autofree char *data = g_malloc (size);
  for (guint64 i = 0; i < size; i++)
    data[i] = fixture_byte (i);
  return raw_try_send (fd, data, size);
}

static void
test_upload (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) sized = { 0 }, chunked = { 0 }, empty = { 0 }, refused = { 0 };
  raw_send (self->fd, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 3000000\r\n\r\n");
  g_assert_true (send_alphabet (self->fd, 3000000));
  raw_read (self->fd, FALSE, &sized);
  g_assert_cmpuint (sized.status, ==, 201);
  g_assert_cmpstr (sized.body->str, ==, "3000000");
  raw_ask (self->fd,
           "PUT /upload HTTP/1.1\r\n" HOST
           "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nX-Trailer: y\r\n\r\n",
           &chunked);
  g_assert_cmpstr (chunked.body->str, ==, "4");
  raw_ask (self->fd, "PUT /upload HTTP/1.1\r\n" HOST "\r\n", &empty);
  g_assert_cmpstr (empty.body->str, ==, "0");
  raw_ask (self->fd, "PUT /upload?fail_finish HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na", &refused);
  g_assert_cmpuint (refused.status, ==, 400);
  g_assert_nonnull (strstr (refused.body->str, "DIGEST_INVALID"));
  g_assert_null (strstr (refused.head, "Connection: close"));
}

static void
test_expect_continue (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) reply = { 0 }, early = { 0 };
  raw_send (self->fd, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  g_autofree char *interim = raw_read_head (self->fd);
  g_assert_cmpstr (interim, ==, "HTTP/1.1 100 Continue\r\n\r\n");
  raw_ask (self->fd, "abc", &reply);
  g_assert_cmpstr (reply.body->str, ==, "3");
  raw_send (self->fd, "PUT /upload?refuse HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  raw_read (self->fd, FALSE, &early);
  g_assert_cmpuint (early.status, ==, 403);
  g_assert_true (raw_closes_within (self->fd, 2000));
}

/* Answers before the body is there; the connection is closed, and the answer arrives in spite of the
 * bytes that were never read. */
static void
test_early_error (Fixture *self, gconstpointer data)
{
  static const struct {
    const char *head;
    guint status;
  } rows[] = {
    { "PUT /upload?refuse HTTP/1.1\r\n" HOST "Content-Length: 100000000000\r\n\r\n", 403 },
    { "PUT /upload?refuse HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 403 },
    { "PUT /upload HTTP/1.1\r\n" HOST "Authorization: Bearer no\r\nContent-Length: 100000000000\r\n\r\n", 401 },
    { "PUT /nothing HTTP/1.1\r\n" HOST "Content-Length: 100000000000\r\n\r\n", 404 },
    { "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 100000000000\r\n\r\n", 405 },
    { "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n", 413 },
    { "DELETE /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n", 413 },
    { "PUT /upload?fail_at=1000000 HTTP/1.1\r\n" HOST "Content-Length: 100000000000\r\n\r\n", 507 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (RawReply) reply = { 0 };
      am_autofd int fd = raw_connect (http_server_port (self->server));
      g_test_message ("%s", rows[i].head);
      raw_send (fd, rows[i].head);
      send_alphabet (fd, 8000000); /* may fail half-way, when the server has closed */
      raw_read (fd, FALSE, &reply);
      g_assert_cmpuint (reply.status, ==, rows[i].status);
      g_assert_true (reply.complete);
      g_assert_true (raw_closes_within (fd, 3000));
    }
}

static void
test_collected_chunks_too_large (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) reply = { 0 };
  g_autofree char *thousand = g_strnfill (1000, 'x');
  g_autofree char *request = g_strdup_printf (
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3e8\r\n%s\r\n1\r\ny\r\n", thousand);
  raw_ask (self->fd, request, &reply);
  g_assert_cmpuint (reply.status, ==, 413);
  g_assert_nonnull (strstr (reply.body->str, "BODY_TOO_LARGE"));
}

/* RFC 9112 6.3 and 11.2; whatever could be read in two ways is refused and ends the connection. */
static void
test_smuggling (Fixture *self, gconstpointer data)
{
  static const char *const requests[] = {
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\nhello",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Bad Header: 5\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST ": 5\r\n\r\n",
    "GET /v2/ HTTP/1.1\r\n" HOST ":\r\n\r\n",
    "GET /v2/ HTTP/1.1\r\n" HOST ":\r\nGET /v2/:a HTTP/1.1\r\nX: y\r\n\r\n",
    "GET /v2/ HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Content-Length:\r\n 5\r\n\r\nhello",
    "GET /v2/ HTTP/1.1\r\n" HOST "X: a\n\n",
    "GET /v2/ HTTP/1.1\n\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "no colon\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
    "PUT /v2/a/manifests/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello",
    "GET /v2/ HTTP/1.1\r\n\r\n",
    "GET /v2/ HTTP/2.0\r\n" HOST "\r\n",
    "GET /v2/ HTTP/1.1 x\r\n" HOST "\r\n",
    "GET /v2/\r\n" HOST "\r\n",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (requests); i++)
    {
      g_auto (RawReply) reply = { 0 };
      am_autofd int fd = raw_connect (http_server_port (self->server));
      gint runs = g_atomic_int_get (&handlers_run);
      g_test_message ("%s", requests[i]);
      raw_ask (fd, requests[i], &reply);
      if (reply.status != 0) /* closing without a word is fine too */
        g_assert_true (reply.status == 400 || reply.status == 413 || reply.status == 505);
      g_assert_true (raw_closes_within (fd, 3000));
      g_assert_cmpint (g_atomic_int_get (&handlers_run), ==, runs);
    }
}

static void
test_pipelining (Fixture *self, gconstpointer data)
{
  raw_send (self->fd, "GET /blob/5 HTTP/1.1\r\n" HOST "\r\nPUT /v2/a/manifests/x HTTP/1.1\r\n" HOST
                      "Content-Length: 3\r\n\r\nabcGET /blob/7 HTTP/1.1\r\n" HOST "\r\n");
  static const gsize lengths[] = { 5, 0, 7 };
  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      g_auto (RawReply) reply = { 0 };
      raw_read (self->fd, FALSE, &reply);
      g_assert_cmpuint (reply.status, ==, 200);
      if (lengths[i] > 0)
        g_assert_cmpuint (reply.body->len, ==, lengths[i]);
    }
}

/* A client that leaves in the middle of its upload: the sink is freed without an end. */
static void
test_vanishing_uploader (Fixture *self, gconstpointer data)
{
  gint finished = g_atomic_int_get (&uploads_finished);
  raw_send (self->fd, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 3000000\r\n\r\n");
  send_alphabet (self->fd, 1000000);
  shutdown (self->fd, SHUT_RDWR);
  for (guint i = 0; i < 500 && g_atomic_int_get (&uploads_alive) > 0; i++)
    g_usleep (10000);
  g_assert_cmpint (g_atomic_int_get (&uploads_alive), ==, 0);
  g_assert_cmpint (g_atomic_int_get (&uploads_finished), ==, finished);
}

/* HTTP/1.0 keeps no connection unless asked, and needs no header at all. */
static void
test_http_1_0 (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) bare = { 0 }, kept = { 0 }, again = { 0 };
  am_autofd int fd = raw_connect (http_server_port (self->server));
  raw_ask (fd, "GET /blob/5 HTTP/1.0\r\n\r\n", &bare);
  check_alphabet (bare.body, 5);
  g_assert_true (raw_closes_within (fd, 2000));
  raw_ask (self->fd, "GET /blob/5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &kept);
  check_alphabet (kept.body, 5);
  raw_ask (self->fd, "GET /blob/6 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", &again);
  check_alphabet (again.body, 6);
  g_assert_true (raw_closes_within (self->fd, 2000));
}

static gboolean
never_ready (Ctx *ctx, gpointer service, GError **error)
{
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "the %s is missing", (const char *) service);
}

static void
write_plain_error (HttpRequest *req, HttpResponse *res, const GError *error)
{
  g_autofree char *text = g_strdup_printf ("%s: %s", http_request_path (req), error->message);
  http_response_text (res, "text/plain", text);
}

static void
test_hooks (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = { .listen_address = "127.0.0.1:0",
                              .service = (gpointer) "key",
                              .ready = never_ready,
                              .write_error = write_plain_error };
  g_autoptr (HttpServer) server = http_server_start (ctx, &config, &error);
  g_assert_no_error (error);
  g_auto (RawReply) ready = { 0 }, missing = { 0 }, bad = { 0 };
  am_autofd int fd = raw_connect (http_server_port (server));
  raw_ask (fd, "GET /readyz HTTP/1.1\r\n" HOST "\r\n", &ready);
  g_assert_cmpuint (ready.status, ==, 503);
  g_assert_cmpstr (ready.body->str, ==, "/readyz: not ready: the key is missing");
  raw_ask (fd, "GET /x?secret HTTP/1.1\r\n" HOST "\r\n", &missing);
  g_assert_cmpuint (missing.status, ==, 404);
  g_assert_cmpstr (missing.body->str, ==, "/x: there is nothing at this path");
  raw_ask (fd, "GET /%zz?secret HTTP/1.1\r\n" HOST "\r\n", &bad);
  g_assert_cmpuint (bad.status, ==, 400);
  g_assert_cmpstr (bad.body->str, ==, "/%zz: malformed path");
}

/* One JSON line a request, without the query; health checks are not worth one. */
static void
test_access_log (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL, *log = NULL;
  am_autofd int file = g_file_open_tmp ("access-XXXXXX", &path, &error);
  am_autofd int saved = dup (STDERR_FILENO);
  g_auto (RawReply) reply = { 0 }, healthy = { 0 }, refused = { 0 };
  dup2 (file, STDERR_FILENO);
  am_log_init (AM_LOG_INFO, AM_LOG_FORMAT_JSON, "test");
  raw_ask (self->fd, "GET /blob/7?secret=1 HTTP/1.1\r\n" HOST "Authorization: me\r\nX-Request-Id: id-1\r\n\r\n",
           &reply);
  raw_ask (self->fd, "GET /healthz HTTP/1.1\r\n" HOST "\r\n", &healthy);
  raw_ask (self->fd, "PUT /upload?refuse=secret HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", &refused);
  g_clear_pointer (&self->server, http_server_free);
  am_log_init (AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  dup2 (saved, STDERR_FILENO);
  g_assert_true (g_file_get_contents (path, &log, NULL, &error));
  unlink (path);
  g_auto (GStrv) lines = g_strsplit (log, "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 3); /* two, and what follows the last */
  g_assert_null (strstr (log, "secret"));
  g_assert_nonnull (strstr (lines[0], "\"msg\":\"request\",\"component\":\"test\",\"request_id\":\"id-1\",\"method\":"
                                      "\"GET\",\"path\":\"/blob/7\",\"status\":\"200\",\"bytes_in\":\"0\","
                                      "\"bytes_out\":\"7\",\"duration_ms\":\""));
  g_assert_nonnull (strstr (lines[0], "\"peer\":\"127.0.0.1\",\"identity\":\"me\"}"));
  g_assert_nonnull (strstr (lines[1], "\"status\":\"403\""));
  g_assert_nonnull (strstr (lines[1], "\"err\":\"not here\"}"));
}

static void
test_bad_config (void)
{
  static const char *const addresses[] = { "", "5000", "x:5000", "127.0.0.1:", "127.0.0.1:99999", "::1:80", "[::1]" };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (addresses); i++)
    {
      g_autoptr (GError) error = NULL;
      HttpServerConfig config = { .listen_address = addresses[i] };
      g_assert_null (http_server_start (ctx, &config, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
    }
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = { .listen_address = ":0" };
  g_autoptr (HttpServer) first = http_server_start (ctx, &config, &error);
  g_assert_no_error (error);
  am_autofd int fd = raw_connect (http_server_port (first)); /* dual stack: IPv4 gets in */
  g_autofree char *taken = g_strdup_printf (":%u", http_server_port (first));
  config.listen_address = taken;
  g_assert_null (http_server_start (ctx, &config, &error));
  g_assert_true (am_error_is (error, AM_ERROR_UNAVAILABLE));
}

int
main (int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*func) (Fixture *, gconstpointer);
  } tests[] = {
    { "routes", test_routes },
    { "error-headers", test_error_headers },
    { "download", test_download },
    { "head", test_head },
    { "broken-source", test_broken_source },
    { "upload", test_upload },
    { "expect-continue", test_expect_continue },
    { "early-error", test_early_error },
    { "collected-chunks-too-large", test_collected_chunks_too_large },
    { "smuggling", test_smuggling },
    { "pipelining", test_pipelining },
    { "vanishing-uploader", test_vanishing_uploader },
    { "http-1.0", test_http_1_0 },
    { "access-log", test_access_log },
  };
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strconcat ("/http-server/", tests[i].name, NULL);
      g_test_add (path, Fixture, NULL, set_up, tests[i].func, tear_down);
    }
  g_test_add_func ("/http-server/hooks", test_hooks);
  g_test_add_func ("/http-server/bad-config", test_bad_config);
  return g_test_run ();
}
