#include "main/upload_gateway_applet.h"

#include <malloc.h>

#include "base/log.h"
#include "cli/program.h"
#include "gateway/gateway.h"
#include "main/applets.h"

typedef struct {
  const char *listen, *namespace, *staging_store, *accounting, *port_file, *log_level;
  guint64 capacity_limit, max_uploads;
} Settings;

#define GATEWAY(member, name, letter, type, argument, choices, help) \
  OPTION (Settings, member, name, letter, type, argument, choices, help)
static const Option options[] = {
  GATEWAY (listen, "listen", 'l', OPTION_TEXT, "ADDRESS", NULL, "where to listen (default :8444; port 0: any)"),
  GATEWAY (namespace, "namespace", 'n', OPTION_TEXT, "NAME", NULL,
           "where the module's objects are (default: the namespace of the Pod or kubeconfig)"),
  GATEWAY (staging_store, "staging-store", '\0', OPTION_TEXT, "DIR", NULL,
           "where uploads wait for publication: s3://BUCKET/raw?... or a directory"),
  GATEWAY (accounting, "accounting", '\0', OPTION_TEXT, "NAME", NULL,
           "ConfigMap with the books of the storage (default: none are kept)"),
  GATEWAY (capacity_limit, "capacity-limit", '\0', OPTION_QUANTITY, "QUANTITY", NULL,
           "how much may be stored in all, such as 500Gi (default: no limit); needs --accounting"),
  GATEWAY (max_uploads, "max-uploads", '\0', OPTION_NUMBER, "N", NULL,
           "at most so many files at once through this process (default 24)"),
  GATEWAY (port_file, "port-file", '\0', OPTION_TEXT, "FILE", NULL, "write the port there once listening"),
  GATEWAY (log_level, "log-level", '\0', OPTION_TEXT, "LEVEL", program_log_levels,
           "least level that is logged (default info)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

/* Until the context is cancelled by a signal; then what runs may come to its end. */
static gboolean
serve (Ctx *ctx, const Settings *settings, const GatewayConfig *config, GError **error)
{
  g_autoptr (Ctx) serving = ctx_new (); /* outlives the signal */
  g_autoptr (Gateway) gateway = gateway_start (serving, config, error);
  if (gateway == NULL || !program_write_port (settings->port_file, gateway_port (gateway), error))
    return FALSE;
  am_log_info (ctx, "listening", "address", config->listen_address, "port", am_u64 (gateway_port (gateway)), NULL);
  program_wait (ctx);
  am_log_info (NULL, "stopping", NULL);
  gateway_drain (gateway);
  return TRUE;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  if (settings->staging_store == NULL)
    return cli_usage_fail (error, "--staging-store is needed: where uploads are kept until they are published");
  if (settings->capacity_limit > 0 && settings->accounting == NULL)
    return cli_usage_fail (error, "--capacity-limit needs --accounting, the books that it is held to");
  program_start_log (cli, settings->log_level, "upload-gateway");
  /* Few arenas: a thread a connection would otherwise keep one each. */
  mallopt (M_ARENA_MAX, 2);
  g_auto (KubeConfig) where = { 0 };
  if (!kube_config_load (NULL, NULL, &where, error))
    return FALSE;
  g_autoptr (KubeClient) kube = kube_client_new (&where, error);
  g_autoptr (ObjectStore) staging = kube != NULL ? places_open_objects (ctx, settings->staging_store, TRUE, error)
                                                 : NULL;
  if (staging == NULL)
    return FALSE;
  GatewayConfig config = {
    .listen_address = settings->listen != NULL ? settings->listen : ":8444",
    .namespace = settings->namespace != NULL ? settings->namespace : kube_client_namespace (kube),
    .accounting = settings->accounting,
    .limit_bytes = settings->capacity_limit,
    .max_uploads = (guint) MIN (settings->max_uploads, G_MAXUINT),
    .kube = kube,
    .staging = staging,
  };
  return serve (ctx, settings, &config, error);
}

static const Example examples[] = {
  { "upload-gateway -n d8-ai-models --staging-store 's3://models/raw?endpoint=https://s3.example'",
    "Take uploads into a bucket, without a limit." },
  { "upload-gateway --staging-store s3://models/raw --accounting books --capacity-limit 500Gi",
    "The same, as long as all that is stored fits into 500 GiB." },
};

const Command upload_gateway_command = {
  .name = "upload-gateway",
  .summary = "Take the files that users upload for their models, in a cluster",
  .usage = "",
  .about = "Part of the module in a Kubernetes cluster: serves the upload sessions that the controller\n"
           "makes for models with spec.source.upload. A file comes as one request (curl -T) or in\n"
           "parts that go to the bucket directly and can be resumed. Any number of replicas may run.\n"
           "The cluster is found as kubectl finds it, or by the Pod's service account; keys of the\n"
           "bucket come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
  .options = &group,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
