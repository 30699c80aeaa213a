/* What the parts of the server share: http_server.c (life of the server), http_exchange.c (life of a
 * request), http_request.c and http_response.c. Private to net/. A request belongs to its connection's
 * thread. */
#pragma once

#include <microhttpd.h>
#include <stdatomic.h>

#include "net/http_connection.h"
#include "net/http_server.h"
#include "net/http_target.h"
#include "net/http_tls.h"
#include "net/metrics.h"

typedef struct {
  HttpRoute route;
  HttpPattern *pattern;
  gboolean builtin; /* health and metrics: no authorization, logged at debug level */
} HttpRow;

struct HttpServer {
  HttpServerConfig config; /* defaults filled in; its strings are owned */
  Ctx *ctx;
  HttpConnections *connections;
  HttpTls *tls;
  struct MHD_Daemon *daemon;
  int listen_fd;
  guint16 port;
  GPtrArray *rows; /* HttpRow */
  atomic_int draining;
  atomic_int n_requests; /* under way */
  Metric *requests, *durations, *bytes_in, *bytes_out;
};

typedef enum { HTTP_BODY_NONE, HTTP_BODY_BYTES, HTTP_BODY_STREAM, HTTP_BODY_CHUNKED } HttpBodyKind;

struct HttpResponse {
  guint status;
  GPtrArray *headers; /* HttpArgument */
  char *content_type;
  gboolean close;
  HttpBodyKind kind;
  GBytes *bytes;
  guint64 size_bytes;
  HttpBodySource source;
  gpointer source_data;
};

typedef enum { HTTP_PHASE_HEAD, HTTP_PHASE_READING, HTTP_PHASE_ANSWERED } HttpPhase;

struct HttpRequest {
  HttpServer *server;
  HttpConnection *connection;
  struct MHD_Connection *mhd;
  Ctx *ctx;
  HttpPhase phase;
  gint64 start_us;

  char *raw_target;
  HttpTarget target;
  const char *method, *version; /* libmicrohttpd's; NULL until the head is read */
  const char *last_line;        /* value of the last header line, where it was received */
  GPtrArray *headers;           /* HttpArgument, values without blanks around */
  GPtrArray *joined;            /* strings made by http_request_header_joined */
  char id[129];
  const HttpRow *row;
  GPtrArray *params; /* HttpArgument */
  gboolean has_body;
  gint64 content_length; /* -1: chunked or absent */

  gboolean authorized;
  char *identity;
  gpointer data;
  GDestroyNotify free_data;

  gboolean has_sink;
  HttpBodySink sink;
  gpointer sink_data;
  GByteArray *collected;
  GBytes *body;

  GError *failure;         /* to be answered, or what went wrong later; for the log */
  gboolean answered_early; /* unread body may remain: linger before closing */
  guint64 bytes_in, bytes_out;
  HttpResponse response;
};

/* http_request.c */
HttpRequest *http_request_new (HttpServer *server, HttpConnection *connection, struct MHD_Connection *mhd,
                               const char *raw_target);
void http_request_free (HttpRequest *self);
/* Takes the header lines over and checks what must not be tolerated: INVALID_ARGUMENT for bad names and
 * ambiguous framing (RFC 9112 6.3), RESOURCE_EXHAUSTED when the head is too large. */
gboolean http_request_read_head (HttpRequest *self, GError **error);
void http_request_drop_sink (HttpRequest *self);

/* http_exchange.c */
void *http_exchange_begin (HttpServer *server, const char *raw_target, struct MHD_Connection *mhd);
enum MHD_Result http_exchange_continue (HttpRequest *req, const char *method, const char *version, const char *data,
                                        size_t *size);
void http_exchange_end (HttpRequest *req, enum MHD_RequestTerminationCode how);

/* http_response.c */
void http_response_clear (HttpResponse *self);
/* Drops the body but keeps the headers: what happens to it when a handler fails. */
void http_response_drop_body (HttpResponse *self);
/* Hands the response to libmicrohttpd. FALSE when it does not take it. */
gboolean http_response_queue (HttpRequest *req);
/* Writes the response on the socket past libmicrohttpd, which takes none while a body arrives. Only
 * bodies in memory; the connection must be closed afterwards. */
void http_response_send_raw (HttpRequest *req);
