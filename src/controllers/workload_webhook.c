#include "controllers/workload_webhook.h"

#include "base/log.h"
#include "controllers/admission_review.h"
#include "controllers/review_room.h"
#include "controllers/workload_admission.h"
#include "net/http_server.h"
#include "net/metrics.h"

#define REVIEW_MS (2 * 1000)    /* so long the API server waits */
#define IDLE_MS (5 * 60 * 1000) /* the API server closes after 90 s, first: nobody writes to a closed connection */
#define MAX_AT_ONCE 2           /* parsed and decided upon: each takes many times its text */
/* A review up to this is taken in whatever else there is (the number of connections bounds these), and of a larger one what
 * goes beyond it counts, as it arrives. One place is kept free of the larger ones. */
#define SMALL_BYTES (128u << 10)
#define PLACE_WAIT_MS (REVIEW_MS * 3 / 4)
#define LOOK_EVERY_US (50 * G_TIME_SPAN_MILLISECOND) /* whether somebody still waits for the answer */
#define MAX_PENDING_BYTES (64u << 20)
#define MAX_PENDING_BYTES_PER_PEER (MAX_PENDING_BYTES / 4)

struct WorkloadWebhook {
  const DeliveryCaches *caches;
  Metric *outcomes, *durations;
  ReviewRoom *room;
  GMutex lock; /* the next two */
  guint n_running, n_running_large;
  GCond changed;
  HttpServer *server;
};

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
review (Ctx *ctx, WorkloadWebhook *self, const GByteArray *text, HttpResponse *res, GError **error)
{
  gint64 began_us = g_get_monotonic_time ();
  g_auto (AdmissionRequest) request = { 0 };
  g_auto (AdmissionOutcome) outcome = { 0 };
  if (!admission_request_parse (text->data, text->len, &request, error))
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
answer_review (Ctx *ctx, WorkloadWebhook *self, const GByteArray *text, HttpResponse *res, GError **error)
{
  gboolean is_large = text->len > SMALL_BYTES;
  gboolean has_place = take_place (ctx, self, is_large, error);
  gboolean is_answered = has_place && review (ctx, self, text, res, error);
  if (has_place)
    leave_place (self, is_large);
  if (!is_answered)
    metric_add (self->outcomes, 1, "failed", NULL);
  return is_answered;
}

/* A review on its way in. */
typedef struct {
  WorkloadWebhook *webhook;
  char *peer;
  GByteArray *text;
  gsize n_room_bytes; /* taken */
} Incoming;

static Incoming *
incoming_new (WorkloadWebhook *webhook, const char *peer)
{
  Incoming *self = g_new (Incoming, 1);
  *self = (Incoming){ webhook, g_strdup (peer), g_byte_array_new (), 0 };
  return self;
}

/* Before the answer is sent: who lingers holds nothing. */
static void
incoming_free (gpointer data)
{
  Incoming *self = data;
  review_room_give_back (self->webhook->room, self->peer, self->n_room_bytes);
  g_byte_array_unref (self->text);
  g_free (self->peer);
  g_free (self);
}

/* No more comes than was declared, which is at most ADMISSION_REVIEW_MAX_BYTES. */
static gboolean
incoming_write (Ctx *ctx, gpointer data, gconstpointer piece, gsize size, GError **error)
{
  Incoming *self = data;
  gsize total = self->text->len + size;
  gsize n_room_bytes = total > SMALL_BYTES ? total - SMALL_BYTES : 0;
  if (!review_room_take (self->webhook->room, self->peer, n_room_bytes - self->n_room_bytes, error))
    return FALSE;
  self->n_room_bytes = n_room_bytes;
  g_byte_array_append (self->text, piece, (guint) size);
  return TRUE;
}

static gboolean
incoming_finish (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  Incoming *self = data;
  return answer_review (ctx, self->webhook, self->text, res, error);
}

/* Before the body is read. */
static gboolean
post_review (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  static const HttpBodySink sink = { incoming_write, incoming_finish, incoming_free };
  WorkloadWebhook *self = http_request_service (req);
  gint64 size = http_request_content_length (req);
  if (!http_request_has_body (req))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "BadRequest", "this is no review: it is empty");
  if (size < 0 || size > ADMISSION_REVIEW_MAX_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, HTTP_REASON_BODY_TOO_LARGE,
                    "a review says how long it is: at most %u bytes", ADMISSION_REVIEW_MAX_BYTES);
  http_request_set_sink (req, &sink, incoming_new (self, http_request_peer (req)));
  return TRUE;
}

WorkloadWebhook *
workload_webhook_start (Ctx *ctx, const DeliveryCaches *caches, const WebhookConfig *config, GError **error)
{
  static const HttpRoute routes[] = { { "POST", WORKLOAD_WEBHOOK_PATH, post_review, .streams_body = TRUE } };
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
  };
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->room = review_room_new (MAX_PENDING_BYTES, MAX_PENDING_BYTES_PER_PEER);
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
  review_room_free (self->room);
  g_cond_clear (&self->changed);
  g_mutex_clear (&self->lock);
  g_free (self);
}
