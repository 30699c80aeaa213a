/* What the controller measures, monitoring-and-ops.md "Metrics": of every Model and ClusterModel from the caches at the time of
 * the question, so that series go with their objects; of the store from the books. Only the leader has them. Behind TLS and
 * the API server's word: who asks needs the verb `get` on deployments.apps/prometheus-metrics named ai-models-controller
 * in the module's namespace. */
#pragma once

#include "controllers/model_controller.h"
#include "net/http_server.h"

typedef struct ModelMetrics ModelMetrics;

/* More that is measured: adds whole families to an answer, on the thread of whoever asks. */
typedef struct {
  void (*append) (gpointer data, GString *out);
  gpointer data;
  gboolean is_of_leader; /* other replicas are not asked */
} MetricsSource;

typedef struct {
  const char *listen_address;
  const char *tls_certificate_file, *tls_key_file; /* or NULL: plain HTTP, for an address of this Pod alone */
  const MetricsSource *sources;                    /* borrowed */
  gsize n_sources;
} MetricsConfig;

/* Serves /metrics until it is freed. Errors of http_server_start. */
ModelMetrics *model_metrics_start (Ctx *ctx, KubeClient *client, ModelController *controller,
                                   const MetricsConfig *config, GError **error);
void model_metrics_free (ModelMetrics *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelMetrics, model_metrics_free)

/* The families, one at a time; for tests, too. */
extern const guint model_metrics_n_families;
void model_metrics_append (ModelController *controller, guint family, GString *out);
