/* One request from its first line to its last byte, as libmicrohttpd calls for it: once when the request
 * line is there, once after the head, once for each piece of the body, once after the body. An answer
 * given after the head makes libmicrohttpd close the connection (it will not read the body), one given
 * after the body keeps it; in between it takes none, so that one is written past it. */
#include "net/http_server_private.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"

#define LINGER_MS 1000

static const struct {
  const char *reason;
  guint status;
} reason_statuses[] = {
  { HTTP_REASON_HEADER_TOO_LARGE, 431 },
  { HTTP_REASON_BODY_TOO_LARGE, 413 },
  { "InsufficientStorage", 507 },
};

guint
http_error_status (const GError *error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (reason_statuses); i++)
    if (am_error_has_reason (error, reason_statuses[i].reason))
      return reason_statuses[i].status;
  return am_error_info_of (error)->http_status;
}

/* distribution-spec 1.1, "Error Codes" */
static void
write_oci_error (HttpRequest *req, HttpResponse *res, const GError *error)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *errors = yyjson_mut_obj_add_arr (doc, root, "errors");
  yyjson_mut_val *row = yyjson_mut_arr_add_obj (doc, errors);
  const char *reason = am_error_reason (error);
  g_autofree char *message = g_utf8_make_valid (error->message, -1);
  yyjson_mut_obj_add_str (doc, row, "code", reason != NULL ? reason : am_error_info_of (error)->name);
  yyjson_mut_obj_add_str (doc, row, "message", message);
  g_autofree char *text = json_write (doc, NULL);
  http_response_text (res, "application/json", text);
}

/* Makes the response out of `error`, which it takes over. Headers set so far stay. */
static void
fail_request (HttpRequest *req, GError *error)
{
  HttpResponse *res = &req->response;
  if (error == NULL) /* a handler's mistake, not worth the process */
    am_fail (&error, AM_ERROR_INTERNAL, NULL, "failed without a reason");
  g_clear_error (&req->failure);
  req->failure = error;
  http_response_drop_body (res);
  g_clear_pointer (&res->content_type, g_free);
  http_response_status (res, http_error_status (error));
  gint64 retry_after_ms = am_error_retry_after_ms (error);
  if (retry_after_ms > 0)
    http_response_headerf (res, "Retry-After", "%" G_GINT64_FORMAT, (retry_after_ms + 999) / 1000);
  if (req->server->config.write_error != NULL)
    req->server->config.write_error (req, res, error);
  else
    write_oci_error (req, res, error);
}

static void
read_path (HttpRequest *req)
{
  if (req->target.path == NULL) /* for the log, when it cannot be parsed */
    req->target.path = g_strndup (req->raw_target, MIN (strcspn (req->raw_target, "?"), 1024));
}

void *
http_exchange_begin (HttpServer *server, const char *raw_target, struct MHD_Connection *mhd)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  HttpRequest *req = http_request_new (server, info->socket_context, mhd, raw_target);
  atomic_fetch_add (&server->n_requests, 1);
  http_connection_set_ctx (req->connection, req->ctx);
  return req;
}

/* GET rows serve HEAD too. */
static gboolean
method_fits (const char *of_row, const char *method)
{
  return strcmp (of_row, method) == 0 || (strcmp (of_row, "GET") == 0 && strcmp (method, "HEAD") == 0);
}

static gboolean
find_row (HttpRequest *req, GError **error)
{
  g_autoptr (GString) allowed = g_string_new (NULL);
  for (guint i = 0; i < req->server->rows->len; i++)
    {
      const HttpRow *row = g_ptr_array_index (req->server->rows, i);
      GPtrArray *params = http_pattern_match (row->pattern, &req->target);
      if (params == NULL)
        continue;
      if (method_fits (row->route.method, req->method))
        {
          req->row = row;
          req->params = params;
          return TRUE;
        }
      g_ptr_array_unref (params);
      if (strstr (allowed->str, row->route.method) == NULL)
        g_string_append_printf (allowed, "%s%s%s", allowed->len > 0 ? ", " : "", row->route.method,
                                strcmp (row->route.method, "GET") == 0 ? ", HEAD" : "");
    }
  if (allowed->len == 0)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "there is nothing at this path");
  http_response_header (&req->response, "Allow", allowed->str);
  return am_fail (error, AM_ERROR_UNIMPLEMENTED, NULL, "this path does not take %s", req->method);
}

static gboolean
authorize (HttpRequest *req, GError **error)
{
  const HttpServerConfig *config = &req->server->config;
  if (req->authorized || req->row->builtin || config->authorize == NULL)
    return TRUE;
  req->authorized = config->authorize (req->ctx, req, &req->response, error);
  return req->authorized;
}

static gsize
body_limit (HttpRequest *req)
{
  return req->row->route.streams_body ? G_MAXSIZE : req->row->route.body_limit_bytes;
}

static gboolean
body_too_large (GError **error, gsize limit)
{
  if (limit == 0)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, HTTP_REASON_BODY_TOO_LARGE, "no body is expected here");
  return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, HTTP_REASON_BODY_TOO_LARGE,
                  "the body is larger than %" G_GSIZE_FORMAT " bytes", limit);
}

/* Everything that can be said before the body is read. */
static gboolean
prepare (HttpRequest *req, GError **error)
{
  if (!http_target_parse (req->raw_target, &req->target, error) || !find_row (req, error))
    return FALSE;
  if (!req->has_body)
    return TRUE;
  if (!authorize (req, error))
    return FALSE;
  if (req->content_length >= 0 && (guint64) req->content_length > body_limit (req))
    return body_too_large (error, body_limit (req));
  if (!req->row->route.streams_body)
    return TRUE;
  http_connection_enter (req->connection, HTTP_CONNECTION_HANDLING);
  return req->row->route.handler (req->ctx, req, &req->response, error);
}

static enum MHD_Result
answer (HttpRequest *req)
{
  http_request_drop_sink (req);
  req->phase = HTTP_PHASE_ANSWERED;
  return http_response_queue (req) ? MHD_YES : MHD_NO;
}

static enum MHD_Result
after_head (HttpRequest *req)
{
  GError *error = NULL;
  req->phase = HTTP_PHASE_READING;
  gboolean framed = http_request_read_head (req, &error);
  gboolean prepared = framed && prepare (req, &error);
  read_path (req);
  if (!prepared)
    fail_request (req, error);
  if (!framed || (req->has_body && !(prepared && (req->has_sink || !req->row->route.streams_body))))
    {
      req->answered_early = TRUE;
      return answer (req);
    }
  http_connection_enter (req->connection, req->has_body ? HTTP_CONNECTION_BODY : HTTP_CONNECTION_HANDLING);
  return MHD_YES;
}

static gboolean
collect (HttpRequest *req, const char *data, gsize size, GError **error)
{
  if (req->collected == NULL)
    req->collected = g_byte_array_sized_new ((guint) MIN (MAX (req->content_length, 0), 1024 * 1024));
  gsize limit = body_limit (req);
  if (size > limit || req->collected->len > MIN (limit, G_MAXUINT - size) - size)
    return body_too_large (error, limit);
  g_byte_array_append (req->collected, (const guint8 *) data, (guint) size);
  return TRUE;
}

static enum MHD_Result
during_body (HttpRequest *req, const char *data, gsize size)
{
  GError *error = NULL;
  req->bytes_in += size;
  http_connection_work_begin (req->connection);
  gboolean taken = req->has_sink ? req->sink.write (req->ctx, req->sink_data, data, size, &error)
                                 : collect (req, data, size, &error);
  http_connection_work_end (req->connection, size);
  if (taken)
    return MHD_YES;
  http_request_drop_sink (req);
  fail_request (req, error);
  req->phase = HTTP_PHASE_ANSWERED;
  req->answered_early = TRUE;
  http_response_send_raw (req);
  return MHD_NO; /* closes */
}

static gboolean
run_handler (HttpRequest *req, GError **error)
{
  if (!req->has_sink)
    {
      if (!authorize (req, error) || !req->row->route.handler (req->ctx, req, &req->response, error))
        return FALSE;
    }
  return !req->has_sink || req->sink.finish (req->ctx, req->sink_data, req, &req->response, error);
}

static enum MHD_Result
after_body (HttpRequest *req)
{
  GError *error = NULL;
  http_connection_enter (req->connection, HTTP_CONNECTION_HANDLING);
  if (req->failure == NULL && !run_handler (req, &error))
    fail_request (req, error);
  return answer (req);
}

enum MHD_Result
http_exchange_continue (HttpRequest *req, const char *method, const char *version, const char *data, size_t *size)
{
  gsize piece = *size;
  *size = 0;
  switch (req->phase)
    {
    case HTTP_PHASE_HEAD:
      req->method = method;
      req->version = version;
      return after_head (req);
    case HTTP_PHASE_READING: return piece > 0 ? during_body (req, data, piece) : after_body (req);
    case HTTP_PHASE_ANSWERED: break;
    }
  return MHD_YES;
}

/* Closing with unread bytes resets the connection, and the reset may overtake our answer at the client
 * (RFC 9112 9.6): stop sending, then read for a moment until the client has seen it and closes. */
static void
linger (HttpRequest *req)
{
  int fd = http_connection_fd (req->connection);
  char scrap[16 * 1024];
  gint64 end_us = g_get_monotonic_time () + LINGER_MS * 1000;
  http_connection_enter (req->connection, HTTP_CONNECTION_HANDLING);
  if (req->server->tls != NULL)
    {
      const union MHD_ConnectionInfo *info = MHD_get_connection_info (req->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
      gnutls_bye (info->tls_session, GNUTLS_SHUT_WR);
    }
  shutdown (fd, SHUT_WR);
  for (gint64 left_us = LINGER_MS * 1000; left_us > 0; left_us = end_us - g_get_monotonic_time ())
    {
      struct pollfd readable = { .fd = fd, .events = POLLIN };
      if (poll (&readable, 1, (int) (left_us / 1000) + 1) <= 0 || recv (fd, scrap, sizeof scrap, MSG_DONTWAIT) <= 0
          || atomic_load (&req->server->draining))
        return;
    }
}

/* What was sent, or 499 when the client went away (or was cut) before an answer. */
static guint
final_status (HttpRequest *req)
{
  if (req->phase == HTTP_PHASE_ANSWERED)
    return req->response.status;
  /* libmicrohttpd answers malformed requests by itself. */
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (req->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
  return info != NULL ? info->http_status : 499;
}

static const char *
known_method (const char *method)
{
  static const char *const known[] = { "GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS" };
  for (gsize i = 0; method != NULL && i < G_N_ELEMENTS (known); i++)
    if (strcmp (method, known[i]) == 0)
      return known[i];
  return "other"; /* foreign words make no series */
}

static void
record (HttpRequest *req, guint status, const char *ending)
{
  HttpServer *server = req->server;
  const char *method = known_method (req->method);
  char code[8];
  double seconds = (double) (g_get_monotonic_time () - req->start_us) / G_TIME_SPAN_SECOND;
  g_snprintf (code, sizeof code, "%u", status);
  metric_add (server->requests, 1, method, code, NULL);
  metric_observe (server->durations, seconds, method, NULL);
  metric_add (server->bytes_in, (double) req->bytes_in, NULL);
  metric_add (server->bytes_out, (double) req->bytes_out, NULL);
  AmLogLevel level = req->row != NULL && req->row->builtin ? AM_LOG_DEBUG : AM_LOG_INFO;
  am_log (req->ctx, level, "request", "method", req->method != NULL ? req->method : "-", "path", req->target.path,
          "status", code, "bytes_in", AM_U64 (req->bytes_in), "bytes_out", AM_U64 (req->bytes_out), "duration_ms",
          AM_U64 ((guint64) (seconds * 1000)), "peer", http_request_peer (req), "identity", req->identity, "ending",
          ending, "err", req->failure != NULL ? req->failure->message : NULL, NULL);
}

void
http_exchange_end (HttpRequest *req, enum MHD_RequestTerminationCode how)
{
  static const char *const endings[] = {
    [MHD_REQUEST_TERMINATED_COMPLETED_OK] = NULL,         [MHD_REQUEST_TERMINATED_WITH_ERROR] = "broken",
    [MHD_REQUEST_TERMINATED_TIMEOUT_REACHED] = "timeout", [MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN] = "shutdown",
    [MHD_REQUEST_TERMINATED_READ_ERROR] = "read error",   [MHD_REQUEST_TERMINATED_CLIENT_ABORT] = "client gone",
  };
  HttpServer *server = req->server;
  guint status = final_status (req);
  gboolean cut = http_connection_was_cut (req->connection);
  gboolean refused = req->answered_early || (req->phase != HTTP_PHASE_ANSWERED && status != 499);
  if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
    ctx_cancel (req->ctx);
  http_request_drop_sink (req);
  http_response_drop_body (&req->response);
  read_path (req);
  record (req, status, cut ? "cut" : refused ? NULL : endings[how]);
  if (refused && !cut)
    linger (req);
  http_connection_enter (req->connection, HTTP_CONNECTION_IDLE);
  http_connection_set_ctx (req->connection, NULL);
  http_request_free (req);
  atomic_fetch_sub (&server->n_requests, 1);
}
