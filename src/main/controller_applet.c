#include "main/controller_applet.h"

#include <malloc.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/program.h"
#include "controllers/model_controller.h"
#include "controllers/model_metrics.h"
#include "kube/leader.h"
#include "main/controller_options.h"
#include "main/delivery_part.h"
#include "net/http_server.h"

#define MAX_LINGER_S 60

typedef struct {
  Ctx *told_to_end;
  ModelController *models;
  DeliveryPart *delivery; /* NULL: nothing is delivered */
} Service;

static gboolean
is_ready (Ctx *ctx, gpointer data, GError **error)
{
  const Service *service = data;
  if (ctx_is_cancelled (service->told_to_end))
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "shutting down");
  return model_controller_is_ready (service->models, error) && delivery_part_is_ready (service->delivery, error);
}

/* Until the context is cancelled by a signal; then what is asked is answered for a while, by caches that are kept up to date:
 * it takes its time until nobody asks here any more. */
static gboolean
serve (Ctx *ctx, const ControllerOptions *options, const ControllerSettings *whole, KubeClient *client,
       GError **error)
{
  g_autoptr (Ctx) serving = ctx_new (); /* outlives the signal */
  g_autoptr (ModelController) models = model_controller_new (serving, client, whole);
  g_autoptr (DeliveryPart) delivery = NULL;
  if (whole->delivery.is_on
      && (delivery = delivery_part_start (serving, client, options, whole, models, error)) == NULL)
    return FALSE;
  Service service = { ctx, models, delivery };
  HttpServerConfig server = {
    .listen_address = options->listen != NULL ? options->listen : ":8081",
    .service = &service,
    .ready = is_ready,
    .hides_metrics = TRUE,
  };
  MetricsConfig measured = {
    .listen_address = options->metrics_listen,
    .tls_certificate_file = options->tls_cert,
    .tls_key_file = options->tls_key,
  };
  measured.sources = delivery_part_metrics (delivery, &measured.n_sources);
  LeaderConfig leader = { .namespace = whole->namespace, .name = whole->lease, .identity = whole->identity };
  g_autoptr (HttpServer) health = http_server_start (serving, &server, error);
  if (health == NULL)
    return FALSE;
  g_autoptr (ModelMetrics) metrics = NULL;
  if (options->metrics_listen != NULL
      && (metrics = model_metrics_start (serving, client, models, &measured, error)) == NULL)
    return FALSE;
  am_log_info (ctx, "listening", "address", server.listen_address, NULL);
  const LeaderWork works[] = { { model_controller_lead, models }, { delivery_part_lead, delivery } };
  LeaderWorks all = { works, delivery != NULL ? 2 : 1 };
  gboolean done = leader_run (ctx, client, &leader, leader_work_together, &all, error);
  if (ctx_is_cancelled (ctx))
    ctx_sleep_ms (serving, (gint64) MIN (options->linger_s, MAX_LINGER_S) * 1000, NULL);
  return done;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const ControllerOptions *options = data;
  char uuid[37];
  text_uuid (uuid);
  g_autofree char *identity = g_strdup_printf ("%s_%.8s", g_get_host_name (), uuid);
  ControllerSettings whole;
  if (!controller_options_take (options, &whole, error))
    return FALSE;
  whole.identity = identity;
  program_start_log (cli, options->log_level, "controller");
  mallopt (M_ARENA_MAX, 2); /* a few threads, and much that lies still */
  g_auto (KubeConfig) config = { 0 };
  if (!kube_config_load (NULL, NULL, &config, error))
    return FALSE;
  g_autoptr (KubeClient) client = kube_client_new (&config, error);
  return client != NULL && serve (ctx, options, &whole, client, error);
}

static const Example examples[] = {
  { "controller --namespace d8-ai-models --worker-image IMAGE --registry dmcr.d8-ai-models.svc "
    "--registry-login-dir /etc/login",
    "As the chart starts it, but for what is optional." },
};

const Command controller_command = {
  .name = "controller",
  .summary = "Publish what Models and ClusterModels of a cluster ask for",
  .usage = "",
  .about = "Watches the Models and ClusterModels of a Kubernetes cluster, starts a worker for each\n"
           "that is to be fetched, writes how it goes into its status, and removes what is stored\n"
           "when an object is deleted. The cluster is that of $KUBECONFIG, or the one it runs in.\n"
           "Of several replicas one works; all answer /healthz and /readyz. The bucket's keys for\n"
           "what was uploaded are taken from $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY.",
  .options = &controller_options,
  .settings_size = sizeof (ControllerOptions),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
