#include "main/materialize_applet.h"

#include <malloc.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/program.h"
#include "cluster/materialize_result.h"
#include "cluster/termination_message.h"
#include "delivery/materialize.h"
#include "domain/materialize_failure.h"
#include "domain/publication_failure.h"
#include "domain/read_grant.h"
#include "registry/repository_remote.h"

#define TERMINATION_FILE "/dev/termination-log"
#define GRANT_USER "grant"
#define REGISTRY_SHOWN "the module's registry"
#define DEFAULT_PATIENCE_S 1800
#define MAX_WAIT_S (7 * 24 * 3600)
/* What is on its way when the process is killed is read again, about a chunk on each; hashing what came is slower than these bring. */
#define N_CONNECTIONS 3
#define INTERRUPTED "told to end before the model was whole; another Job goes on where it stopped"

typedef struct {
  const char *registry, *registry_ca_file, *artifact, *grant_file, *volume, *termination_file, *log_level;
  gboolean registry_plain_http;
  guint64 expected_bytes, patience_s, stale_s;
} Settings;

#define MATERIALIZE(member, name, type, argument, choices, help) \
  OPTION (Settings, member, name, '\0', type, argument, choices, help)
static const Option options[] = {
  MATERIALIZE (registry, "registry", OPTION_TEXT, "HOST", NULL, "the module's registry, HOST[:PORT]"),
  MATERIALIZE (registry_ca_file, "registry-ca-file", OPTION_TEXT, "FILE", NULL, "who vouches for its certificate"),
  MATERIALIZE (registry_plain_http, "registry-plain-http", OPTION_FLAG, NULL, NULL, "it speaks HTTP without TLS"),
  MATERIALIZE (artifact, "artifact", OPTION_TEXT, "NAME@DIGEST", NULL,
               "the repository in it, and the model's digest"),
  MATERIALIZE (grant_file, "grant-file", OPTION_TEXT, "FILE", NULL,
               "the read grant for exactly this artifact; read anew for each attempt"),
  MATERIALIZE (volume, "volume", OPTION_TEXT, "DIR", NULL,
               "where the volume is mounted; the model appears in DIR/model"),
  MATERIALIZE (expected_bytes, "expected-bytes", OPTION_NUMBER, "N", NULL,
               "size of the model's files, as the controller knows it"),
  MATERIALIZE (patience_s, "patience", OPTION_NUMBER, "SECONDS", NULL,
               "give up when nothing moved for so long (default 1800)"),
  MATERIALIZE (stale_s, "stale-after", OPTION_NUMBER, "SECONDS", NULL,
               "take over from a Job that gave no sign of life for so long (default 20)"),
  MATERIALIZE (termination_file, "termination-file", OPTION_TEXT, "FILE", NULL,
               "where the result is left (default " TERMINATION_FILE ")"),
  MATERIALIZE (log_level, "log-level", OPTION_TEXT, "LEVEL", program_log_levels,
               "least level that is logged (default info)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

/* The settings, taken apart. */
typedef struct {
  const Settings *settings;
  char *host_name;  /* without the port */
  char *repository; /* in front of the digest */
  const char *digest;
} Task;

static void
task_clear (Task *self)
{
  g_free (self->host_name);
  g_free (self->repository);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Task, task_clear)

static gboolean
check_settings (const Settings *settings, Task *task, GError **error)
{
  Digest digest;
  const struct {
    const char *name, *value;
  } needed[] = {
    { "registry", settings->registry },
    { "artifact", settings->artifact },
    { "grant-file", settings->grant_file },
    { "volume", settings->volume },
  };
  for (guint i = 0; i < G_N_ELEMENTS (needed); i++)
    if (needed[i].value == NULL || *needed[i].value == '\0')
      return cli_usage_fail (error, "--%s is missing", needed[i].name);
  const char *at = strrchr (settings->artifact, '@');
  if (at == NULL || !digest_parse (at + 1, &digest, NULL))
    return cli_usage_fail (error, "--artifact takes NAME@sha256:..., not \"%s\"", settings->artifact);
  if (settings->patience_s > MAX_WAIT_S || settings->stale_s > MAX_WAIT_S)
    return cli_usage_fail (error, "--patience and --stale-after are at most %d", MAX_WAIT_S);
  const char *colon = strrchr (settings->registry, ':');
  *task = (Task){ settings,
                  colon != NULL ? g_strndup (settings->registry, (gsize) (colon - settings->registry))
                                : g_strdup (settings->registry),
                  g_strndup (settings->artifact, (gsize) (at - settings->artifact)), at + 1 };
  return TRUE;
}

static Repository *
open_repository (gpointer data, GError **error)
{
  const Task *task = data;
  g_autoptr (GBytes) bytes = file_read (task->settings->grant_file, READ_GRANT_MAX_BYTES + 2, error);
  if (bytes == NULL)
    return NULL;
  g_autofree char *token = g_strstrip (g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes)));
  RegistryConfig config = { .host = task->settings->registry,
                            .plain_http = task->settings->registry_plain_http,
                            .ca_file = task->settings->registry_ca_file,
                            .username = GRANT_USER,
                            .password = token,
                            .n_parallel = N_CONNECTIONS };
  return repository_remote_new (&config, task->repository, error);
}

/* In a user's namespace nobody is to read where the module's registry is. Caller frees. */
static char *
veil (const char *text, gpointer data)
{
  const Task *task = data;
  const PublicationVeil veils[] = { { task->host_name, REGISTRY_SHOWN }, { task->repository, REGISTRY_SHOWN } };
  return publication_words (text, veils, G_N_ELEMENTS (veils));
}

static void
start_log (const Cli *cli, const Task *task)
{
  program_start_log (cli, task->settings->log_level, "materialize");
  am_log_set_veil (veil, (gpointer) task);
}

static gboolean
write_message (const char *path, const MaterializeOutcome *outcome, GError **error)
{
  g_autofree char *text = materialize_result_format (outcome);
  return termination_message_write (path, text, error);
}

/* The same error in words for a user of the cluster. */
static GError *
in_words (const Task *task, const GError *problem, const MaterializeVerdict *verdict)
{
  g_autofree char *words = veil (problem->message, (gpointer) task);
  GError *error = NULL;
  am_fail (&error, am_error_info_of (problem)->code, verdict->reason, "%s; %s", words, verdict->remedy);
  return error;
}

static gboolean
tell_end (const Task *task, const MaterializeResult *result, const GError *problem, GError **error)
{
  const char *path = task->settings->termination_file != NULL ? task->settings->termination_file : TERMINATION_FILE;
  MaterializeOutcome outcome = { .end = MATERIALIZE_DONE,
                                 .digest = (char *) task->digest,
                                 .size_bytes = result->logical_bytes,
                                 .n_files = result->n_files,
                                 .moved_bytes = result->moved_bytes,
                                 .was_there = result->was_there };
  if (problem == NULL)
    return write_message (path, &outcome, error);
  MaterializeVerdict verdict = materialize_judge (problem);
  gboolean is_interrupted = am_error_is (problem, AM_ERROR_CANCELLED);
  g_autoptr (GError) shown = is_interrupted ? g_error_copy (problem) : in_words (task, problem, &verdict);
  outcome = (MaterializeOutcome){ .end = is_interrupted ? MATERIALIZE_INTERRUPTED : MATERIALIZE_FAILED,
                                  .reason = (char *) verdict.reason,
                                  .message = is_interrupted ? (char *) INTERRUPTED : shown->message,
                                  .may_retry = verdict.may_retry };
  if (!write_message (path, &outcome, error))
    return FALSE;
  g_propagate_error (error, g_steal_pointer (&shown));
  return FALSE;
}

static void
log_end (Ctx *ctx, const Task *task, const MaterializeResult *result)
{
  am_log_info (ctx, result->was_there ? "the volume held the model already" : "materialized", "digest", task->digest,
               "files", AM_U64 (result->n_files), "total_bytes", AM_U64 (result->logical_bytes), "kept_bytes",
               AM_U64 (result->kept_bytes), "moved_bytes", AM_U64 (result->moved_bytes), NULL);
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  g_auto (Task) task = { NULL };
  g_autoptr (GError) problem = NULL;
  MaterializeResult result = { 0 };
  if (!check_settings (settings, &task, error))
    return FALSE;
  start_log (cli, &task);
  mallopt (M_ARENA_MAX, 2); /* a few threads, large buffers: what one freed the others should find */
  guint64 patience_s = settings->patience_s > 0 ? settings->patience_s : DEFAULT_PATIENCE_S;
  VolumeTimes times = volume_times;
  if (settings->stale_s > 0)
    times.stale_ms = (gint64) settings->stale_s * 1000;
  times.beat_ms = MIN (times.beat_ms, times.stale_ms / 4);
  const MaterializeOrder order = { .open = open_repository,
                                   .open_data = &task,
                                   .digest = task.digest,
                                   .volume = settings->volume,
                                   .expected_bytes = settings->expected_bytes,
                                   .patience_ms = (gint64) patience_s * 1000,
                                   .times = &times };
  am_log_info (ctx, "materializing a model", "digest", task.digest, "volume", settings->volume, NULL);
  if (materialize (ctx, &order, &result, &problem))
    log_end (ctx, &task, &result);
  gboolean done = tell_end (&task, &result, problem, error);
  am_log_set_veil (NULL, NULL); /* what is logged after this is in words already */
  return done;
}

static const Example examples[] = {
  { "materialize --registry dmcr.d8-ai-models.svc --registry-ca-file /grant/ca.crt \\\n"
    "      --artifact ai-models/catalog/namespaced/team/minilm/5e1c@sha256:... \\\n"
    "      --grant-file /grant/token --volume /volume --expected-bytes 90868376",
    "What the controller's Job runs for a claim." },
};

const Command materialize_command = {
  .name = "materialize",
  .summary = "Copy a model to a shared volume; started by the controller",
  .usage = "",
  .about = "The materializer: reads one artifact with a signed read grant and copies it to a volume that\n"
           "several Jobs may write at once. The model appears whole, as DIR/model, when every byte was\n"
           "verified; until then it grows in DIR/.work. One that was killed is gone on from, another\n"
           "that works on the same volume is waited for, what is damaged is mended. A registry that is\n"
           "away is waited out. No Kubernetes API, no other folder and no privilege is needed. The end\n"
           "is one JSON object in the termination file: a result, a failure with its remedy and whether\n"
           "another Job helps, or an interruption. SIGTERM interrupts.",
  .options = &group,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
