#include "controllers/workload_webhook.h"

#include "base/log.h"
#include "controllers/admission_review.h"
#include "controllers/workload_admission.h"
#include "net/http_server.h"
#include "net/metrics.h"

#define REVIEW_MS (2 * 1000)     /* so long the API server waits */
#define IDLE_MS (5 * 60 * 1000)  /* the API server closes after 90 s, first: nobody writes to a closed connection */
#define MAX_AT_ONCE 2            /* parsed and decided upon: each takes many times its text */
#define LARGE_BYTES (128u << 10) /* of which one place of these is kept free */
#define PLACE_WAIT_MS (REVIEW_MS * 3 / 4)
#define LOOK_EVERY_US (50 * G_TIME_SPAN_MILLISECOND) /* whether somebody still waits for the answer */
#define MAX_PENDING_BYTES (64u << 20)                /* of reviews at a time: nobody vouches for who sends them */

struct WorkloadWebhook {
  const DeliveryCaches *caches;
  Metric *outcomes, *durations;
  gssize n_pending_bytes; /* atomic */
  GMutex lock;            /* the next two */
  guint n_running, n_running_large;
  GCond changed;
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

static gboolean
has_place_locked (const WorkloadWebhook *self, gboolean is_large)
{
  return self->n_running < MAX_AT_ONCE && (!is_large || self->n_running_large == 0);
}

/* Waits for one of the places. CANCELLED, or UNAVAILABLE while there is still time to say so. */
static gboolean
take_place (Ctx *ctx, WorkloadWebhook *self, gboolean is_large, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gint64 now_us = g_get_monotonic_time (), end_us = now_us + PLACE_WAIT_MS * 1000;
  for (; !has_place_locked (self, is_large); now_us = g_get_monotonic_time ())
    {
      if (!ctx_check (ctx, error))
        return FALSE;
      if (now_us >= end_us)
        return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "too many reviews at a time");
      g_cond_wait_until (&self->changed, &self->lock, MIN (end_us, now_us + LOOK_EVERY_US));
    }
  self->n_running++;
  self->n_running_large += is_large ? 1 : 0;
  return TRUE;
}

static void
leave_place (WorkloadWebhook *self, gboolean is_large)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->n_running--;
  self->n_running_large -= is_large ? 1 : 0;
  g_cond_broadcast (&self->changed); /* large ones do not take every place */
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
review (Ctx *ctx, WorkloadWebhook *self, GBytes *body, HttpResponse *res, GError **error)
{
  gint64 began_us = g_get_monotonic_time ();
  gsize size;
  gconstpointer text = g_bytes_get_data (body, &size);
  g_auto (AdmissionRequest) request = { 0 };
  g_auto (AdmissionOutcome) outcome = { 0 };
  if (!admission_request_parse (text, size, &request, error))
    return FALSE;
  workload_admit (self->caches, &request, &outcome);
  gboolean is_denied = outcome.admission == ADMISSION_DENY;
  g_autofree char *answer = is_denied ? admission_deny (&request, outcome.message)
                                      : admission_allow (&request, outcome.patch);
  http_response_text (res, "application/json", answer);
  take_note (ctx, self, &request, &outcome, began_us);
  return TRUE;
}

static gboolean
post_review (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  WorkloadWebhook *self = http_request_service (req);
  GBytes *body = http_request_body (req);
  gboolean is_large = g_bytes_get_size (body) > LARGE_BYTES;
  gboolean has_place = take_place (ctx, self, is_large, error);
  gboolean is_answered = has_place && review (ctx, self, body, res, error);
  if (has_place)
    leave_place (self, is_large);
  if (!is_answered)
    metric_add (self->outcomes, 1, "failed", NULL);
  return is_answered;
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
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
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
  g_cond_clear (&self->changed);
  g_mutex_clear (&self->lock);
  g_free (self);
}
