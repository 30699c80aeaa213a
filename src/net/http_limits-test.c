/* Deadlines, limits, draining: what the server does to clients that take too much or too long. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/http_server.h"
#include "net/metrics.h"
#include "net/net_fixture.h"

#define HOST "Host: x\r\n"
#define HEADER_MS 400
#define PROGRESS_MS 500
#define IDLE_MS 700
#define EARLY_MS 150 /* how much of its time may be over before the test looks at the clock */
#define LATE_MS 1500 /* how much later than its time a cut may come on a busy machine */

static gint sinks_alive, handlers_cancelled, handlers_done;
static GMutex abort_lock;
static HttpRequest *to_abort;

static gboolean
sleepy_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  return ctx_sleep_ms (ctx, GPOINTER_TO_INT (data), error);
}

static gboolean
sleepy_finish (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_status (res, 201);
  return TRUE;
}

static void
sleepy_free (gpointer data)
{
  g_atomic_int_add (&sinks_alive, -1);
}

static const HttpBodySink sleepy_sink = { sleepy_write, sleepy_finish, sleepy_free };

static gboolean
put_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *delay = http_request_query (req, "delay_ms");
  g_atomic_int_inc (&sinks_alive);
  http_request_set_sink (req, &sleepy_sink, GINT_TO_POINTER (delay != NULL ? atoi (delay) : 0));
  return TRUE;
}

static gboolean
get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  guint64 size = g_ascii_strtoull (http_request_param (req, "size"), NULL, 10);
  http_response_stream (res, NULL, size, &fixture_source, fixture_source_new (size, 0));
  return TRUE;
}

typedef struct {
  guint n_blocks;
} SleepySource;

static gssize
sleepy_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  SleepySource *self = data;
  if (!ctx_sleep_ms (ctx, PROGRESS_MS * 3 / 2, error))
    return -1;
  memset (buffer, 'x', size);
  return self->n_blocks-- > 0 ? (gssize) size : 0;
}

static const HttpBodySource sleepy_source = { sleepy_read, g_free };

static gboolean
get_sleepy (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  SleepySource *source = g_new (SleepySource, 1);
  source->n_blocks = 2;
  http_response_stream_chunked (res, NULL, &sleepy_source, source);
  return TRUE;
}

static gboolean
get_sleep (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_mutex_lock (&abort_lock);
  to_abort = req;
  g_mutex_unlock (&abort_lock);
  gboolean slept = ctx_sleep_ms (ctx, atoi (http_request_param (req, "ms")), error);
  g_mutex_lock (&abort_lock);
  to_abort = NULL;
  g_mutex_unlock (&abort_lock);
  g_atomic_int_inc (slept ? &handlers_done : &handlers_cancelled);
  http_response_text (res, NULL, "slept");
  return slept;
}

static const HttpRoute routes[] = {
  { "PUT", "/upload", put_upload, .streams_body = TRUE },
  { "GET", "/blob/{size}", get_blob },
  { "GET", "/sleepy", get_sleepy },
  { "GET", "/sleep/{ms}", get_sleep },
};

typedef struct {
  Ctx *ctx;
  HttpServer *server;
  int fd;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  gboolean is_patient = GPOINTER_TO_INT (data);
  self->ctx = ctx_new ();
  HttpServerConfig config = {
    .listen_address = "127.0.0.1:0",
    .routes = routes,
    .n_routes = G_N_ELEMENTS (routes),
    .header_timeout_ms = is_patient ? 0 : HEADER_MS,
    .progress_timeout_ms = is_patient ? 0 : PROGRESS_MS,
    .progress_bytes = 16 * 1024,
    .idle_timeout_ms = is_patient ? 0 : IDLE_MS,
    .drain_timeout_ms = 1500,
    .max_connections = 8,
    .max_connections_per_peer = 6,
    .max_header_bytes = 4096,
  };
  self->server = http_server_start (self->ctx, &config, &error);
  g_assert_no_error (error);
  self->fd = raw_connect (http_server_port (self->server));
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  close (self->fd);
  http_server_free (self->server);
  ctx_unref (self->ctx);
  g_assert_cmpint (g_atomic_int_get (&fixture_sources_alive), ==, 0);
  g_assert_cmpint (g_atomic_int_get (&sinks_alive), ==, 0);
}

static double
timed_out (const char *state)
{
  Metric *metric = metric_declare ("http_connections_timed_out_total", METRIC_COUNTER, "", NULL);
  return metric_value (metric, state, NULL);
}

/* Sends a byte (or `size`) each `pause_ms` until the server has enough of it; returns after how long. */
static gint64
trickle (int fd, const char *text, gsize size, gint64 pause_ms)
{
  gint64 start_us = g_get_monotonic_time ();
  gsize length = strlen (text);
  for (gsize i = 0; g_get_monotonic_time () - start_us < 5 * G_TIME_SPAN_SECOND; i = (i + size) % length)
    {
      raw_try_send (fd, text + i, MIN (size, length - i));
      if (raw_closes_within (fd, pause_ms))
        return (g_get_monotonic_time () - start_us) / 1000;
    }
  g_error ("the server let it trickle");
}

static void
assert_between (gint64 value, gint64 low, gint64 high)
{
  g_assert_cmpint (value, >=, low);
  g_assert_cmpint (value, <=, high);
}

static void
assert_cut_after (gint64 ms, gint64 timeout_ms)
{
  assert_between (ms, timeout_ms - EARLY_MS, timeout_ms + LATE_MS);
}

static void
wait_for (gint *counter, gint value)
{
  for (guint i = 0; i < 500 && g_atomic_int_get (counter) != value; i++)
    g_usleep (10 * 1000);
  g_assert_cmpint (g_atomic_int_get (counter), ==, value);
}

static void
test_trickling_head (Fixture *self, gconstpointer data)
{
  double before = timed_out ("head");
  gint64 ms = trickle (self->fd, "GET /sleep/1 HTTP/1.1\r\nX: very long indeed, far longer than patience", 1, 20);
  assert_cut_after (ms, HEADER_MS);
  am_autofd int silent = raw_connect (http_server_port (self->server));
  gint64 start_us = g_get_monotonic_time ();
  g_assert_true (raw_closes_within (silent, HEADER_MS + LATE_MS));
  assert_cut_after ((g_get_monotonic_time () - start_us) / 1000, HEADER_MS);
  g_assert_cmpfloat (timed_out ("head"), ==, before + 2);
}

static void
test_trickling_next_head (Fixture *self, gconstpointer data)
{
  static const char *const beginnings[] = { "", "GET /sle", "GET /sleep/1 HTTP/1.1\r\nX" };
  for (gsize i = 0; i < G_N_ELEMENTS (beginnings); i++)
    {
      g_auto (RawReply) reply = { 0 };
      am_autofd int fd = raw_connect (http_server_port (self->server));
      g_autofree char *request = g_strconcat ("GET /sleep/1 HTTP/1.1\r\n" HOST "\r\n", beginnings[i], NULL);
      raw_ask (fd, request, &reply);
      g_assert_cmpuint (reply.status, ==, 200);
      g_usleep (100 * 1000);
      gint64 ms = trickle (fd, "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 1, 20);
      assert_cut_after (ms, HEADER_MS);
    }
}

static void
test_idle (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) reply = { 0 }, again = { 0 };
  double before = timed_out ("idle");
  raw_ask (self->fd, "GET /sleep/1 HTTP/1.1\r\n" HOST "\r\n", &reply);
  g_usleep (IDLE_MS * 1000 / 2);
  raw_ask (self->fd, "GET /sleep/1 HTTP/1.1\r\n" HOST "\r\n", &again);
  gint64 start_us = g_get_monotonic_time ();
  g_assert_true (raw_closes_within (self->fd, IDLE_MS + LATE_MS));
  assert_cut_after ((g_get_monotonic_time () - start_us) / 1000, IDLE_MS);
  g_assert_cmpfloat (timed_out ("idle"), ==, before + 1);
}

static void
test_trickling_body (Fixture *self, gconstpointer data)
{
  double before = timed_out ("body");
  raw_send (self->fd, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 10000000\r\n\r\n");
  gint64 ms = trickle (self->fd, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 10,
                       20);
  assert_cut_after (ms, PROGRESS_MS);
  g_assert_cmpfloat (timed_out ("body"), ==, before + 1);
}

/* Slow, but 16 KiB in half a second or more: it may. */
static void
test_slow_body (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) reply = { 0 };
  g_autofree char *piece = g_strnfill (8 * 1024, 'x');
  raw_send (self->fd, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 163840\r\n\r\n");
  for (guint i = 0; i < 20; i++)
    {
      raw_send (self->fd, piece);
      g_usleep (80 * 1000);
    }
  raw_read (self->fd, FALSE, &reply);
  g_assert_cmpuint (reply.status, ==, 201);
}

/* Time that our own side takes is not the client's. */
static void
test_slow_server (Fixture *self, gconstpointer data)
{
  g_auto (RawReply) upload = { 0 }, download = { 0 };
  g_autofree char *body = g_strnfill (100, 'x');
  raw_send (self->fd, "PUT /upload?delay_ms=1200 HTTP/1.1\r\n" HOST "Content-Length: 200\r\n\r\n");
  raw_send (self->fd, body);
  g_usleep (100 * 1000);
  raw_send (self->fd, body);
  raw_read (self->fd, FALSE, &upload);
  g_assert_cmpuint (upload.status, ==, 201);
  raw_ask (self->fd, "GET /sleepy HTTP/1.1\r\n" HOST "\r\n", &download);
  g_assert_true (download.complete);
}

static void
test_stalled_reader (Fixture *self, gconstpointer data)
{
  double before = timed_out ("response");
  gint64 start_us = g_get_monotonic_time ();
  raw_send (self->fd, "GET /blob/1000000000 HTTP/1.1\r\n" HOST "\r\n");
  wait_for (&fixture_sources_alive, 1);
  do
    g_usleep (10 * 1000);
  while (g_atomic_int_get (&fixture_sources_alive) > 0
         && g_get_monotonic_time () - start_us < 5 * G_TIME_SPAN_SECOND);
  assert_between ((g_get_monotonic_time () - start_us) / 1000, PROGRESS_MS, PROGRESS_MS + 2 * LATE_MS);
  g_assert_cmpfloat (timed_out ("response"), ==, before + 1);
}

static void
test_slow_reader (Fixture *self, gconstpointer data)
{
  char buffer[8 * 1024];
  int small = 16 * 1024;
  gint64 total = 0;
  setsockopt (self->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  raw_send (self->fd, "GET /blob/300000 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
  for (gssize n = 1; n > 0; total += n)
    {
      g_usleep (50 * 1000);
      n = recv (self->fd, buffer, sizeof buffer, MSG_WAITALL);
    }
  g_assert_cmpint (total, >, 300000);
}

static void
test_large_heads (Fixture *self, gconstpointer data)
{
  static const struct {
    gsize target_bytes, header_bytes, n_headers;
    guint status;
  } rows[] = { { 3000, 0, 1, 404 },   { 0, 3000, 1, 404 },   { 0, 10, 100, 404 },
               { 5000, 0, 1, 431 },   { 0, 5000, 1, 431 },   { 0, 10, 400, 431 },
               { 200000, 0, 1, 414 }, { 0, 200000, 1, 431 }, { 0, 10, 20000, 431 } };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      am_autofd int fd = raw_connect (http_server_port (self->server));
      g_auto (RawReply) reply = { 0 };
      g_autofree char *target = g_strnfill (rows[i].target_bytes, 'x');
      g_autofree char *header = g_strnfill (rows[i].header_bytes, 'y');
      g_autoptr (GString) request = g_string_new (NULL);
      g_string_printf (request, "GET /%s HTTP/1.1\r\n" HOST, target);
      for (gsize j = 0; j < rows[i].n_headers; j++)
        g_string_append_printf (request, "H%" G_GSIZE_FORMAT ": %s\r\n", j, header);
      g_string_append (request, "\r\n");
      raw_try_send (fd, request->str, request->len);
      raw_read (fd, FALSE, &reply);
      g_test_message ("%" G_GSIZE_FORMAT ": %u", i, reply.status);
      g_assert_cmpuint (reply.status, ==, rows[i].status);
      if (rows[i].status != 404)
        g_assert_true (raw_closes_within (fd, 3000));
    }
}

static int
connect_from (const char *address, guint16 port)
{
  struct sockaddr_in from = { .sin_family = AF_INET }, to = { .sin_family = AF_INET, .sin_port = htons (port) };
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  inet_pton (AF_INET, address, &from.sin_addr);
  to.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  g_assert_cmpint (bind (fd, (struct sockaddr *) &from, sizeof from), ==, 0);
  g_assert_cmpint (connect (fd, (struct sockaddr *) &to, sizeof to), ==, 0);
  return fd;
}

static guint
ask_status (int fd)
{
  g_auto (RawReply) reply = { 0 };
  static const char request[] = "GET /sleep/0 HTTP/1.1\r\n" HOST "\r\n";
  if (!raw_try_send (fd, request, strlen (request)))
    return 0;
  raw_read (fd, FALSE, &reply);
  return reply.status;
}

/* A connection on which a request is under way, or -1 when there was no place for it. */
static int
try_connect_busy (const char *address, guint16 port)
{
  static const char request[] = "PUT /upload HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n";
  static const char wanted[] = "HTTP/1.1 100 Continue\r\n\r\n";
  char answer[sizeof wanted] = { 0 };
  am_autofd int fd = connect_from (address, port);
  gboolean taken = raw_try_send (fd, request, strlen (request))
                   && recv (fd, answer, strlen (wanted), MSG_WAITALL) == (gssize) strlen (wanted);
  if (taken)
    g_assert_cmpstr (answer, ==, wanted);
  return taken ? am_steal_fd (&fd) : -1;
}

/* The same; the server may not have noticed yet that a connection of before is closed. */
static int
connect_busy (const char *address, guint16 port)
{
  int fd = try_connect_busy (address, port);
  for (guint i = 0; i < 300 && fd < 0; i++)
    {
      g_usleep (10 * 1000);
      fd = try_connect_busy (address, port);
    }
  g_assert_cmpint (fd, >=, 0);
  return fd;
}

static guint
status_when_free (const char *address, guint16 port)
{
  guint status = 0;
  for (guint i = 0; i < 300 && status != 200; i++)
    {
      am_autofd int fd = connect_from (address, port);
      status = ask_status (fd);
      if (status != 200)
        g_usleep (10 * 1000);
    }
  return status;
}

static void
test_connection_limits (Fixture *self, gconstpointer data)
{
  guint16 port = http_server_port (self->server);
  Metric *refused = metric_declare ("http_connections_refused_total", METRIC_COUNTER, "", NULL);
  int fds[8];
  close (self->fd);
  self->fd = -1;
  g_assert_cmpuint (status_when_free ("127.0.0.1", port), ==, 200);
  for (guint i = 0; i < 8; i++)
    fds[i] = connect_busy (i < 6 ? "127.0.0.1" : "127.0.0.2", port);
  double by_peer = metric_value (refused, "peer", NULL), by_total = metric_value (refused, "total", NULL);
  am_autofd int of_peer = connect_from ("127.0.0.1", port);
  g_assert_cmpuint (ask_status (of_peer), ==, 0);
  am_autofd int of_all = connect_from ("127.0.0.3", port);
  g_assert_cmpuint (ask_status (of_all), ==, 0);
  g_assert_cmpfloat (metric_value (refused, "peer", NULL), ==, by_peer + 1);
  g_assert_cmpfloat (metric_value (refused, "total", NULL), ==, by_total + 1);
  /* A place that was left is free again. */
  for (guint i = 0; i < 8; i++)
    close (fds[i]);
  g_assert_cmpuint (status_when_free ("127.0.0.1", port), ==, 200);
}

/* Who has waited for a request longest makes room, of the same peer when that has too many; who works stays. */
static void
test_displaced (Fixture *self, gconstpointer data)
{
  guint16 port = http_server_port (self->server);
  Metric *displaced = metric_declare ("http_connections_displaced_total", METRIC_COUNTER, "", NULL);
  double by_peer = metric_value (displaced, "peer", NULL), by_total = metric_value (displaced, "total", NULL);
  am_autofd int busy = connect_busy ("127.0.0.2", port);
  am_autofd int oldest = connect_from ("127.0.0.2", port);
  g_usleep (20 * 1000);
  am_autofd int used = connect_from ("127.0.0.1", port);
  g_assert_cmpuint (ask_status (used), ==, 200);
  int waiting[4];
  for (guint i = 0; i < 4; i++)
    waiting[i] = connect_from ("127.0.0.1", port);
  /* six of 127.0.0.1 (one is the fixture's), two of 127.0.0.2: full both ways */
  g_usleep (1100 * 1000);
  am_autofd int of_peer = connect_from ("127.0.0.1", port);
  g_assert_cmpuint (ask_status (of_peer), ==, 200);
  g_assert_true (raw_closes_within (self->fd, 1000));
  g_assert_cmpfloat (metric_value (displaced, "peer", NULL), ==, by_peer + 1);
  am_autofd int of_all = connect_from ("127.0.0.3", port);
  g_assert_cmpuint (ask_status (of_all), ==, 200);
  g_assert_true (raw_closes_within (oldest, 1000));
  g_assert_cmpfloat (metric_value (displaced, "total", NULL), ==, by_total + 1);
  g_assert_cmpuint (ask_status (used), ==, 200);
  raw_send (busy, "x");
  g_auto (RawReply) reply = { 0 };
  raw_read (busy, FALSE, &reply);
  g_assert_cmpuint (reply.status, ==, 201);
  for (guint i = 0; i < 4; i++)
    close (waiting[i]);
}

static void
test_vanishing_client (Fixture *self, gconstpointer data)
{
  gint cancelled = g_atomic_int_get (&handlers_cancelled);
  raw_send (self->fd, "GET /sleep/60000 HTTP/1.1\r\n" HOST "\r\n");
  g_usleep (100 * 1000);
  shutdown (self->fd, SHUT_RDWR);
  wait_for (&handlers_cancelled, cancelled + 1);
}

static void
test_abort (Fixture *self, gconstpointer data)
{
  gint cancelled = g_atomic_int_get (&handlers_cancelled);
  raw_send (self->fd, "GET /sleep/60000 HTTP/1.1\r\n" HOST "\r\n");
  for (gboolean aborted = FALSE; !aborted; g_usleep (10 * 1000))
    {
      g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&abort_lock);
      if (to_abort == NULL)
        continue;
      http_request_abort (to_abort);
      aborted = TRUE;
    }
  wait_for (&handlers_cancelled, cancelled + 1);
  g_assert_true (raw_closes_within (self->fd, 1000));
}

static gpointer
drain (gpointer data)
{
  http_server_drain (data);
  return NULL;
}

static void
test_drain (Fixture *self, gconstpointer data)
{
  guint16 port = http_server_port (self->server);
  g_auto (RawReply) reply = { 0 };
  am_autofd int idle = raw_connect (port);
  g_assert_cmpuint (ask_status (idle), ==, 200);
  raw_send (self->fd, "GET /sleep/400 HTTP/1.1\r\n" HOST "\r\n");
  g_usleep (50 * 1000);
  gint64 start_us = g_get_monotonic_time ();
  GThread *thread = g_thread_new ("drain", drain, self->server);
  g_assert_true (raw_closes_within (idle, 300));
  struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons (port) };
  where.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  am_autofd int late = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (connect (late, (struct sockaddr *) &where, sizeof where), ==, -1);
  raw_read (self->fd, FALSE, &reply);
  g_autofree char *connection = raw_header (&reply, "Connection");
  g_assert_cmpuint (reply.status, ==, 200);
  g_assert_cmpstr (connection, ==, "close");
  g_thread_join (thread);
  assert_between ((g_get_monotonic_time () - start_us) / 1000, 350 - EARLY_MS, 1400);
}

static void
test_drain_timeout (Fixture *self, gconstpointer data)
{
  gint cancelled = g_atomic_int_get (&handlers_cancelled);
  raw_send (self->fd, "GET /sleep/60000 HTTP/1.1\r\n" HOST "\r\n");
  am_autofd int reader = raw_connect (http_server_port (self->server));
  raw_send (reader, "GET /blob/1000000000 HTTP/1.1\r\n" HOST "\r\n");
  g_usleep (50 * 1000);
  gint64 start_us = g_get_monotonic_time ();
  http_server_drain (self->server);
  assert_cut_after ((g_get_monotonic_time () - start_us) / 1000, 1500);
  wait_for (&handlers_cancelled, cancelled + 1);
  wait_for (&fixture_sources_alive, 0);
}

/* Freed while busy in each way: ends at once, nothing stays. */
static void
test_free_when_busy (Fixture *self, gconstpointer data)
{
  guint16 port = http_server_port (self->server);
  am_autofd int reader = raw_connect (port);
  am_autofd int writer = raw_connect (port);
  am_autofd int head = raw_connect (port);
  raw_send (self->fd, "GET /sleep/60000 HTTP/1.1\r\n" HOST "\r\n");
  raw_send (reader, "GET /blob/1000000000 HTTP/1.1\r\n" HOST "\r\n");
  raw_send (writer, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nx");
  raw_send (head, "GET /sl");
  g_usleep (100 * 1000);
  gint64 start_us = g_get_monotonic_time ();
  g_clear_pointer (&self->server, http_server_free);
  g_assert_cmpint (g_get_monotonic_time () - start_us, <, G_TIME_SPAN_SECOND);
}

int
main (int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*func) (Fixture *, gconstpointer);
    gboolean patient; /* deadlines of the defaults: it is about something else */
  } tests[] = {
    { "trickling-head", test_trickling_head },
    { "trickling-next-head", test_trickling_next_head },
    { "idle", test_idle },
    { "trickling-body", test_trickling_body },
    { "slow-body", test_slow_body },
    { "slow-server", test_slow_server },
    { "stalled-reader", test_stalled_reader },
    { "slow-reader", test_slow_reader },
    { "large-heads", test_large_heads, TRUE },
    { "connection-limits", test_connection_limits, TRUE },
    { "displaced", test_displaced, TRUE },
    { "vanishing-client", test_vanishing_client, TRUE },
    { "abort", test_abort, TRUE },
    { "drain", test_drain, TRUE },
    { "drain-timeout", test_drain_timeout, TRUE },
    { "free-when-busy", test_free_when_busy, TRUE },
  };
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strconcat ("/http-limits/", tests[i].name, NULL);
      g_test_add (path, Fixture, GINT_TO_POINTER (tests[i].patient), set_up, tests[i].func, tear_down);
    }
  return g_test_run ();
}
