/* CPU seconds a GiB of the server (and of our client) over loopback: net_bench [MiB] [certificate key]. */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/http_client.h"
#include "net/net_fixture.h"

#define GIB (1024.0 * 1024 * 1024)
#define BLOCK (1024 * 1024)

static guint8 *block;
static guint64 total_bytes;

typedef struct {
  guint64 left;
} Counter;

static gssize
read_block (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  Counter *self = data;
  gsize n = MIN (MIN (size, BLOCK), self->left);
  memcpy (buffer, block, n);
  self->left -= n;
  return (gssize) n;
}

static gboolean
discard (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  ((Counter *) data)->left += size;
  return TRUE;
}

static gboolean
finish (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_status (res, 201);
  return TRUE;
}

static gboolean
rewind_counter (gpointer data, GError **error)
{
  ((Counter *) data)->left = total_bytes;
  return TRUE;
}

static const HttpBodySource source = { read_block, g_free };
static const HttpBodySink sink = { discard, finish, g_free };
static const HttpUpload upload = { read_block, rewind_counter };
static const HttpDownload download = { NULL, discard, NULL };

static gboolean
get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *size = http_request_query (req, "size");
  Counter *counter = g_new (Counter, 1);
  counter->left = size != NULL ? g_ascii_strtoull (size, NULL, 10) : total_bytes;
  http_response_stream (res, NULL, counter->left, &source, counter);
  return TRUE;
}

static gboolean
put_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_request_set_sink (req, &sink, g_new0 (Counter, 1));
  return TRUE;
}

static const HttpRoute routes[] = {
  { "GET", "/blob", get_blob },
  { "PUT", "/blob", put_blob, .streams_body = TRUE },
};

static double
cpu_seconds (int who)
{
  struct rusage usage;
  getrusage (who, &usage);
  return (double) usage.ru_utime.tv_sec + (double) usage.ru_stime.tv_sec
         + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void
call (guint16 port, gboolean tls, gboolean put, guint n_calls)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  HttpClientConfig config = { .insecure_skip_verify = TRUE, .proxy = "" };
  g_autoptr (HttpClient) client = http_client_new (&config, &error);
  for (guint i = 0; i < n_calls; i++)
    {
      g_autofree char *url = g_strdup_printf ("%s://127.0.0.1:%u/blob?size=%" G_GUINT64_FORMAT,
                                              tls ? "https" : "http", port, total_bytes / n_calls);
      g_auto (HttpReply) reply = { 0 };
      Counter counter = { put ? total_bytes / n_calls : 0 };
      HttpCall get_call = { .method = "GET", .url = url, .download = &download, .download_data = &counter };
      HttpCall put_call = {
        .method = "PUT", .url = url, .upload = &upload, .upload_data = &counter, .upload_size = (gint64) counter.left
      };
      if (!http_client_call (ctx, client, put ? &put_call : &get_call, &reply, &error))
        g_error ("%s", error->message);
    }
}

/* The cheapest reader there is, so that the client does not set the pace. */
static void
raw_get (guint16 port)
{
  am_autofd int fd = raw_connect (port);
  raw_send (fd, "GET /blob HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  while (recv (fd, block, BLOCK, MSG_TRUNC) > 0)
    ;
}

static void
serve (int port_pipe, int end_pipe, const char *certificate, const char *key)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = { .listen_address = "127.0.0.1:0",
                              .routes = routes,
                              .n_routes = G_N_ELEMENTS (routes),
                              .tls_certificate_file = certificate,
                              .tls_key_file = key };
  HttpServer *server = http_server_start (ctx, &config, &error);
  if (server == NULL)
    g_error ("%s", error->message);
  guint16 port = http_server_port (server);
  char scrap;
  if (write (port_pipe, &port, sizeof port) < 0 || read (end_pipe, &scrap, 1) < 0)
    g_error ("pipe");
  http_server_free (server);
  ctx_unref (ctx);
  _exit (0);
}

static void
measure (const char *name, const char *certificate, const char *key, gboolean put, guint n_calls)
{
  int port_pipe[2], end_pipe[2];
  guint16 port;
  if (pipe (port_pipe) != 0 || pipe (end_pipe) != 0)
    g_error ("pipe");
  double before_children = cpu_seconds (RUSAGE_CHILDREN);
  pid_t pid = fork ();
  if (pid == 0)
    {
      close (end_pipe[1]);
      serve (port_pipe[1], end_pipe[0], certificate, key);
    }
  if (read (port_pipe[0], &port, sizeof port) != sizeof port)
    g_error ("no server");
  double before = cpu_seconds (RUSAGE_SELF);
  gint64 start_us = g_get_monotonic_time ();
  if (n_calls == 0)
    raw_get (port);
  else
    call (port, certificate != NULL, put, n_calls);
  double seconds = (double) (g_get_monotonic_time () - start_us) / 1e6;
  double client = cpu_seconds (RUSAGE_SELF) - before;
  close (end_pipe[1]);
  waitpid (pid, NULL, 0);
  double server = cpu_seconds (RUSAGE_CHILDREN) - before_children;
  double gib = (double) total_bytes / GIB;
  g_print ("%-28s %5.2f GiB/s, CPU-s/GiB: server %.2f, client %.2f\n", name, gib / seconds, server / gib,
           client / gib);
}

int
main (int argc, char **argv)
{
  total_bytes = (argc > 1 ? g_ascii_strtoull (argv[1], NULL, 10) : 2048) * 1024 * 1024;
  block = g_malloc (BLOCK);
  memset (block, 7, BLOCK);
  am_log_init (AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  for (guint round = 0; round < 2; round++)
    {
      measure ("GET plain, bare reader", NULL, NULL, FALSE, 0);
      measure ("GET plain", NULL, NULL, FALSE, 1);
      measure ("GET plain, 256 calls", NULL, NULL, FALSE, 256);
      measure ("PUT plain", NULL, NULL, TRUE, 1);
      if (argc > 3)
        {
          measure ("GET TLS", argv[2], argv[3], FALSE, 1);
          measure ("PUT TLS", argv[2], argv[3], TRUE, 1);
        }
    }
  return 0;
}
