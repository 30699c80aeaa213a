#include "controllers/model_metrics.h"

#include <malloc.h>
#include <string.h>

#include "controllers/model_work.h"
#include "kube/access_review.h"
#include "net/metrics.h"

#define PREFIX "d8_ai_models_"
#define DEPLOYMENT "ai-models-controller"

/* A family of series of models, while it is written. */
typedef struct {
  GString *out;
  ModelController *controller;
  const char *name;   /* without the prefix */
  const char *object; /* "model", "clustermodel"; "" for families that both share */
} Family;

static void
append_label (const Family *self, const char *name, const char *value)
{
  char last = self->out->str[self->out->len - 1];
  g_string_append_printf (self->out, "%s%s=\"", last == '{' ? "" : ",", name);
  metrics_append_escaped (self->out, value != NULL ? value : "");
  g_string_append_c (self->out, '"');
}

/* The beginning of a series: its name and whose it is. */
static void
begin (const Family *self, const KubeObject *model)
{
  gboolean is_namespaced = kube_object_namespace (model)[0] != '\0';
  gboolean is_shared = self->object[0] == '\0';
  g_string_append_printf (self->out, PREFIX "%s%s%s{", self->object, is_shared ? "" : "_", self->name);
  if (is_shared)
    append_label (self, "kind", is_namespaced ? model_kind.kind : cluster_model_kind.kind);
  append_label (self, "name", kube_object_name (model));
  if (is_namespaced || is_shared)
    append_label (self, "namespace", kube_object_namespace (model));
  append_label (self, "uid", kube_object_uid (model));
}

static void
end (const Family *self, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  gboolean is_whole = value == (double) (gint64) value;
  g_string_append_printf (self->out, "} %s\n",
                          g_ascii_formatd (text, sizeof text, is_whole ? "%.0f" : "%.6g", value));
}

static const char *
source_type (const KubeObject *model)
{
  return json_get_string (json_get_object (kube_object_status (model), "source"), "resolvedType");
}

static void
append_phases (const KubeObject *model, gpointer data)
{
  const Family *self = data;
  ModelPhase phase = MODEL_PENDING;
  model_phase_parse (json_get_string (kube_object_status (model), "phase"), &phase);
  for (guint i = 0; i <= MODEL_DELETING; i++)
    {
      begin (self, model);
      append_label (self, "phase", model_phase_name ((ModelPhase) i));
      append_label (self, "source_type", source_type (model));
      end (self, i == phase);
    }
}

static void
append_ready (const KubeObject *model, gpointer data)
{
  const char *status = json_get_string (status_condition (model, "Ready"), "status");
  begin (data, model);
  end (data, g_strcmp0 (status, "True") == 0);
}

static void
append_conditions (const KubeObject *model, gpointer data)
{
  size_t index, n;
  yyjson_val *condition;
  yyjson_arr_foreach (json_get_array (kube_object_status (model), "conditions"), index, n, condition)
  {
    begin (data, model);
    append_label (data, "type", json_get_string (condition, "type"));
    append_label (data, "status", json_get_string (condition, "status"));
    append_label (data, "reason", json_get_string (condition, "reason"));
    end (data, 1);
  }
}

static void
append_info (const KubeObject *model, gpointer data)
{
  yyjson_val *status = kube_object_status (model);
  begin (data, model);
  append_label (data, "resolved_source_type", source_type (model));
  append_label (data, "format", json_get_string (json_get_object (status, "resolved"), "format"));
  append_label (data, "artifact_kind", json_get_string (json_get_object (status, "artifact"), "kind"));
  end (data, 1);
}

static void
append_size (const KubeObject *model, gpointer data)
{
  yyjson_val *size = yyjson_obj_get (json_get_object (kube_object_status (model), "artifact"), "sizeBytes");
  if (!yyjson_is_num (size))
    return;
  begin (data, model);
  end (data, yyjson_get_num (size));
}

static void
append_progress (const KubeObject *model, gpointer data)
{
  yyjson_val *status = kube_object_status (model);
  const char *phase = json_get_string (status, "phase"), *progress = json_get_string (status, "progress");
  if (progress == NULL || g_strcmp0 (phase, "Publishing") != 0)
    return;
  begin (data, model);
  end (data, g_ascii_strtod (progress, NULL) / 100);
}

/* Of a model that is being published: what its worker left. */
static KubeObject *
worker_state_of (const Family *self, const KubeObject *model)
{
  g_autofree char *name = model_object_name (WORKER_STATE_PREFIX, kube_object_uid (model));
  return informer_get (self->controller->secrets, self->controller->settings->namespace, name);
}

static void
append_transferred (const KubeObject *model, gpointer data)
{
  g_autoptr (KubeObject) secret = worker_state_of (data, model);
  WorkerState state = { 0 };
  if (secret == NULL || !worker_state_read (secret, &state, NULL, NULL))
    return;
  begin (data, model);
  append_label (data, "stage", worker_stage_name (state.stage));
  end (data, (double) state.uploaded_size_bytes);
  worker_state_clear (&state);
}

static void
append_retries (const KubeObject *model, gpointer data)
{
  g_autoptr (KubeObject) secret = worker_state_of (data, model);
  WorkerRestarts restarts;
  if (secret == NULL)
    return;
  worker_restarts_read (secret, &restarts);
  begin (data, model);
  append_label (data, "reason", "WorkerInterrupted");
  end (data, restarts.n_in_a_row);
}

static void
append_failures (const KubeObject *model, gpointer data)
{
  if (g_strcmp0 (json_get_string (kube_object_status (model), "phase"), "Failed") != 0)
    return;
  begin (data, model);
  append_label (data, "reason", json_get_string (status_condition (model, "ArtifactResolved"), "reason"));
  end (data, 1);
}

typedef enum { OF_EACH, OF_BOTH } FamilyScope;

static const struct {
  const char *name, *type, *help;
  FamilyScope scope;
  void (*append) (const KubeObject *model, gpointer data);
} families[] = {
  { "status_phase", "gauge", "1 for the phase it is in.", OF_EACH, append_phases },
  { "ready", "gauge", "Whether it can be used.", OF_EACH, append_ready },
  { "condition", "gauge", "Its conditions.", OF_EACH, append_conditions },
  { "info", "gauge", "What it is.", OF_EACH, append_info },
  { "artifact_size_bytes", "gauge", "Bytes of the stored artifact.", OF_EACH, append_size },
  { "artifact_logical_size_bytes", "gauge", "Bytes of its files.", OF_EACH, append_size },
  { "publication_progress_ratio", "gauge", "Bytes stored of those planned.", OF_BOTH, append_progress },
  { "publication_transferred_bytes_total", "counter", "Bytes stored by the publication that runs.", OF_BOTH,
    append_transferred },
  { "publication_retries_total", "counter", "Interruptions of its worker without progress.", OF_BOTH,
    append_retries },
  { "publication_failures_total", "counter", "Publications that failed for good.", OF_BOTH, append_failures },
};

/* One family for both kinds, or one for each. */
static void
append_head (const Family *self, guint index)
{
  const char *joint = self->object[0] != '\0' ? "_" : "";
  g_string_append_printf (self->out, "# HELP " PREFIX "%s%s%s %s\n# TYPE " PREFIX "%s%s%s %s\n", self->object, joint,
                          self->name, families[index].help, self->object, joint, self->name, families[index].type);
}

static void
append_models (ModelController *controller, guint index, GString *out)
{
  gboolean is_shared = families[index].scope == OF_BOTH;
  Family family = { out, controller, families[index].name, is_shared ? "" : "model" };
  append_head (&family, index);
  informer_each (controller->models, families[index].append, &family);
  if (!is_shared)
    {
      family.object = "clustermodel";
      append_head (&family, index);
    }
  informer_each (controller->cluster_models, families[index].append, &family);
}

static void
append_gauge (GString *out, const char *name, const char *help, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf (out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s gauge\n" PREFIX "%s %s\n", name, help,
                          name, name, g_ascii_formatd (text, sizeof text, "%.0f", value));
}

/* What is not known is absent, not zero. */
static void
append_storage (ModelController *self, GString *out)
{
  guint64 limit = self->settings->capacity_limit_bytes;
  if (!self->settings->has_accounting)
    return;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  LedgerSight books = self->books;
  guint64 taken = books.usage.used_bytes + books.usage.reserved_bytes;
  append_gauge (out, "storage_backend_capacity_known", "Whether there is a limit, and usage is known.",
                limit > 0 && books.is_known);
  if (limit > 0)
    append_gauge (out, "storage_backend_limit_bytes", "Room for all models together.", (double) limit);
  if (books.is_known)
    {
      append_gauge (out, "storage_backend_used_bytes", "Bytes of stored models.", (double) books.usage.used_bytes);
      append_gauge (out, "storage_backend_reserved_bytes", "Bytes set aside for models on their way.",
                    (double) books.usage.reserved_bytes);
    }
  if (books.is_known && limit > 0)
    append_gauge (out, "storage_backend_available_bytes", "Bytes that are left.",
                  (double) (limit > taken ? limit - taken : 0));
  append_gauge (out, "storage_inventory_sync_healthy", "Whether the last comparison of models and books succeeded.",
                self->inventory_is_healthy);
  append_gauge (out, "storage_inventory_sync_last_success_timestamp_seconds", "When one succeeded; 0: never.",
                (double) self->inventory_success_s);
  append_gauge (out, "storage_accounting_ledger_present", "Whether the books are there and can be read.",
                books.is_present);
  append_gauge (out, "storage_accounting_ledger_confirmed", "Whether they are known to be complete.", books.is_known);
}

static void
append_collector (GString *out, gint64 began_us)
{
  static const char *const names[] = { "collector_up", "collector_scrape_duration_seconds",
                                       "collector_last_success_timestamp_seconds" };
  double values[] = { 1, (double) (g_get_monotonic_time () - began_us) / G_USEC_PER_SEC,
                      (double) g_get_real_time () / G_USEC_PER_SEC };
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      char text[G_ASCII_DTOSTR_BUF_SIZE];
      g_string_append_printf (out,
                              "# HELP " PREFIX "%s Of this answer.\n# TYPE " PREFIX "%s gauge\n" PREFIX
                              "%s{collector=\"models\"} %s\n",
                              names[i], names[i], names[i], g_ascii_formatd (text, sizeof text, "%.12g", values[i]));
    }
}

const guint model_metrics_n_families = G_N_ELEMENTS (families) + 1;

void
model_metrics_append (ModelController *controller, guint family, GString *out)
{
  if (family < G_N_ELEMENTS (families))
    append_models (controller, family, out);
  else
    append_storage (controller, out);
}

struct ModelMetrics {
  ModelController *controller;
  const MetricsSource *sources;
  gsize n_sources;
  AccessReview *reviews;
  HttpServer *server;
};

/* An answer while it is sent: one family is in memory at a time. */
typedef struct {
  ModelController *controller;
  GString *text;
  gsize n_sent;
  guint next;
  gint64 began_us;
} Answer;

static gboolean
fill (Answer *self)
{
  g_string_truncate (self->text, 0);
  self->n_sent = 0;
  while (self->text->len == 0 && self->next <= model_metrics_n_families)
    {
      if (self->next < model_metrics_n_families)
        model_metrics_append (self->controller, self->next, self->text);
      else
        append_collector (self->text, self->began_us);
      self->next++;
    }
  return self->text->len > 0;
}

static gssize
answer_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  Answer *self = data;
  if (self->n_sent == self->text->len && !fill (self))
    return 0;
  gsize n = MIN (size, self->text->len - self->n_sent);
  memcpy (buffer, self->text->str + self->n_sent, n);
  self->n_sent += n;
  return (gssize) n;
}

static void
answer_free (gpointer data)
{
  Answer *self = data;
  g_string_free (self->text, TRUE);
  g_free (self);
  malloc_trim (0); /* thousands of models make megabytes of text, now and then */
}

static gboolean
get_metrics (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  static const HttpBodySource source = { answer_read, answer_free };
  ModelMetrics *self = http_request_service (req);
  gboolean is_leading = g_atomic_int_get (&self->controller->is_leading);
  g_autofree char *own = metrics_render ();
  Answer *answer = g_new0 (Answer, 1);
  answer->controller = self->controller;
  answer->began_us = g_get_monotonic_time ();
  answer->text = g_string_new (own);
  for (gsize i = 0; i < self->n_sources; i++)
    if (is_leading || !self->sources[i].is_of_leader)
      self->sources[i].append (self->sources[i].data, answer->text);
  if (!is_leading)
    answer->next = model_metrics_n_families + 1;
  http_response_stream_chunked (res, "text/plain; version=0.0.4; charset=utf-8", &source, answer);
  return TRUE;
}

static gboolean
authorize (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  ModelMetrics *self = http_request_service (req);
  const char *header = http_request_header (req, "Authorization");
  g_auto (KubeIdentity) identity = { 0 };
  AccessQuestion question = {
    .verb = "get",
    .group = "apps",
    .resource = "deployments",
    .subresource = "prometheus-metrics",
    .namespace = self->controller->settings->namespace,
    .name = DEPLOYMENT,
  };
  if (header == NULL || g_ascii_strncasecmp (header, "Bearer ", 7) != 0)
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "Unauthorized", "a bearer token of a service account is needed");
  if (!access_review_identify (ctx, self->reviews, header + 7, &identity, error))
    return FALSE;
  http_request_set_identity (req, identity.user);
  return access_review_require (ctx, self->reviews, &identity, &question, error);
}

ModelMetrics *
model_metrics_start (Ctx *ctx, KubeClient *client, ModelController *controller, const MetricsConfig *config,
                     GError **error)
{
  static const HttpRoute routes[] = { { "GET", "/metrics", get_metrics } };
  g_autoptr (ModelMetrics) self = g_new0 (ModelMetrics, 1);
  HttpServerConfig server = {
    .listen_address = config->listen_address,
    .tls_certificate_file = config->tls_certificate_file,
    .tls_key_file = config->tls_key_file,
    .routes = routes,
    .n_routes = G_N_ELEMENTS (routes),
    .hides_metrics = TRUE,
    .service = self,
    .authorize = authorize,
  };
  self->controller = controller;
  self->sources = config->sources;
  self->n_sources = config->n_sources;
  self->reviews = access_review_new (client);
  self->server = http_server_start (ctx, &server, error);
  return self->server != NULL ? g_steal_pointer (&self) : NULL;
}

void
model_metrics_free (ModelMetrics *self)
{
  if (self == NULL)
    return;
  http_server_free (self->server);
  access_review_free (self->reviews);
  g_free (self);
}
