#include "main/controller_options.h"

#include <string.h>

#include "base/file.h"
#include "cli/program.h"
#include "controllers/object_draft.h"
#include "main/applets.h"

#define MAX_SALT_BYTES 4096
#define MAX_MATERIALIZATIONS 1000u
#define DEFAULT_MATERIALIZATIONS 2
#define DELIVERY_NONE "none"
#define MAX_WORKERS 1000u
#define DEFAULT_WORKERS 4
#define DEFAULT_SWEEP_S 600
#define DEFAULT_INVENTORY_S 60

static const char *const deliveries[] = { "SharedPVC", DELIVERY_NONE, NULL };

#define CONTROLLER(member, name, type, argument, help) \
  OPTION (ControllerOptions, member, name, '\0', OPTION_##type, argument, NULL, help)
static const Option table[] = {
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
  OPTION (ControllerOptions, delivery, "delivery", '\0', OPTION_TEXT, "TYPE", deliveries,
          "how workloads get their models (default none: they get none); the rest of this is for it"),
  CONTROLLER (controller.delivery.account, "account", TEXT, "NAME",
              "whom the API server takes this program for, system:serviceaccount:NS:NAME"),
  CONTROLLER (webhook_listen, "webhook-listen", TEXT, "ADDRESS",
              "the admission webhook of workloads, by TLS (default: none)"),
  CONTROLLER (grant_salt_file, "grant-salt-file", TEXT, "FILE",
              "the secret that read grants are signed with, as the registry knows it"),
  CONTROLLER (controller.delivery.materializer_image, "materializer-image", TEXT, "IMAGE",
              "of the Jobs that copy models (default: the workers')"),
  CONTROLLER (controller.delivery.materializer_pull_secret, "materializer-pull-secret", TEXT, "SECRET",
              "to pull it with, in the module's namespace; copied for each Job"),
  CONTROLLER (controller.delivery.materializer_requests, "materializer-requests", TEXT, "RESOURCES",
              "of such a Job (default cpu=200m,memory=256Mi)"),
  CONTROLLER (controller.delivery.materializer_limits, "materializer-limits", TEXT, "RESOURCES",
              "of such a Job (default cpu=2,memory=1Gi)"),
  CONTROLLER (max_materializations, "max-materializations", NUMBER, "N", "so many at a time (default 2)"),
  CONTROLLER (controller.delivery.storage_classes.delivery, "shared-class", TEXT, "NAME",
              "StorageClass of shared volumes, before all others"),
  CONTROLLER (controller.delivery.storage_classes.modules, "modules-class", TEXT, "NAME",
              "the one for all modules, which comes next"),
  CONTROLLER (controller.delivery.storage_classes.cluster, "cluster-class", TEXT, "NAME",
              "the one that the cluster is set to, after that; then comes its default one"),
  CONTROLLER (controller.delivery.registry_peers, "registry-peers", TEXT, "HOST",
              "name with the addresses of all replicas of the registry, to ask them how far copies are"),
  CONTROLLER (listen, "listen", TEXT, "ADDRESS", "/healthz and /readyz (default :8081)"),
  CONTROLLER (metrics_listen, "metrics-listen", TEXT, "ADDRESS",
              "/metrics for who may get deployments/prometheus-metrics (default: none)"),
  CONTROLLER (tls_cert, "tls-cert", TEXT, "FILE",
              "certificate for it and the webhook; taken over anew when it changes"),
  CONTROLLER (tls_key, "tls-key", TEXT, "FILE", "its private key"),
  CONTROLLER (linger_s, "linger", NUMBER, "SECONDS",
              "go on answering for so long after being told to end (default 0)"),
  CONTROLLER (controller.lease, "lease", TEXT, "NAME",
              "which replica leads (default ai-models-controller.deckhouse.io)"),
  CONTROLLER (sweep_interval_s, "sweep-interval-s", NUMBER, "SECONDS",
              "between two looks at what is stored (default 600)"),
  CONTROLLER (inventory_interval_s, "inventory-interval-s", NUMBER, "SECONDS",
              "between two comparisons of models and books (default 60)"),
  OPTION (ControllerOptions, log_level, "log-level", '\0', OPTION_TEXT, "LEVEL", program_log_levels,
          "least level that is logged (default info)"),
};
const OptionGroup controller_options = { NULL, table, G_N_ELEMENTS (table) };

/* A store that nobody ever put something into is NOT_FOUND. */
static ObjectStore *
open_staging (const char *url, GError **error)
{
  return places_open_objects (NULL, url, FALSE, error);
}

static void
set_default (const char **value, const char *other)
{
  if (*value == NULL)
    *value = other;
}

static void
complete_delivery (const ControllerOptions *options, DeliverySettings *delivery)
{
  delivery->is_on = options->delivery != NULL && strcmp (options->delivery, DELIVERY_NONE) != 0;
  set_default (&delivery->materializer_image, options->controller.worker_image);
  set_default (&delivery->materializer_requests, "cpu=200m,memory=256Mi");
  set_default (&delivery->materializer_limits, "cpu=2,memory=1Gi");
  delivery->max_materializations = (guint) (options->max_materializations > 0 ? options->max_materializations
                                                                              : DEFAULT_MATERIALIZATIONS);
}

static ControllerSettings
complete (const ControllerOptions *options)
{
  ControllerSettings whole = options->controller;
  guint64 sweep_s = options->sweep_interval_s > 0 ? options->sweep_interval_s : DEFAULT_SWEEP_S;
  guint64 inventory_s = options->inventory_interval_s > 0 ? options->inventory_interval_s : DEFAULT_INVENTORY_S;
  set_default (&whole.lease, "ai-models-controller.deckhouse.io");
  set_default (&whole.worker_account, "ai-models-publication-worker");
  set_default (&whole.worker_requests, "cpu=1,memory=1Gi,ephemeral-storage=1Gi");
  set_default (&whole.worker_limits, "cpu=4,memory=2Gi,ephemeral-storage=1Gi");
  set_default (&whole.registry_write_secret, "ai-models-dmcr-auth-write");
  whole.max_workers = (guint) (options->max_workers > 0 ? options->max_workers : DEFAULT_WORKERS);
  whole.has_accounting = !options->no_accounting;
  whole.sweep_interval_ms = (gint64) MIN (sweep_s, 86400) * 1000;
  whole.inventory_interval_ms = (gint64) MIN (inventory_s, 86400) * 1000;
  whole.open_staging = open_staging;
  complete_delivery (options, &whole.delivery);
  return whole;
}

typedef struct {
  const char *name, *value;
} NeededOption;

static gboolean
check_needed (const NeededOption *needed, gsize n, GError **error)
{
  for (gsize i = 0; i < n; i++)
    if (needed[i].value == NULL || needed[i].value[0] == '\0')
      return cli_usage_fail (error, "--%s is missing", needed[i].name);
  return TRUE;
}

static gboolean
check_resources (const char *names, const char *requests, const char *limits, GError **error)
{
  g_autoptr (GError) problem = NULL;
  return (draft_resources_check (requests, &problem) && draft_resources_check (limits, &problem))
         || cli_usage_fail (error, "%s: %s", names, problem->message);
}

static gboolean
check_delivery (const ControllerOptions *options, const DeliverySettings *delivery, GError **error)
{
  const NeededOption needed[] = {
    { "account", delivery->account },
    { "grant-salt-file", options->grant_salt_file },
  };
  if (!check_needed (needed, G_N_ELEMENTS (needed), error))
    return FALSE;
  if (delivery->max_materializations > MAX_MATERIALIZATIONS)
    return cli_usage_fail (error, "--max-materializations: at most %u", MAX_MATERIALIZATIONS);
  if (options->webhook_listen != NULL && options->tls_cert == NULL)
    return cli_usage_fail (error, "--webhook-listen needs --tls-cert and --tls-key");
  return check_resources ("--materializer-requests, --materializer-limits", delivery->materializer_requests,
                          delivery->materializer_limits, error);
}

static gboolean
check (const ControllerOptions *options, const ControllerSettings *whole, GError **error)
{
  const NeededOption needed[] = {
    { "namespace", whole->namespace },
    { "worker-image", whole->worker_image },
    { "registry", whole->registry },
    { "registry-login-dir", whole->registry_login_dir },
  };
  if (!check_needed (needed, G_N_ELEMENTS (needed), error))
    return FALSE;
  if (options->max_workers > MAX_WORKERS)
    return cli_usage_fail (error, "--max-workers: at most %u", MAX_WORKERS);
  if ((whole->staging_store != NULL) != (whole->upload_url != NULL))
    return cli_usage_fail (error, "--staging-store and --upload-url go together");
  if ((options->tls_cert != NULL) != (options->tls_key != NULL))
    return cli_usage_fail (error, "--tls-cert and --tls-key go together");
  if (!check_resources ("--worker-requests, --worker-limits", whole->worker_requests, whole->worker_limits, error))
    return FALSE;
  return !whole->delivery.is_on || check_delivery (options, &whole->delivery, error);
}

static gboolean
read_salt (const char *path, DeliverySettings *delivery, GError **error)
{
  g_autoptr (GBytes) bytes = file_read (path, MAX_SALT_BYTES, error);
  if (bytes == NULL)
    return FALSE;
  g_autofree char *salt = g_strstrip (g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes)));
  if (salt[0] == '\0')
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s holds no salt", path);
  read_grant_key (salt, delivery->grant_key);
  delivery_key (salt, delivery->state_key);
  return TRUE;
}

gboolean
controller_options_take (const ControllerOptions *self, ControllerSettings *out_settings, GError **error)
{
  ControllerSettings whole = complete (self);
  if (!check (self, &whole, error)
      || (whole.delivery.is_on && !read_salt (self->grant_salt_file, &whole.delivery, error)))
    return FALSE;
  *out_settings = whole;
  return TRUE;
}
