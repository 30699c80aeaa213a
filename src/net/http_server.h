/* HTTP/1.1 server over libmicrohttpd: a thread a connection, bounded; straight-line handlers.
 * Used by every applet that listens. A handler runs on its connection's thread and may block up to its
 * context's deadline. An error it returns becomes status and body through the server's error writer. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

typedef struct HttpServer HttpServer;
typedef struct HttpRequest HttpRequest;
typedef struct HttpResponse HttpResponse;

typedef gboolean (*HttpHandler) (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);

/* `pattern`: "/v2/{name+}/blobs/{digest}": {x} is one segment, {x+} one or more (at most one of these a
 * pattern). Segments are told apart before they are decoded: "%2F" may stand in an {x}, never in an
 * {x+}. "." and ".." segments, NUL and control bytes answer 400. The first row whose method and pattern fit wins; a path that fits under another method only answers 405 with Allow.
 * GET rows serve HEAD too (the body is left out by the server). `body_limit_bytes` > 0: the body is
 * collected first (413 above it) and found with http_request_body; 0: no body is accepted beyond an
 * empty one unless the handler sets a sink. */
typedef struct {
  const char *method;
  const char *pattern;
  HttpHandler handler;
  gsize body_limit_bytes;
  gboolean streams_body; /* handler calls http_request_set_sink */
} HttpRoute;

/* Receives a streamed request body on the connection's thread. `finish` is called once after the last
 * byte and fills the response; `free` always comes last (before the response is sent), also when the
 * client vanished (then finish never came). An error from write answers at once and closes the
 * connection; such an answer must have its body in memory. */
typedef struct {
  gboolean (*write) (Ctx *ctx, gpointer self, gconstpointer data, gsize size, GError **error);
  gboolean (*finish) (Ctx *ctx, gpointer self, HttpRequest *req, HttpResponse *res, GError **error);
  void (*free) (gpointer self);
} HttpBodySink;

/* Gives a response body. `read` fills up to `size` bytes and returns how many (> 0), 0 at the end,
 * -1 with an error (the connection is then cut, so that the client sees a short body). */
typedef struct {
  gssize (*read) (Ctx *ctx, gpointer self, guint8 *buffer, gsize size, GError **error);
  void (*free) (gpointer self);
} HttpBodySource;

typedef struct {
  const char *listen_address;                      /* "127.0.0.1:5000", "[::]:5000", ":5000"; port 0 picks one */
  const char *tls_certificate_file, *tls_key_file; /* both or none; reloaded when they change */
  guint max_connections;                           /* 0: 1024 */
  guint max_connections_per_peer;                  /* 0: 256 */
  gsize max_header_bytes;                          /* 0: 32 KiB */
  gint64 header_timeout_ms;                        /* 0: 15 s for a whole request head, however it trickles */
  gint64 progress_timeout_ms;                      /* 0: 30 s in which a body must advance by progress_bytes */
  gsize progress_bytes;                            /* 0: 64 KiB (or the rest of the body, if that is less) */
  gint64 idle_timeout_ms;                          /* 0: 75 s between two requests */
  gint64 drain_timeout_ms;                         /* 0: 25 s for running requests after http_server_drain */
  gsize response_block_bytes;                      /* 0: 256 KiB: size of the buffer a source fills */
  const HttpRoute *routes;
  gsize n_routes;
  gpointer service; /* http_request_service */
  /* Called before each handler and before a body is read (authentication); FALSE with an error ends the
   * request. Not for /healthz, /readyz and /metrics. May be NULL. */
  gboolean (*authorize) (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
  /* Turns an error into headers and body; NULL: {"errors":[{"code","message"}]} as OCI has it. Headers
   * set before the error (WWW-Authenticate, Content-Range) are kept, a body is not. */
  void (*write_error) (HttpRequest *req, HttpResponse *res, const GError *error);
  gboolean hides_metrics; /* no /metrics here, unless it is among `routes` */
  /* For /readyz: FALSE with an error that says why. NULL: always ready until draining. */
  gboolean (*ready) (Ctx *ctx, gpointer service, GError **error);
} HttpServerConfig;

/* Starts listening; /healthz, /readyz and /metrics are served besides `routes`. The strings of
 * `config` are copied, tables and service are not. Every request's context is a child of `ctx`; it is
 * cancelled when the client goes away or is cut, and when draining took too long: a handler that heeds
 * it ends, one that does not holds http_server_free up.
 * UNAVAILABLE when the address cannot be bound, INVALID_ARGUMENT for a bad address or certificate. */
HttpServer *http_server_start (Ctx *ctx, const HttpServerConfig *config, GError **error);
guint16 http_server_port (HttpServer *self);
/* Stops accepting, /readyz says 503, lets running requests end (up to drain_timeout_ms), then cuts. */
void http_server_drain (HttpServer *self);
void http_server_free (HttpServer *self); /* drains with what time is left of nothing: cuts at once */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpServer, http_server_free)

/* Reasons of the errors that the server itself makes and that have a status of their own. */
#define HTTP_REASON_HEADER_TOO_LARGE "HEADER_TOO_LARGE" /* 431 */
#define HTTP_REASON_BODY_TOO_LARGE "BODY_TOO_LARGE"     /* 413 */
/* Status of an error: its code's, unless its reason says it better (above; InsufficientStorage is 507).
 * Set before write_error is called, together with Retry-After. */
guint http_error_status (const GError *error);

gpointer http_request_service (HttpRequest *req);
const char *http_request_method (HttpRequest *req);
const char *http_request_path (HttpRequest *req);                    /* percent-decoded, validated UTF-8, no NUL */
const char *http_request_param (HttpRequest *req, const char *name); /* of the pattern; NULL if none */
const char *http_request_query (HttpRequest *req, const char *name); /* decoded; NULL when absent */
/* Calls `func` for every query argument in order, duplicates too. */
void http_request_foreach_query (HttpRequest *req, void (*func) (const char *name, const char *value, gpointer data),
                                 gpointer data);
const char *http_request_header (HttpRequest *req, const char *name); /* case-insensitive */
/* Several header lines of one name joined with ", "; NULL when absent; owned by the request. */
const char *http_request_header_joined (HttpRequest *req, const char *name);
GBytes *http_request_body (HttpRequest *req); /* collected body; empty bytes when none */
/* Declared length of the body, or -1 when chunked or absent. */
gint64 http_request_content_length (HttpRequest *req);
gboolean http_request_has_body (HttpRequest *req);
const char *http_request_id (HttpRequest *req);   /* X-Request-Id taken over when sane, else made */
const char *http_request_peer (HttpRequest *req); /* "10.1.2.3" */
gboolean http_request_is_tls (HttpRequest *req);
/* Who it is, for the access log; set by authorize. Copied. */
void http_request_set_identity (HttpRequest *req, const char *identity);
const char *http_request_identity (HttpRequest *req);
/* Anything authorize wants to hand to the handler; freed with the request. */
void http_request_set_data (HttpRequest *req, gpointer data, GDestroyNotify free_func);
gpointer http_request_data (HttpRequest *req);
void http_request_set_sink (HttpRequest *req, const HttpBodySink *sink, gpointer self);
/* Cuts the connection from another thread: a blocked read or write ends. */
void http_request_abort (HttpRequest *req);

void http_response_status (HttpResponse *res, guint status);
void http_response_header (HttpResponse *res, const char *name, const char *value);
void http_response_headerf (HttpResponse *res, const char *name, const char *format, ...) G_GNUC_PRINTF (3, 4);
/* Sets the body; content_type may be NULL. For HEAD only its length is used. */
void http_response_bytes (HttpResponse *res, const char *content_type, GBytes *body);
void http_response_text (HttpResponse *res, const char *content_type, const char *body);
/* A streamed body of exactly `size_bytes` (Content-Length). `self` is freed by the source's free. */
void http_response_stream (HttpResponse *res, const char *content_type, guint64 size_bytes,
                           const HttpBodySource *source, gpointer self);
/* The same when the length is not known: chunked transfer. An error from read never ends it cleanly. */
void http_response_stream_chunked (HttpResponse *res, const char *content_type, const HttpBodySource *source,
                                   gpointer self);
