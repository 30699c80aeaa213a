/* The server's open connections: limits, what each is doing and since when, and the watchdog that cuts
 * those that make no progress (slowloris, stalled readers and writers). Private to net/. A connection
 * is driven by its own thread; the watchdog and http_connection_cut come from others. */
#pragma once

#include "base/ctx.h"

typedef enum {
  HTTP_CONNECTION_HEAD,     /* TLS handshake and request head; limited as a whole */
  HTTP_CONNECTION_BODY,     /* a request body arrives; must advance */
  HTTP_CONNECTION_HANDLING, /* a handler runs; not the client's time */
  HTTP_CONNECTION_RESPONSE, /* a response leaves; must advance */
  HTTP_CONNECTION_IDLE,     /* between two requests */
} HttpConnectionState;

/* So many that were cut for new ones may be about to end, beside max_connections. */
#define HTTP_ENDING_CONNECTIONS 64

typedef struct {
  guint max_connections, max_per_peer;
  gint64 header_timeout_us, progress_timeout_us, idle_timeout_us;
  guint64 progress_bytes;
} HttpConnectionLimits;

typedef struct HttpConnection HttpConnection;
typedef struct HttpConnections HttpConnections;

/* Starts the watchdog thread; `each_second` (may be NULL) is called on it. */
HttpConnections *http_connections_new (const HttpConnectionLimits *limits, void (*each_second) (gpointer data),
                                       gpointer data);
/* Every connection must have been removed. */
void http_connections_free (HttpConnections *self);

/* At a limit, the connection that has waited for a request longest, and longer than a second, is cut for the new one;
 * FALSE (and counted as refused) when there is none. Admission and adding happen on one thread. */
gboolean http_connections_admit (HttpConnections *self, const char *peer);
/* `fd` must stay open until http_connection_remove, which frees the connection. */
HttpConnection *http_connections_add (HttpConnections *self, int fd, const char *peer);
void http_connection_remove (HttpConnection *self);
const char *http_connection_peer (HttpConnection *self);
gpointer http_connection_owner (HttpConnection *self); /* `data` of http_connections_new */
int http_connection_fd (HttpConnection *self);

/* The connection's thread says what it does now; the clocks start over. */
void http_connection_enter (HttpConnection *self, HttpConnectionState state);
/* Work of ours inside BODY or RESPONSE, between the two calls, is not held against the peer;
 * `moved_bytes` is what it took from or gave to the peer. */
void http_connection_work_begin (HttpConnection *self);
void http_connection_work_end (HttpConnection *self, gsize moved_bytes);
/* The context to cancel when the connection is cut or its peer vanishes; NULL to forget it. */
void http_connection_set_ctx (HttpConnection *self, Ctx *ctx);

/* Shuts the socket down both ways and cancels its context: the connection's thread ends soon. */
void http_connection_cut (HttpConnection *self);
gboolean http_connection_was_cut (HttpConnection *self);
/* Cuts connections on which no request is under way. */
void http_connections_cut_idle (HttpConnections *self);
void http_connections_cut_all (HttpConnections *self);
