#include "main/controller_applet.h"

#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/program.h"
#include "controllers/model_controller.h"
#include "controllers/model_metrics.h"
#include "controllers/worker_pod.h"
#include "kube/leader.h"
#include "main/applets.h"
#include "net/http_server.h"

#define MAX_WORKERS 1000u
#define DEFAULT_WORKERS 4
#define DEFAULT_SWEEP_S 600
#define DEFAULT_INVENTORY_S 60

typedef struct {
  ControllerSettings controller;
  const char *listen, *metrics_listen, *tls_cert, *tls_key, *log_level;
  guint64 max_workers, sweep_interval_s, inventory_interval_s;
  gboolean no_accounting;
} Settings;

#define CONTROLLER(member, name, type, argument, help) \
  OPTION (Settings, member, name, '\0', OPTION_##type, argument, NULL, help)
static const Option options[] = {
  CONTROLLER (controller.namespace, "namespace", TEXT, "NS", "the module's namespace"),
  CONTROLLER (controller.worker_image, "worker-image", TEXT, "IMAGE", "image of the publication workers"),
  CONTROLLER (controller.worker_pull_secret, "worker-image-pull-secret", TEXT, "SECRET", "to pull it with"),
  CONTROLLER (controller.worker_account, "worker-service-account", TEXT, "NAME",
              "whom workers run as (default ai-models-publication-worker)"),
  CONTROLLER (controller.worker_requests, "worker-requests", TEXT, "RESOURCES",
              "of a worker (default cpu=1,memory=1Gi,ephemeral-storage=1Gi)"),
  CONTROLLER (controller.worker_limits, "worker-limits", TEXT, "RESOURCES",
              "of a worker (default cpu=4,memory=2Gi,ephemeral-storage=1Gi)"),
  CONTROLLER (max_workers, "max-workers", NUMBER, "N", "so many at a time (default 4)"),
  CONTROLLER (controller.registry, "registry", TEXT, "HOST", "the module's registry, HOST[:PORT]"),
  CONTROLLER (controller.registry_plain_http, "registry-plain-http", FLAG, NULL, "it speaks HTTP without TLS"),
  CONTROLLER (controller.registry_ca_file, "registry-ca-file", TEXT, "FILE", "who vouches for its certificate"),
  CONTROLLER (controller.registry_login_dir, "registry-login-dir", TEXT, "DIR", "files username and password"),
  CONTROLLER (controller.registry_write_secret, "registry-write-secret", TEXT, "SECRET",
              "the same for workers (default ai-models-dmcr-auth-write)"),
  CONTROLLER (controller.registry_ca_secret, "registry-ca-secret", TEXT, "SECRET",
              "with ca.crt, for workers (default: none)"),
  CONTROLLER (controller.staging_store, "staging-store", TEXT, "URL",
              "where uploads are staged (default: there are no uploads)"),
  CONTROLLER (controller.artifacts_secret, "artifacts-secret", TEXT, "SECRET",
              "with accessKey and secretKey of the bucket, for workers that read an upload"),
  CONTROLLER (controller.artifacts_ca_secret, "artifacts-ca-secret", TEXT, "SECRET", "with ca.crt of the bucket"),
  CONTROLLER (controller.upload_url, "upload-url", TEXT, "URL", "where the upload gateway is, without /v1"),
  CONTROLLER (controller.capacity_limit_bytes, "capacity-limit", QUANTITY, "QUANTITY",
              "room for all models together (default: no limit)"),
  CONTROLLER (no_accounting, "no-accounting", FLAG, NULL, "keep no books of what is stored"),
  CONTROLLER (controller.hf_endpoint, "hf-endpoint", TEXT, "URL", "a mirror of the Hugging Face hub, for workers"),
  CONTROLLER (controller.ollama_registry, "ollama-registry", TEXT, "URL", "one of Ollama's registry, for workers"),
  CONTROLLER (controller.sources_ca_config_map, "sources-ca-config-map", TEXT, "NAME",
              "with ca.crt: whom workers trust on the way to the sources"),
  CONTROLLER (controller.https_proxy, "https-proxy", TEXT, "URL", "a proxy for workers"),
  CONTROLLER (controller.no_proxy, "no-proxy", TEXT, "LIST", "what they reach without it"),
  CONTROLLER (listen, "listen", TEXT, "ADDRESS", "/healthz and /readyz (default :8081)"),
  CONTROLLER (metrics_listen, "metrics-listen", TEXT, "ADDRESS",
              "/metrics for who may get deployments/prometheus-metrics (default: none)"),
  CONTROLLER (tls_cert, "tls-cert", TEXT, "FILE", "certificate for it; taken over anew when it changes"),
  CONTROLLER (tls_key, "tls-key", TEXT, "FILE", "its private key"),
  CONTROLLER (controller.lease, "lease", TEXT, "NAME",
              "which replica leads (default ai-models-controller.deckhouse.io)"),
  CONTROLLER (sweep_interval_s, "sweep-interval-s", NUMBER, "SECONDS",
              "between two looks at what is stored (default 600)"),
  CONTROLLER (inventory_interval_s, "inventory-interval-s", NUMBER, "SECONDS",
              "between two comparisons of models and books (default 60)"),
  OPTION (Settings, log_level, "log-level", '\0', OPTION_TEXT, "LEVEL", program_log_levels,
          "least level that is logged (default info)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

static const char *
or_default (const char *value, const char *other)
{
  return value != NULL ? value : other;
}

/* A store that nobody ever put something into is NOT_FOUND. */
static ObjectStore *
open_staging (const char *url, GError **error)
{
  return places_open_objects (NULL, url, FALSE, error);
}

static ControllerSettings
complete (const Settings *settings, const char *identity)
{
  ControllerSettings whole = settings->controller;
  guint64 sweep_s = settings->sweep_interval_s > 0 ? settings->sweep_interval_s : DEFAULT_SWEEP_S;
  guint64 inventory_s = settings->inventory_interval_s > 0 ? settings->inventory_interval_s : DEFAULT_INVENTORY_S;
  whole.identity = identity;
  whole.lease = or_default (whole.lease, "ai-models-controller.deckhouse.io");
  whole.worker_account = or_default (whole.worker_account, "ai-models-publication-worker");
  whole.worker_requests = or_default (whole.worker_requests, "cpu=1,memory=1Gi,ephemeral-storage=1Gi");
  whole.worker_limits = or_default (whole.worker_limits, "cpu=4,memory=2Gi,ephemeral-storage=1Gi");
  whole.registry_write_secret = or_default (whole.registry_write_secret, "ai-models-dmcr-auth-write");
  whole.max_workers = (guint) (settings->max_workers > 0 ? settings->max_workers : DEFAULT_WORKERS);
  whole.has_accounting = !settings->no_accounting;
  whole.sweep_interval_ms = (gint64) MIN (sweep_s, 86400) * 1000;
  whole.inventory_interval_ms = (gint64) MIN (inventory_s, 86400) * 1000;
  whole.open_staging = open_staging;
  return whole;
}

static gboolean
check_settings (const Settings *settings, const ControllerSettings *whole, GError **error)
{
  const struct {
    const char *name, *value;
  } needed[] = {
    { "namespace", whole->namespace },
    { "worker-image", whole->worker_image },
    { "registry", whole->registry },
    { "registry-login-dir", whole->registry_login_dir },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (needed); i++)
    if (needed[i].value == NULL || needed[i].value[0] == '\0')
      return cli_usage_fail (error, "--%s is missing", needed[i].name);
  if (whole->max_workers > MAX_WORKERS)
    return cli_usage_fail (error, "--max-workers: at most %u", MAX_WORKERS);
  if ((whole->staging_store != NULL) != (whole->upload_url != NULL))
    return cli_usage_fail (error, "--staging-store and --upload-url go together");
  if ((settings->tls_cert != NULL) != (settings->tls_key != NULL))
    return cli_usage_fail (error, "--tls-cert and --tls-key go together");
  g_autoptr (GError) problem = NULL;
  if (!worker_resources_check (whole->worker_requests, &problem)
      || !worker_resources_check (whole->worker_limits, &problem))
    return cli_usage_fail (error, "--worker-requests, --worker-limits: %s", problem->message);
  return TRUE;
}

static gboolean
is_ready (Ctx *ctx, gpointer service, GError **error)
{
  return model_controller_is_ready (service, error);
}

static gboolean
serve (Ctx *ctx, const Settings *settings, const ControllerSettings *whole, KubeClient *client, GError **error)
{
  g_autoptr (ModelController) controller = model_controller_new (ctx, client, whole);
  HttpServerConfig server = {
    .listen_address = or_default (settings->listen, ":8081"),
    .service = controller,
    .ready = is_ready,
    .hides_metrics = TRUE,
  };
  MetricsConfig measured = { settings->metrics_listen, settings->tls_cert, settings->tls_key };
  LeaderConfig leader = { .namespace = whole->namespace, .name = whole->lease, .identity = whole->identity };
  g_autoptr (HttpServer) health = http_server_start (ctx, &server, error);
  if (health == NULL)
    return FALSE;
  g_autoptr (ModelMetrics) metrics = NULL;
  if (settings->metrics_listen != NULL
      && (metrics = model_metrics_start (ctx, client, controller, &measured, error)) == NULL)
    return FALSE;
  am_log_info (ctx, "listening", "address", server.listen_address, NULL);
  return leader_run (ctx, client, &leader, model_controller_lead, controller, error);
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  char uuid[37];
  text_uuid (uuid);
  g_autofree char *identity = g_strdup_printf ("%s_%.8s", g_get_host_name (), uuid);
  ControllerSettings whole = complete (settings, identity);
  if (!check_settings (settings, &whole, error))
    return FALSE;
  program_start_log (cli, settings->log_level, "controller");
  mallopt (M_ARENA_MAX, 2); /* a few threads, and much that lies still */
  g_auto (KubeConfig) config = { 0 };
  if (!kube_config_load (NULL, NULL, &config, error))
    return FALSE;
  g_autoptr (KubeClient) client = kube_client_new (&config, error);
  return client != NULL && serve (ctx, settings, &whole, client, error);
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
  .options = &group,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
