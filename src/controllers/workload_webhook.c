#include "controllers/workload_webhook.h"

#include "base/log.h"
#include "controllers/admission_review.h"
#include "controllers/workload_admission.h"
#include "net/http_server.h"
#include "net/metrics.h"

#define REVIEW_MS (2 * 1000)    /* so long the API server waits; an answer takes none of it but for the bytes' way */
#define IDLE_MS (5 * 60 * 1000) /* the API server closes after 90 s, first: nobody writes to a closed connection */
#define MAX_PENDING_BYTES (64u << 20) /* of reviews at a time: nobody vouches for who sends them */

struct WorkloadWebhook {
  const DeliveryCaches *caches;
  Metric *outcomes, *durations;
  gssize n_pending_bytes; /* atomic */
  HttpServer *server;
};

/* Room that a review has taken. */
typedef struct {
  WorkloadWebhook *webhook;
  gssize n_bytes;
} Room;

static void
room_free (gpointer data)
{
  Room *self = data;
  g_atomic_pointer_add (&self->webhook->n_pending_bytes, -self->n_bytes);
  g_free (self);
}

/* Before the body is read. */
static gboolean
make_room (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  WorkloadWebhook *self = http_request_service (req);
  gint64 size = http_request_content_length (req);
  if (size < 0 || size > ADMISSION_REVIEW_MAX_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, HTTP_REASON_BODY_TOO_LARGE,
                    "a review says how long it is: at most %u bytes", ADMISSION_REVIEW_MAX_BYTES);
  gssize pending = (gssize) g_atomic_pointer_add (&self->n_pending_bytes, (gssize) size);
  Room *room = g_new (Room, 1);
  *room = (Room){ self, (gssize) size };
  http_request_set_data (req, room, room_free);
  return pending + (gssize) size <= (gssize) MAX_PENDING_BYTES
         || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "too many reviews at a time");
}

static const char *
outcome_name (Admission admission)
{
  static const char *const names[] = {
    [ADMISSION_ALLOW] = "allowed",       [ADMISSION_DENY] = "denied",          [ADMISSION_DELIVER] = "delivered",
    [ADMISSION_KEEP_SUBMITTED] = "kept", [ADMISSION_KEEP_STORED] = "restored", [ADMISSION_HOLD] = "held",
  };
  return names[admission];
}

static void
take_note (Ctx *ctx, WorkloadWebhook *self, const AdmissionRequest *request, const AdmissionOutcome *outcome,
           gint64 began_us)
{
  const char *name = outcome_name (outcome->admission);
  metric_add (self->outcomes, 1, name, NULL);
  metric_observe (self->durations, (double) (g_get_monotonic_time () - began_us) / G_USEC_PER_SEC, NULL);
  am_log_debug (ctx, "admission", "kind", request->kind, "namespace", request->namespace, "name", request->name,
                "outcome", name, "dry_run", request->is_dry_run ? "yes" : "no", NULL);
}

static gboolean
post_review (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  WorkloadWebhook *self = http_request_service (req);
  gint64 began_us = g_get_monotonic_time ();
  gsize size;
  gconstpointer text = g_bytes_get_data (http_request_body (req), &size);
  g_auto (AdmissionRequest) request = { 0 };
  g_auto (AdmissionOutcome) outcome = { 0 };
  if (!admission_request_parse (text, size, &request, error))
    {
      metric_add (self->outcomes, 1, "failed", NULL);
      return FALSE;
    }
  workload_admit (self->caches, &request, &outcome);
  gboolean is_denied = outcome.admission == ADMISSION_DENY;
  g_autofree char *answer = is_denied ? admission_deny (&request, outcome.message)
                                      : admission_allow (&request, outcome.patch);
  http_response_text (res, "application/json", answer);
  take_note (ctx, self, &request, &outcome, began_us);
  return TRUE;
}

WorkloadWebhook *
workload_webhook_start (Ctx *ctx, const DeliveryCaches *caches, const WebhookConfig *config, GError **error)
{
  static const HttpRoute routes[] = { { "POST", WORKLOAD_WEBHOOK_PATH, post_review, ADMISSION_REVIEW_MAX_BYTES } };
  static const char *const labels[] = { "outcome", NULL };
  g_autoptr (WorkloadWebhook) self = g_new0 (WorkloadWebhook, 1);
  HttpServerConfig server = {
    .listen_address = config->listen_address,
    .tls_certificate_file = config->tls_certificate_file,
    .tls_key_file = config->tls_key_file,
    .header_timeout_ms = IDLE_MS, /* it opens some in vain, too */
    .progress_timeout_ms = REVIEW_MS,
    .idle_timeout_ms = IDLE_MS,
    .routes = routes,
    .n_routes = G_N_ELEMENTS (routes),
    .hides_metrics = TRUE,
    .service = self,
    .authorize = make_room,
  };
  self->caches = caches;
  self->outcomes = metric_declare ("d8_ai_models_workload_delivery_admissions_total", METRIC_COUNTER,
                                   "Reviews of workloads, by what came of them.", labels);
  self->durations = metric_declare ("d8_ai_models_workload_delivery_admission_duration_seconds", METRIC_HISTOGRAM,
                                    "Time from a review to its answer.", NULL);
  self->server = http_server_start (ctx, &server, error);
  return self->server != NULL ? g_steal_pointer (&self) : NULL;
}

void
workload_webhook_free (WorkloadWebhook *self)
{
  if (self == NULL)
    return;
  if (self->server != NULL)
    http_server_drain (self->server);
  http_server_free (self->server);
  g_free (self);
}
