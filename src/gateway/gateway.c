#include "gateway/gateway_private.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "gateway/gateway_request.h"
#include "storage/object_parts.h"

#define ADDRESS "/v1/upload/{id}"
#define READY_TIMEOUT_MS 5000
#define PROGRESS_TIMEOUT_MS 60000 /* of a body: lines of users may be slow */
#define MAX_CONNECTIONS 1024      /* all of them may come from one Ingress */
#define MAX_TOKEN_BYTES 256
#define BEARER "Bearer "
#define MAX_UPLOADS 24 /* each holds a part of its file in memory */
#define CROWD_RETRY_MS (10 * 1000)
#define DRAIN_TIMEOUT_MS (50 * 1000)       /* a Pod is given a minute */
#define UNKNOWN_USAGE_RETRY_MS (60 * 1000) /* the books are confirmed once a minute */

static gboolean dispatch (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);

/* All but these answers 405. Which call it is comes last: session and token are looked at first. */
static const HttpRoute routes[] = {
  { "GET", ADDRESS, dispatch, 0, FALSE },
  { "GET", ADDRESS "/{action}", dispatch, 0, FALSE },
  { "PUT", ADDRESS, dispatch, 0, TRUE },
  { "PUT", ADDRESS "/{action}", dispatch, 0, TRUE },
  { "POST", ADDRESS, dispatch, GATEWAY_BODY_MAX_BYTES, FALSE },
  { "POST", ADDRESS "/{action}", dispatch, GATEWAY_BODY_MAX_BYTES, FALSE },
};

static const struct {
  const char *method, *action; /* NULL: the session itself */
  const char *name;            /* in metrics */
  gboolean (*run) (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
} calls[] = {
  { "GET", NULL, "info", gateway_info },       { "PUT", NULL, "put", gateway_put },
  { "POST", "probe", "probe", gateway_probe }, { "POST", "init", "init", gateway_init },
  { "POST", "parts", "parts", gateway_parts }, { "POST", "complete", "complete", gateway_complete },
  { "POST", "abort", "abort", gateway_abort },
};

/* What clients are told, by the reason of the error; the others become 500. */
static const struct {
  const char *reason;
  guint status;
  gint64 retry_after_ms; /* where the error does not say it */
} refusals[] = {
  { REFUSED_REQUEST, 400, 0 },
  { REFUSED_TOKEN, 401, 0 },
  { REFUSED_ADDRESS, 404, 0 },
  { REFUSED_PHASE, 409, 0 },
  { REFUSED_EXPIRED, 410, 0 },
  { REFUSED_LENGTH, 411, 0 },
  { HTTP_REASON_BODY_TOO_LARGE, 413, 0 },
  { "PartsUnsupported", 501, 0 },
  { REFUSED_CROWD, 503, CROWD_RETRY_MS },
  { "StorageUsageUnknown", 503, UNKNOWN_USAGE_RETRY_MS },
  { "InsufficientStorage", 507, 0 },
};

/* G_N_ELEMENTS (refusals) when it is none. */
static gsize
find_refusal (const GError *problem)
{
  gsize i = 0;
  while (i < G_N_ELEMENTS (refusals) && !am_error_has_reason (problem, refusals[i].reason))
    i++;
  return i;
}

gboolean
gateway_is_refusal (const GError *problem)
{
  return find_refusal (problem) < G_N_ELEMENTS (refusals);
}

/* The books' own words are for clients; those of a bucket or a disk that is full name places. */
static gboolean
is_for_clients (const GError *problem)
{
  return gateway_is_refusal (problem)
         && (!am_error_has_reason (problem, "InsufficientStorage")
             || g_str_has_prefix (problem->message, "artifact storage capacity exceeded"));
}

gboolean
gateway_tell (Ctx *ctx, GError *problem, GError **error)
{
  if (is_for_clients (problem))
    {
      gint64 retry_after_ms = refusals[find_refusal (problem)].retry_after_ms;
      if (retry_after_ms > 0 && am_error_retry_after_ms (problem) == 0)
        am_error_set_retry_after_ms (problem, retry_after_ms);
      g_propagate_error (error, problem);
      return FALSE;
    }
  am_log (ctx, am_error_is (problem, AM_ERROR_CANCELLED) ? AM_LOG_DEBUG : AM_LOG_WARNING, "upload call failed", "err",
          problem->message, NULL);
  gboolean is_full = gateway_is_refusal (problem);
  g_error_free (problem);
  if (is_full)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", "the storage is full");
  return am_fail (error, AM_ERROR_INTERNAL, NULL,
                  "the storage or the cluster does not answer as it should: try again later");
}

static void
set_headers (HttpResponse *res)
{
  http_response_header (res, "Cache-Control", "no-store");
  http_response_header (res, "Pragma", "no-cache");
  http_response_header (res, "Referrer-Policy", "no-referrer");
  http_response_header (res, "X-Content-Type-Options", "nosniff");
}

static void
write_error (HttpRequest *req, HttpResponse *res, const GError *error)
{
  guint status = gateway_is_refusal (error) ? refusals[find_refusal (error)].status : http_error_status (error);
  g_autofree char *valid = g_utf8_make_valid (error->message, -1), *text = g_strconcat (valid, "\n", NULL);
  if (http_request_data (req) == NULL) /* it was refused before a session was looked for */
    set_headers (res);
  if (status == 401)
    http_response_header (res, "WWW-Authenticate", "Bearer realm=\"ai-models upload\"");
  http_response_status (res, status);
  http_response_text (res, "text/plain; charset=utf-8", text);
}

static gboolean
check_token (const GatewayCall *call, HttpRequest *req, GError **error)
{
  const char *header = http_request_header (req, "Authorization");
  gboolean is_bearer = header != NULL && g_ascii_strncasecmp (header, BEARER, strlen (BEARER)) == 0;
  const char *token = is_bearer ? header + strlen (BEARER) : "";
  token += strspn (token, " ");
  if (strlen (token) <= MAX_TOKEN_BYTES && model_upload_admits (call->upload, token))
    return TRUE;
  return am_fail (error, AM_ERROR_UNAUTHENTICATED, REFUSED_TOKEN,
                  is_bearer
                    ? "the token is not this session's"
                    : "the header \"Authorization: Bearer TOKEN\" is missing, with the token of the upload's Secret");
}

/* The first call after a session's time is over ends it. */
static gboolean
check_expiry (Ctx *ctx, GatewayCall *call, GError **error)
{
  gint64 now_ms = gateway_now_ms ();
  gboolean is_over = upload_phase_is_open (call->upload->phase)
                     && model_upload_state (call->upload, now_ms) == MODEL_UPLOAD_OVER;
  if (is_over
      && !gateway_end (ctx, call->gateway, &call->upload, UPLOAD_EXPIRED, "the upload did not end in time", error))
    return FALSE;
  model_upload_settle (call->upload, now_ms);
  return call->upload->phase != UPLOAD_EXPIRED
         || gateway_check_phase (call->upload, UPLOAD_CALL_ABORT, now_ms, error);
}

/* 404 before 401 before 410, whatever is asked for; before a body is read. */
static gboolean
authorize (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  GatewayCall *call = g_new0 (GatewayCall, 1);
  GError *problem = NULL;
  call->gateway = http_request_service (req);
  http_request_set_data (req, call, (GDestroyNotify) gateway_call_free);
  set_headers (res);
  gboolean found = gateway_call_open (ctx, call, http_request_param (req, "id"), &problem);
  if (found)
    {
      ctx_set_field (ctx, "kind", call->owner.kind);
      if (call->owner.namespace != NULL)
        ctx_set_field (ctx, "namespace", call->owner.namespace);
      ctx_set_field (ctx, "name", call->owner.name);
    }
  if (found && check_token (call, req, &problem) && check_expiry (ctx, call, &problem))
    return TRUE;
  return gateway_tell (ctx, problem, error);
}

static gboolean
dispatch (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  GatewayCall *call = http_request_data (req);
  const char *action = http_request_param (req, "action");
  const char *method = strcmp (http_request_method (req), "HEAD") == 0 ? "GET" : http_request_method (req);
  for (gsize i = 0; i < G_N_ELEMENTS (calls); i++)
    if (strcmp (calls[i].method, method) == 0 && g_strcmp0 (calls[i].action, action) == 0)
      {
        GError *problem = NULL;
        metric_add (call->gateway->calls, 1, calls[i].name, NULL);
        return calls[i].run (ctx, call, req, res, &problem) || gateway_tell (ctx, problem, error);
      }
  return am_fail (error, AM_ERROR_NOT_FOUND, REFUSED_ADDRESS, "an upload session has no such call");
}

void
gateway_answer_staged (Ctx *ctx, Gateway *self, const ModelUpload *upload, HttpResponse *res)
{
  am_log_info (ctx, "upload staged", "bytes", AM_U64 (upload->staged_bytes), NULL);
  metric_add (self->staged, 1, NULL);
  http_response_status (res, 201);
  http_response_text (res, "text/plain; charset=utf-8", "upload staged\n");
}

/* Ready means: the staging store answers. */
static gboolean
is_ready (Ctx *ctx, gpointer service, GError **error)
{
  Gateway *self = service;
  g_autoptr (Ctx) hurried = ctx_new_child (ctx, READY_TIMEOUT_MS);
  g_autoptr (GPtrArray) page = object_store_list (hurried, self->staging, "", NULL, 1, error);
  return page != NULL;
}

static void
declare_metrics (Gateway *self)
{
  static const char *const labels[] = { "call", NULL };
  self->calls = metric_declare ("d8_ai_models_upload_calls_total", METRIC_COUNTER,
                                "Calls of upload sessions, with a good token.", labels);
  self->received = metric_declare ("d8_ai_models_upload_received_bytes_total", METRIC_COUNTER,
                                   "Bytes of uploaded files that came through the gateway.", NULL);
  self->active = metric_declare ("d8_ai_models_upload_active", METRIC_GAUGE,
                                 "Files that are coming through the gateway.", NULL);
  self->staged = metric_declare ("d8_ai_models_upload_staged_total", METRIC_COUNTER,
                                 "Files that were uploaded whole, through the gateway or in parts.", NULL);
  metric_set (self->active, 0, NULL);
}

Gateway *
gateway_start (Ctx *ctx, const GatewayConfig *config, GError **error)
{
  g_autoptr (Gateway) self = g_new0 (Gateway, 1);
  self->ctx = ctx_ref (ctx);
  self->namespace = g_strdup (config->namespace);
  self->limit_bytes = config->limit_bytes;
  self->max_uploads = (gint) MIN (config->max_uploads > 0 ? config->max_uploads : MAX_UPLOADS, MAX_CONNECTIONS);
  self->kube = config->kube;
  self->staging = config->staging;
  self->ledger = config->accounting != NULL
                   ? ledger_store_new (config->kube, config->namespace, config->accounting, FALSE)
                   : NULL;
  declare_metrics (self);
  HttpServerConfig server = {
    .listen_address = config->listen_address,
    .max_connections = MAX_CONNECTIONS,
    .max_connections_per_peer = MAX_CONNECTIONS,
    .progress_timeout_ms = PROGRESS_TIMEOUT_MS,
    .drain_timeout_ms = DRAIN_TIMEOUT_MS,
    .routes = routes,
    .n_routes = G_N_ELEMENTS (routes),
    .service = self,
    .authorize = authorize,
    .write_error = write_error,
    .ready = is_ready,
  };
  self->server = http_server_start (ctx, &server, error);
  return self->server != NULL ? g_steal_pointer (&self) : NULL;
}

guint16
gateway_port (Gateway *self)
{
  return http_server_port (self->server);
}

void
gateway_drain (Gateway *self)
{
  http_server_drain (self->server);
}

void
gateway_free (Gateway *self)
{
  if (self == NULL)
    return;
  http_server_free (self->server);
  ledger_store_free (self->ledger);
  g_free (self->namespace);
  ctx_unref (self->ctx);
  g_free (self);
}
