#include "main/publish_applet.h"

#include <malloc.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/program.h"
#include "kube/kube_client.h"
#include "publish/worker.h"
#include "main/applets.h"
#include "registry/repository_remote.h"

#define TERMINATION_FILE "/dev/termination-log"

typedef struct {
  const char *owner_kind, *owner_namespace, *owner_name, *owner_uid, *source, *revision, *token_file;
  const char *staged_file, *staging_store, *staging_keys_dir, *registry, *registry_ca_file, *registry_login_dir,
    *repository;
  const char *namespace, *accounting, *termination_file, *log_level;
  guint64 owner_generation, capacity_limit;
  gboolean registry_plain_http;
} Settings;

static const char *const kinds[] = { "Model", "ClusterModel", NULL };

#define PUBLISH(member, name, type, argument, choices, help) \
  OPTION (Settings, member, name, '\0', type, argument, choices, help)
static const Option options[] = {
  PUBLISH (owner_kind, "owner-kind", OPTION_TEXT, "KIND", kinds, "whose model it is: Model or ClusterModel"),
  PUBLISH (owner_namespace, "owner-namespace", OPTION_TEXT, "NS", NULL, "namespace of a Model"),
  PUBLISH (owner_name, "owner-name", OPTION_TEXT, "NAME", NULL, "its name"),
  PUBLISH (owner_uid, "owner-uid", OPTION_TEXT, "UID", NULL, "its metadata.uid"),
  PUBLISH (owner_generation, "owner-generation", OPTION_NUMBER, "N", NULL, "its metadata.generation"),
  PUBLISH (source, "source", OPTION_TEXT, "URL", NULL, "address of the model at the hub or in Ollama's library"),
  PUBLISH (revision, "revision", OPTION_TEXT, "REVISION", NULL, "the revision that was stored before, and no other"),
  PUBLISH (token_file, "token-file", OPTION_TEXT, "FILE", NULL, "read the hub's token from a file"),
  PUBLISH (staged_file, "staged-file", OPTION_TEXT, "NAME", NULL,
           "in place of --source: the file UID/NAME of the staging store"),
  PUBLISH (staging_store, "staging-store", OPTION_TEXT, "URL", NULL, "where uploads are staged"),
  PUBLISH (
    staging_keys_dir, "staging-keys-dir", OPTION_TEXT, "DIR", NULL,
    "its keys as they are now, files accessKey and secretKey: one that refuses others ends this worker, for another "
    "to begin with them"),
  PUBLISH (registry, "registry", OPTION_TEXT, "HOST", NULL, "the module's registry, HOST[:PORT]"),
  PUBLISH (registry_ca_file, "registry-ca-file", OPTION_TEXT, "FILE", NULL, "who vouches for its certificate"),
  PUBLISH (registry_plain_http, "registry-plain-http", OPTION_FLAG, NULL, NULL, "it speaks HTTP without TLS"),
  PUBLISH (registry_login_dir, "registry-login-dir", OPTION_TEXT, "DIR", NULL,
           "the login for it: files username and password, read anew for each attempt"),
  PUBLISH (repository, "repository", OPTION_TEXT, "NAME", NULL, "where in it the model goes"),
  PUBLISH (namespace, "namespace", OPTION_TEXT, "NS", NULL, "the module's namespace, with the worker's state"),
  PUBLISH (accounting, "accounting", OPTION_TEXT, "NAME", NULL,
           "the ConfigMap with the storage's books (default: none is kept)"),
  PUBLISH (capacity_limit, "capacity-limit", OPTION_QUANTITY, "QUANTITY", NULL,
           "room for all models together (default: no limit)"),
  PUBLISH (termination_file, "termination-file", OPTION_TEXT, "FILE", NULL,
           "where the result is left (default " TERMINATION_FILE ")"),
  PUBLISH (log_level, "log-level", OPTION_TEXT, "LEVEL", program_log_levels,
           "least level that is logged (default info)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

static gboolean
check_settings (const Settings *settings, GError **error)
{
  const struct {
    const char *name, *value;
  } needed[] = {
    { "owner-kind", settings->owner_kind }, { "owner-name", settings->owner_name },
    { "owner-uid", settings->owner_uid },   { "registry", settings->registry },
    { "repository", settings->repository }, { "namespace", settings->namespace },
  };
  for (guint i = 0; i < G_N_ELEMENTS (needed); i++)
    if (needed[i].value == NULL || *needed[i].value == '\0')
      return cli_usage_fail (error, "--%s is missing", needed[i].name);
  if ((strcmp (settings->owner_kind, "Model") == 0) != (settings->owner_namespace != NULL))
    return cli_usage_fail (error, "--owner-namespace is for a Model, and a Model has one");
  if ((settings->source != NULL) == (settings->staged_file != NULL))
    return cli_usage_fail (error, "one of --source and --staged-file is needed");
  if ((settings->staged_file != NULL) != (settings->staging_store != NULL))
    return cli_usage_fail (error, "--staged-file and --staging-store go together");
  return TRUE;
}

static Repository *
open_registry (const WorkerRegistry *registry, const char *repository, GError **error)
{
  RegistryConfig config = { .host = registry->host,
                            .plain_http = registry->plain_http,
                            .ca_file = registry->ca_file,
                            .username = registry->username,
                            .password = registry->password,
                            .notes = registry->notes };
  return repository_remote_new (&config, repository, error);
}

static ObjectStore *
open_store (Ctx *ctx, const char *url, GError **error)
{
  return places_open_objects (ctx, url, FALSE, error);
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  static const WorkerPlaces adapters = { open_registry, open_store };
  const Settings *settings = data;
  g_auto (KubeConfig) config = { 0 };
  if (!check_settings (settings, error))
    return FALSE;
  program_start_log (cli, settings->log_level, "publish");
  mallopt (M_ARENA_MAX, 4); /* a few threads, large buffers: what one freed the others should find */
  WorkerOrder order = {
    .owner = { settings->owner_kind, settings->owner_name, settings->owner_namespace, settings->owner_uid },
    .owner_generation = (gint64) MIN (settings->owner_generation, G_MAXINT64),
    .source_url = settings->source,
    .revision = settings->revision,
    .token_file = settings->token_file,
    .staged_file = settings->staged_file,
    .staging_store = settings->staging_store,
    .staging_keys_dir = settings->staging_keys_dir,
    .registry_host = settings->registry,
    .registry_ca_file = settings->registry_ca_file,
    .registry_login_dir = settings->registry_login_dir,
    .registry_plain_http = settings->registry_plain_http,
    .repository = settings->repository,
    .namespace = settings->namespace,
    .accounting = settings->accounting,
    .capacity_limit_bytes = settings->capacity_limit,
    .termination_file = settings->termination_file != NULL ? settings->termination_file : TERMINATION_FILE,
  };
  g_autoptr (KubeClient) client = kube_config_load (NULL, NULL, &config, error) ? kube_client_new (&config, error)
                                                                                : NULL;
  return client != NULL && worker_run (ctx, &order, client, &adapters, error);
}

static const Example examples[] = {
  { "publish --owner-kind Model --owner-namespace team --owner-name minilm --owner-uid 5e1c \\\n"
    "      --source https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 \\\n"
    "      --registry dmcr.d8-ai-models.svc --repository ai-models/catalog/namespaced/team/minilm/5e1c \\\n"
    "      --namespace d8-ai-models",
    "What the controller starts for a Model." },
};

const Command publish_command = {
  .name = "publish",
  .summary = "Publish the model of a Kubernetes object; started by the controller",
  .usage = "",
  .about = "The publication worker: reads the model's source, chooses and checks its files, sets room\n"
           "aside in the storage's books, moves the files into the module's registry and reads the\n"
           "artifact back. Its progress is in the Secret ai-model-publish-state-UID of the module's\n"
           "namespace, with what another Pod needs to go on when this one is killed; nothing of the\n"
           "model is kept on disk. What passes (network, rate limits, a registry that is away) is\n"
           "waited out and told there as well. The end is one JSON object in the termination file:\n"
           "a result, a failure for good, or an interruption. SIGTERM interrupts.",
  .options = &group,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
