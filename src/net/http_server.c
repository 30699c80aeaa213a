#include "net/http_server_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define BACKLOG 1024
#define STACK_BYTES (512 * 1024) /* virtual; only what is used becomes real */
#define DRAIN_POLL_US (10 * G_TIME_SPAN_MILLISECOND)
/* AES-128 first: the cheapest per byte, and strong. */
#define TLS_PRIORITIES                                                                                   \
  "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:" \
  "%SERVER_PRECEDENCE"

static gboolean
get_healthz (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_text (res, "text/plain; charset=utf-8", "ok\n");
  return TRUE;
}

static gboolean
get_readyz (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const HttpServerConfig *config = &req->server->config;
  g_autoptr (GError) why = NULL;
  if (atomic_load (&req->server->draining))
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "shutting down");
  if (config->ready != NULL && !config->ready (ctx, config->service, &why))
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "not ready: %s", why->message);
  http_response_text (res, "text/plain; charset=utf-8", "ok\n");
  return TRUE;
}

static gboolean
get_metrics (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autofree char *text = metrics_render ();
  http_response_text (res, "text/plain; version=0.0.4; charset=utf-8", text);
  return TRUE;
}

static const HttpRoute builtin_routes[] = {
  { "GET", "/healthz", get_healthz },
  { "GET", "/readyz", get_readyz },
  { "GET", "/metrics", get_metrics }, /* the last: it may be left out */
};

static void
row_free (gpointer data)
{
  HttpRow *row = data;
  http_pattern_free (row->pattern);
  g_free (row);
}

static void
add_rows (HttpServer *self, const HttpRoute *routes, gsize n_routes, gboolean builtin)
{
  for (gsize i = 0; i < n_routes; i++)
    {
      HttpRow *row = g_new0 (HttpRow, 1);
      row->route = routes[i];
      row->pattern = http_pattern_new (routes[i].pattern);
      row->builtin = builtin;
      g_ptr_array_add (self->rows, row);
    }
}

/* "host:port", "[v6]:port", ":port". FALSE when it is none of these. */
static gboolean
split_address (const char *address, char **out_host, char **out_port)
{
  const char *colon = strrchr (address, ':');
  if (colon == NULL || colon[1] == '\0')
    return FALSE;
  gsize size = (gsize) (colon - address);
  gboolean bracketed = size >= 2 && address[0] == '[' && colon[-1] == ']';
  g_autofree char *host = bracketed ? g_strndup (address + 1, size - 2) : g_strndup (address, size);
  if (!bracketed && strchr (host, ':') != NULL)
    return FALSE;
  *out_host = g_steal_pointer (&host);
  *out_port = g_strdup (colon + 1);
  return TRUE;
}

/* An empty host is every address, of both families where the machine has both. */
static gboolean
parse_address (const char *address, struct sockaddr_storage *out, socklen_t *out_size, GError **error)
{
  g_autofree char *host = NULL, *port = NULL;
  guint64 number = 0;
  struct sockaddr_in *v4 = (struct sockaddr_in *) out;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) out;
  memset (out, 0, sizeof *out);
  if (address == NULL || !split_address (address, &host, &port)
      || !g_ascii_string_to_unsigned (port, 10, 0, G_MAXUINT16, &number, NULL))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s is not an address to listen on",
                    address != NULL ? address : "nothing");
  if (inet_pton (AF_INET, host, &v4->sin_addr) == 1)
    {
      v4->sin_family = AF_INET;
      v4->sin_port = htons ((guint16) number);
      *out_size = sizeof *v4;
      return TRUE;
    }
  if (inet_pton (AF_INET6, *host != '\0' ? host : "::", &v6->sin6_addr) == 1)
    {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons ((guint16) number);
      *out_size = sizeof *v6;
      return TRUE;
    }
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s is not an address to listen on", address);
}

static int
listen_on (const char *address, GError **error)
{
  struct sockaddr_storage where;
  socklen_t size = 0;
  int on = 1, off = 0;
  if (!parse_address (address, &where, &size, error))
    return -1;
  am_autofd int fd = socket (where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 && errno == EAFNOSUPPORT && address[0] == ':')
    {
      g_autofree char *v4_only = g_strconcat ("0.0.0.0", address, NULL);
      return listen_on (v4_only, error);
    }
  if (fd >= 0 && where.ss_family == AF_INET6)
    setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (fd < 0 || setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
      || bind (fd, (struct sockaddr *) &where, size) != 0 || listen (fd, BACKLOG) != 0)
    {
      am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "cannot listen on %s: %s", address, g_strerror (errno));
      return -1;
    }
  return am_steal_fd (&fd);
}

static guint16
bound_port (int fd)
{
  struct sockaddr_storage where;
  socklen_t size = sizeof where;
  if (getsockname (fd, (struct sockaddr *) &where, &size) != 0)
    return 0;
  return ntohs (where.ss_family == AF_INET ? ((struct sockaddr_in *) &where)->sin_port
                                           : ((struct sockaddr_in6 *) &where)->sin6_port);
}

/* "10.1.2.3" also for an IPv4 peer of an IPv6 socket. */
static void
format_peer (const struct sockaddr *address, char buffer[INET6_ADDRSTRLEN])
{
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) address;
  g_strlcpy (buffer, "-", INET6_ADDRSTRLEN);
  if (address->sa_family == AF_INET)
    inet_ntop (AF_INET, &((const struct sockaddr_in *) address)->sin_addr, buffer, INET6_ADDRSTRLEN);
  else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED (&v6->sin6_addr))
    inet_ntop (AF_INET, &v6->sin6_addr.s6_addr[12], buffer, INET6_ADDRSTRLEN);
  else if (address->sa_family == AF_INET6)
    inet_ntop (AF_INET6, &v6->sin6_addr, buffer, INET6_ADDRSTRLEN);
}

static enum MHD_Result
on_accept (void *data, const struct sockaddr *address, socklen_t size)
{
  HttpServer *self = data;
  char peer[INET6_ADDRSTRLEN];
  format_peer (address, peer);
  return http_connections_admit (self->connections, peer) ? MHD_YES : MHD_NO;
}

static void
on_connection (void *data, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code)
{
  HttpServer *self = data;
  if (code == MHD_CONNECTION_NOTIFY_CLOSED)
    {
      http_connection_remove (*context);
      return;
    }
  char peer[INET6_ADDRSTRLEN];
  format_peer (MHD_get_connection_info (mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr, peer);
  int fd = MHD_get_connection_info (mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  *context = http_connections_add (self->connections, fd, peer);
}

static void *
on_uri (void *data, const char *uri, struct MHD_Connection *mhd)
{
  return http_exchange_begin (data, uri, mhd);
}

static enum MHD_Result
on_access (void *data, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
           const char *upload, size_t *upload_size, void **context)
{
  return http_exchange_continue (*context, method, version, upload, upload_size);
}

static void
on_completed (void *data, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode how)
{
  if (*context != NULL)
    http_exchange_end (g_steal_pointer (context), how);
}

/* Targets are decoded by http_target_parse. */
static size_t
on_unescape (void *data, struct MHD_Connection *mhd, char *text)
{
  return strlen (text);
}

static void G_GNUC_PRINTF (2, 0) on_log (void *data, const char *format, va_list args)
{
  if (!am_log_enabled (AM_LOG_DEBUG))
    return;
  g_autofree char *text = g_strdup_vprintf (format, args);
  am_log_debug (NULL, "libmicrohttpd", "text", g_strchomp (text), NULL);
}

static int
on_certificate (gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **out_chain,
                unsigned int *out_length, gnutls_privkey_t *out_key)
{
  struct MHD_Connection *mhd = gnutls_session_get_ptr (session);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  HttpServer *self = http_connection_owner (info->socket_context);
  http_tls_current (self->tls, out_chain, out_length, out_key);
  return 0;
}

static void
each_second (gpointer data)
{
  HttpServer *self = data;
  if (self->tls != NULL)
    http_tls_poll (self->tls);
}

static void
or_default (gint64 *value, gint64 otherwise)
{
  if (*value <= 0)
    *value = otherwise;
}

static HttpServerConfig
with_defaults (const HttpServerConfig *given)
{
  HttpServerConfig config = *given;
  config.listen_address = g_strdup (given->listen_address);
  config.tls_certificate_file = g_strdup (given->tls_certificate_file);
  config.tls_key_file = g_strdup (given->tls_key_file);
  config.max_connections = given->max_connections > 0 ? given->max_connections : 1024;
  config.max_connections_per_peer = given->max_connections_per_peer > 0 ? given->max_connections_per_peer : 256;
  config.max_header_bytes = given->max_header_bytes > 0 ? given->max_header_bytes : 32 * 1024;
  config.progress_bytes = given->progress_bytes > 0 ? given->progress_bytes : 64 * 1024;
  config.response_block_bytes = given->response_block_bytes > 0 ? given->response_block_bytes : 256 * 1024;
  or_default (&config.header_timeout_ms, 15 * 1000);
  or_default (&config.progress_timeout_ms, 30 * 1000);
  or_default (&config.idle_timeout_ms, 75 * 1000);
  or_default (&config.drain_timeout_ms, 25 * 1000);
  return config;
}

static HttpConnections *
make_connections (HttpServer *self)
{
  const HttpServerConfig *config = &self->config;
  HttpConnectionLimits limits = {
    .max_connections = config->max_connections,
    .max_per_peer = config->max_connections_per_peer,
    .header_timeout_us = config->header_timeout_ms * 1000,
    .progress_timeout_us = config->progress_timeout_ms * 1000,
    .idle_timeout_us = config->idle_timeout_ms * 1000,
    .progress_bytes = config->progress_bytes,
  };
  return http_connections_new (&limits, each_second, self);
}

static void
declare_metrics (HttpServer *self)
{
  self->requests = metric_declare ("http_requests_total", METRIC_COUNTER, "Requests by method and status.",
                                   (const char *[]){ "method", "code", NULL });
  self->durations = metric_declare ("http_request_duration_seconds", METRIC_HISTOGRAM,
                                    "Time from request line to the end of the response.",
                                    (const char *[]){ "method", NULL });
  self->bytes_in = metric_declare ("http_request_bytes_total", METRIC_COUNTER, "Bytes of request bodies.", NULL);
  self->bytes_out = metric_declare ("http_response_bytes_total", METRIC_COUNTER, "Bytes of response bodies.", NULL);
}

/* No timeout of libmicrohttpd's: any byte restarts it, and in its last second it spins. Its connection
 * limit stands above ours, so that ours decides and counts. */
static gboolean
start_daemon (HttpServer *self, GError **error)
{
  const HttpServerConfig *config = &self->config;
  unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC
                   | MHD_USE_ERROR_LOG | (self->tls != NULL ? MHD_USE_TLS : 0);
  struct MHD_OptionItem plain[] = { { MHD_OPTION_END, 0, NULL } };
  struct MHD_OptionItem tls[] = {
    { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *) on_certificate },
    { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) TLS_PRIORITIES },
    { MHD_OPTION_END, 0, NULL },
  };
  gsize pool_bytes = MAX (64 * 1024, 2 * config->max_header_bytes);
  self->daemon = MHD_start_daemon (flags, 0, on_accept, self, on_access, self, /* */
                                   MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET,
                                   self->listen_fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool_bytes, /* */
                                   MHD_OPTION_CONNECTION_LIMIT, config->max_connections + HTTP_ENDING_CONNECTIONS + 1,
                                   MHD_OPTION_THREAD_STACK_SIZE, (size_t) STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT,
                                   1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, self, MHD_OPTION_NOTIFY_COMPLETED,
                                   on_completed, self, MHD_OPTION_URI_LOG_CALLBACK, on_uri, self,
                                   MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL, MHD_OPTION_ARRAY,
                                   self->tls != NULL ? tls : plain, MHD_OPTION_END);
  if (self->daemon == NULL)
    {
      self->listen_fd = -1; /* libmicrohttpd closes it when it fails */
      return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "cannot start the HTTP server on %s",
                      config->listen_address);
    }
  return TRUE;
}

HttpServer *
http_server_start (Ctx *ctx, const HttpServerConfig *config, GError **error)
{
  g_autoptr (HttpServer) self = g_new0 (HttpServer, 1);
  self->config = with_defaults (config);
  self->listen_fd = -1;
  self->ctx = ctx_new_child (ctx, -1);
  self->rows = g_ptr_array_new_with_free_func (row_free);
  add_rows (self, builtin_routes, G_N_ELEMENTS (builtin_routes) - (config->hides_metrics ? 1 : 0), TRUE);
  add_rows (self, config->routes, config->n_routes, FALSE);
  declare_metrics (self);
  if ((config->tls_certificate_file != NULL) != (config->tls_key_file != NULL))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                         "a certificate needs a key, and a key a certificate");
  if (config->tls_certificate_file != NULL)
    {
      self->tls = http_tls_new (config->tls_certificate_file, config->tls_key_file, error);
      if (self->tls == NULL)
        return NULL;
    }
  self->listen_fd = listen_on (config->listen_address, error);
  if (self->listen_fd < 0)
    return NULL;
  self->port = bound_port (self->listen_fd);
  self->connections = make_connections (self);
  if (!start_daemon (self, error))
    return NULL;
  return g_steal_pointer (&self);
}

guint16
http_server_port (HttpServer *self)
{
  return self->port;
}

/* The socket stays open (closing it could hand its number to another file while libmicrohttpd still
 * polls it) but refuses connections. */
static void
stop_listening (HttpServer *self)
{
  if (atomic_exchange (&self->draining, 1) == 0)
    MHD_quiesce_daemon (self->daemon);
  shutdown (self->listen_fd, SHUT_RDWR);
}

void
http_server_drain (HttpServer *self)
{
  gint64 end_us = g_get_monotonic_time () + self->config.drain_timeout_ms * 1000;
  stop_listening (self);
  while (atomic_load (&self->n_requests) > 0 && g_get_monotonic_time () < end_us)
    {
      http_connections_cut_idle (self->connections);
      g_usleep (DRAIN_POLL_US);
    }
  ctx_cancel (self->ctx);
  http_connections_cut_all (self->connections);
}

void
http_server_free (HttpServer *self)
{
  if (self == NULL)
    return;
  ctx_cancel (self->ctx);
  if (self->daemon != NULL)
    {
      stop_listening (self);
      http_connections_cut_all (self->connections);
      MHD_stop_daemon (self->daemon); /* joins the connections' threads */
    }
  http_connections_free (self->connections);
  if (self->listen_fd >= 0)
    close (self->listen_fd);
  http_tls_free (self->tls);
  ctx_unref (self->ctx);
  g_ptr_array_unref (self->rows);
  g_free ((char *) self->config.listen_address);
  g_free ((char *) self->config.tls_certificate_file);
  g_free ((char *) self->config.tls_key_file);
  g_free (self);
}
