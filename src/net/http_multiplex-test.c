/* Many calls at the same time over one connection, against a real HTTP/2 server (nghttpd) and our own of HTTP/1.1. */
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/net_fixture.h"

#define N_CALLERS 40
#define START_TIMEOUT_US (20 * G_USEC_PER_SEC)

typedef struct {
  char *dir, *certificate, *key, *log;
  char *pem; /* certificate and key */
  char *ca;  /* certificate */
  GPid pid;
  guint16 port;
  char *url;
} Nghttpd;

static guint16
free_port (void)
{
  struct sockaddr_in where = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t size = sizeof where;
  am_autofd int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (fd, (struct sockaddr *) &where, size), ==, 0);
  g_assert_cmpint (getsockname (fd, (struct sockaddr *) &where, &size), ==, 0);
  return ntohs (where.sin_port);
}

static gboolean
answers (guint16 port)
{
  struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons (port) };
  where.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  am_autofd int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return connect (fd, (struct sockaddr *) &where, sizeof where) == 0;
}

static void
start_nghttpd (Nghttpd *self, const char *option)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *key_text = NULL;
  self->dir = g_dir_make_tmp ("net-multiplex-XXXXXX", &error);
  g_assert_no_error (error);
  self->certificate = g_build_filename (self->dir, "tls.crt", NULL);
  self->key = g_build_filename (self->dir, "tls.key", NULL);
  self->log = g_build_filename (self->dir, "log", NULL);
  g_autofree char *page = g_build_filename (self->dir, "page", NULL);
  g_assert_true (g_file_set_contents (page, "a page", -1, NULL));
  fixture_make_certificate ("server", self->certificate, self->key);
  g_assert_true (g_file_get_contents (self->certificate, &self->ca, NULL, NULL));
  g_assert_true (g_file_get_contents (self->key, &key_text, NULL, NULL));
  self->pem = g_strconcat (self->ca, key_text, NULL);
  self->port = free_port ();
  self->url = g_strdup_printf ("https://127.0.0.1:%u/page", self->port);
  g_autofree char *command = g_strdup_printf ("exec timeout 60 nghttpd -v %s -a 127.0.0.1 -d %s %u %s %s > %s 2>&1",
                                              option, self->dir, self->port, self->key, self->certificate, self->log);
  const char *const argv[] = { "/bin/sh", "-c", command, NULL };
  g_assert_true (
    g_spawn_async (NULL, (char **) argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &self->pid, &error));
  gint64 end_us = g_get_monotonic_time () + START_TIMEOUT_US;
  while (!answers (self->port) && g_get_monotonic_time () < end_us)
    g_usleep (20 * 1000);
  g_assert_true (answers (self->port));
}

/* Ends it; TRUE text of its log. Caller frees. */
static char *
stop_nghttpd (Nghttpd *self)
{
  char *log = NULL;
  kill (self->pid, SIGTERM);
  waitpid (self->pid, NULL, 0);
  g_assert_true (g_file_get_contents (self->log, &log, NULL, NULL));
  g_autofree char *command = g_strdup_printf ("rm -r %s", self->dir);
  g_assert_cmpint (system (command), ==, 0);
  char **const texts[] = {
    &self->dir, &self->certificate, &self->key, &self->log, &self->pem, &self->ca, &self->url
  };
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_clear_pointer (texts[i], g_free);
  return log;
}

typedef struct {
  HttpClient *client;
  const char *url;
  Ctx *ctx;
  gint n_good;
} Callers;

static gpointer
call_often (gpointer data)
{
  Callers *self = data;
  for (guint i = 0; i < 5; i++)
    {
      g_auto (HttpReply) reply = { 0 };
      g_autoptr (GError) error = NULL;
      HttpCall call = { .method = "GET", .url = self->url };
      if (!http_client_call (self->ctx, self->client, &call, &reply, &error))
        g_test_message ("%s", error->message);
      else if (g_bytes_get_size (reply.body) == strlen ("a page"))
        g_atomic_int_inc (&self->n_good);
    }
  return NULL;
}

static void
call_from_many_threads (Callers *self)
{
  GThread *threads[N_CALLERS];
  for (guint i = 0; i < N_CALLERS; i++)
    threads[i] = g_thread_new ("caller", call_often, self);
  for (guint i = 0; i < N_CALLERS; i++)
    g_thread_join (threads[i]);
}

/* nghttpd numbers its connections and names the number in each line. */
static guint
count_connections_with_requests (const char *log)
{
  g_autoptr (GHashTable) ids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_auto (GStrv) lines = g_strsplit (log, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    if (strstr (lines[i], ":path: /page") != NULL && g_str_has_prefix (lines[i], "[id="))
      g_hash_table_add (ids, g_strndup (lines[i], strcspn (lines[i], "]")));
  return g_hash_table_size (ids);
}

static void
test_one_connection (void)
{
  Nghttpd server = { 0 };
  start_nghttpd (&server, "");
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new ();
  HttpClientConfig config = { .ca_pem = server.ca, .proxy = "", .multiplexed = TRUE };
  HttpClient *client = http_client_new (&config, &error);
  g_assert_no_error (error);
  Callers callers = { .client = client, .url = server.url, .ctx = ctx };
  call_from_many_threads (&callers);
  http_client_free (client);
  g_autofree char *log = stop_nghttpd (&server);
  g_assert_cmpint (callers.n_good, ==, N_CALLERS * 5);
  g_assert_cmpuint (count_connections_with_requests (log), ==, 1);
}

/* A server that asks for a certificate serves only who shows one. */
static void
test_client_certificate (void)
{
  Nghttpd server = { 0 };
  start_nghttpd (&server, "-V");
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, 20 * 1000);
  const struct {
    const char *pem;
    gboolean good;
  } rows[] = { { server.pem, TRUE }, { NULL, FALSE } };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      HttpClientConfig config = {
        .ca_pem = server.ca, .client_pem = rows[i].pem, .proxy = "", .max_attempts = 1, .multiplexed = TRUE
      };
      g_autoptr (HttpClient) client = http_client_new (&config, &error);
      g_auto (HttpReply) reply = { 0 };
      HttpCall call = { .method = "GET", .url = server.url };
      g_assert_cmpint (http_client_call (ctx, client, &call, &reply, &error), ==, rows[i].good);
    }
  g_free (stop_nghttpd (&server));
}

static gboolean
get_sleep (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_text (res, NULL, "a page");
  return ctx_sleep_ms (ctx, atoi (http_request_param (req, "ms")), error);
}

static const HttpRoute routes[] = { { "GET", "/sleep/{ms}", get_sleep } };

/* Without HTTP/2 the calls take turns on a few connections, and one that is cancelled leaves the others alone. */
static void
test_old_server (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new ();
  HttpServerConfig config = { .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = G_N_ELEMENTS (routes) };
  HttpServer *server = http_server_start (ctx, &config, &error);
  g_assert_no_error (error);
  g_autofree char *quick = g_strdup_printf ("http://127.0.0.1:%u/sleep/1", http_server_port (server));
  g_autofree char *slow = g_strdup_printf ("http://127.0.0.1:%u/sleep/60000", http_server_port (server));
  HttpClientConfig client_config = { .proxy = "", .multiplexed = TRUE };
  HttpClient *client = http_client_new (&client_config, &error);
  g_assert_no_error (error);
  g_autoptr (Ctx) short_ctx = ctx_new_child (ctx, 300);
  Callers patient = { .client = client, .url = quick, .ctx = ctx };
  Callers hasty = { .client = client, .url = slow, .ctx = short_ctx };
  GThread *thread = g_thread_new ("hasty", call_often, &hasty);
  call_from_many_threads (&patient);
  g_thread_join (thread);
  http_client_free (client);
  http_server_free (server);
  g_assert_cmpint (patient.n_good, ==, N_CALLERS * 5);
  g_assert_cmpint (hasty.n_good, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  g_test_add_func ("/http-multiplex/one-connection", test_one_connection);
  g_test_add_func ("/http-multiplex/client-certificate", test_client_certificate);
  g_test_add_func ("/http-multiplex/old-server", test_old_server);
  return g_test_run ();
}
