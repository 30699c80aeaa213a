/* HTTP client over libcurl: blocking, streaming both ways, retries what may be retried, cancellable.
 * A client is thread-safe: each call borrows a handle (and its kept-alive connection) from a pool. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

typedef struct HttpClient HttpClient;

typedef struct {
  const char *user_agent; /* NULL: "ai-models/<version>" */
  const char *ca_file;    /* NULL: the system's */
  const char *ca_pem;     /* in place of ca_file: its text */
  const char *client_pem; /* certificate (chain) and private key, as text, for a server that asks for one; or NULL */
  gboolean insecure_skip_verify;
  gboolean multiplexed; /* calls at the same time share a connection (HTTP/2): for many small ones. Sinks and uploads
                           then run on a thread of the client's and must not block. */
  const char *proxy;    /* NULL: from the environment as curl reads it; "" none */
  gint64 connect_timeout_ms;     /* 0: 10 s */
  gint64 no_progress_timeout_ms; /* 0: 30 s without a byte in either direction */
  guint max_attempts;            /* 0: 5 */
  gint64 retry_base_ms;          /* 0: 250; doubled with full jitter up to 10 s; Retry-After wins up to 5 min */
  guint max_redirects;           /* 0: 5 */
  gsize buffer_bytes;            /* each way, for each call at a time; 0: 256 KiB, which is fastest for bulk */
} HttpClientConfig;

HttpClient *http_client_new (const HttpClientConfig *config, GError **error);
void http_client_free (HttpClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpClient, http_client_free)

/* Credentials belong to (scheme, host, port): sent only there, never after a redirect elsewhere. The same
 * goes for Authorization and Cookie lines among a call's headers, which win over these.
 * `authorization` is the whole header value ("Basic ..." or "Bearer ..."); NULL removes it. */
void http_client_set_credentials (HttpClient *self, const char *origin_url, const char *authorization);

/* Upload body, pull style: fills up to `size`, returns the count, 0 at the end, -1 with an error. Never
 * asked beyond a declared upload_size; an end before it is DATA_LOSS.
 * `rewind` starts it over for a retry; NULL means the call is not retried once bytes were taken. */
typedef struct {
  gssize (*read) (Ctx *ctx, gpointer self, guint8 *buffer, gsize size, GError **error);
  gboolean (*rewind) (gpointer self, GError **error);
} HttpUpload;

/* Download sink: called only for the final answer's body when its status is 2xx (others are collected
 * into the error, capped). `start` (may be NULL) sees status and headers first and may refuse. On a
 * retry after bytes were delivered, `restart` is called first; NULL means: not retried then. */
typedef struct {
  gboolean (*start) (Ctx *ctx, gpointer self, guint status, GHashTable *headers, GError **error);
  gboolean (*write) (Ctx *ctx, gpointer self, gconstpointer data, gsize size, GError **error);
  gboolean (*restart) (gpointer self, GError **error);
} HttpDownload;

typedef struct {
  const char *method;         /* "GET" ... */
  const char *url;            /* http or https */
  const char *const *headers; /* "Name: value" strings, NULL-terminated; may be NULL */
  GBytes *body;               /* or NULL */
  const HttpUpload *upload;   /* or NULL */
  gpointer upload_data;
  gint64 upload_size;           /* -1: chunked */
  const HttpDownload *download; /* NULL: the body is collected up to reply_limit_bytes */
  gpointer download_data;
  gsize reply_limit_bytes; /* 0: 8 MiB; more gives RESOURCE_EXHAUSTED */
  gboolean idempotent;     /* may be sent again after a failure whose effect is unknown;
                                   GET, HEAD, PUT and DELETE are by nature */
  gboolean no_redirects;   /* a redirect is then an answer, not an error */
  const char *
    connect_to; /* "10.0.0.1:5000", "[fd00::1]:5000": the machine to speak with, in place of what the URL's host and port
                             lead to; all else, TLS too, is as the URL says. Not after a redirect elsewhere. Or NULL */
  const guint *accept_statuses; /* 0-terminated: statuses other than 2xx that are answers, not errors;
                                   a redirect among them is not followed */
} HttpCall;

typedef struct {
  guint status;
  GHashTable *headers; /* lower-case name -> value (repeated lines joined with ", ") */
  GBytes *body;        /* collected; NULL with a download sink */
  char *url;           /* after redirects */
  char *scheme_host;   /* "https://host:port" that answered */
} HttpReply;

void http_reply_clear (HttpReply *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (HttpReply, http_reply_clear)
const char *http_reply_header (const HttpReply *self, const char *lower_case_name);

/* "https://host:port", lower-case, port always there; NULL when it is no http or https URL. Caller frees. */
char *http_origin (const char *url);
/* `url` with "name=value" added to its query. `value` must need no escaping. Caller frees. */
char *http_url_with (const char *url, const char *name, const char *value);
/* A copy of what a server says without the queries of addresses in it: they may be signatures or tokens. Caller frees. */
char *http_hide_queries (const char *text);
/* 301, 302, 303, 307 or 308. */
gboolean http_status_is_redirect (guint status);

/* Performs the call; blocks up to the context's deadline. TRUE when the status is 2xx or accepted.
 * A status that is neither becomes an error by this table: 400 INVALID_ARGUMENT, 401 UNAUTHENTICATED,
 * 403 PERMISSION_DENIED, 404 and 410 NOT_FOUND, 405 UNIMPLEMENTED, 409 ABORTED, 412 FAILED_PRECONDITION,
 * 413 and 429 RESOURCE_EXHAUSTED (429 and 408, 5xx but 501 are retried), 416 OUT_OF_RANGE, 5xx
 * UNAVAILABLE, 501 UNIMPLEMENTED; the reason is the first OCI error code of the body if it has one, the
 * message names method, URL without query and user info, and status. `out_reply` is also filled (status,
 * headers, body up to 64 KiB) when the error came from a status. Network trouble is UNAVAILABLE (reason
 * HostUnreachable when no connection could be made, TlsFailed when TLS did not come about on it, NoAnswer when it ended
 * before an answer began: either may be a wrong scheme); a certificate that is not trusted (reason
 * CertificateNotTrusted), a server that speaks TLS where http was asked for (TlsExpected), a redirect from https to http
 * and too many redirects are FAILED_PRECONDITION; a proxy that wants a login is UNAUTHENTICATED (ProxyLogin), one that
 * refuses PERMISSION_DENIED (ProxyRefused); CANCELLED and DEADLINE_EXCEEDED come within 0.1 s. */
gboolean http_client_call (Ctx *ctx, HttpClient *self, const HttpCall *call, HttpReply *out_reply, GError **error);
