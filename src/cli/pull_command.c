#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/target.h"
#include "delivery/pull.h"

typedef struct {
  gboolean force;
} Settings;

static const Option options[] = {
  OPTION (Settings, force, "force", 'f', OPTION_FLAG, NULL, NULL, "replace DIR when it holds something else"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

static void
answer (Cli *cli, const char *reference, const Artifact *artifact, const PullResult *result)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "reference", reference);
  report_digest (doc, root, "digest", &artifact->digest);
  report_text (doc, root, "directory", result->directory);
  report_flag (doc, root, "alreadyThere", result->was_there);
  report_number (doc, root, "files", result->n_files);
  report_number (doc, root, "logicalBytes", result->logical_bytes);
  report_number (doc, root, "keptBytes", result->kept_bytes);
  report_number (doc, root, "localBytes", result->local_bytes);
  report_number (doc, root, "movedBytes", result->moved_bytes);
  cli_answer (cli, doc);
}

static void
say (Cli *cli, const char *reference, const Artifact *artifact, const PullResult *result)
{
  char digest[DIGEST_STRING_SIZE];
  g_autofree char *size = text_bytes (result->logical_bytes), *moved = text_bytes (result->moved_bytes);
  g_autofree char *kept = text_bytes (result->kept_bytes), *local = text_bytes (result->local_bytes);
  if (result->was_there)
    {
      cli_say (cli, "%s holds %s already, every byte of it verified\n", result->directory, reference);
      return;
    }
  cli_say (cli, "Pulled  %s\nDigest  %s\nFiles   %u, %s, verified\nMoved   %s", result->directory,
           digest_format (&artifact->digest, digest), result->n_files, size, moved);
  if (result->kept_bytes > 0)
    cli_say (cli, "; %s were there from an earlier run", kept);
  if (result->local_bytes > 0)
    cli_say (cli, "; %s came from the local store", local);
  cli_say (cli, "\n");
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  g_auto (PullResult) result = { NULL };
  g_autoptr (Repository) repository = NULL;
  g_autoptr (Target) target = target_find (cli, arguments[0], &repository, error);
  if (target == NULL)
    return FALSE;
  g_autoptr (Artifact) artifact = artifact_resolve (ctx, repository, target->selector, error);
  if (artifact == NULL)
    return FALSE;
  g_autoptr (Progress) progress = cli_progress (cli, "pulling");
  TransferEvents events = report_progress (progress);
  PullOptions pull = {
    .directory = arguments[1],
    .force = settings->force,
    .local = cli_store_if_any (cli),
    .events = &events,
  };
  if (!pull_artifact (ctx, repository, artifact, &pull, &result, error))
    return FALSE;
  answer (cli, arguments[0], artifact, &result);
  say (cli, arguments[0], artifact, &result);
  return TRUE;
}

static const Example examples[] = {
  { "pull minilm:v1 ./minilm", "Write the files of a model of the local store into ./minilm." },
  { "pull registry.example/team/llama@sha256:... /srv/llama", "Exactly this artifact, from a registry." },
};

const Command pull_command = {
  .name = "pull",
  .summary = "Fetch a model into a directory",
  .usage = "REF DIR",
  .about = "The files appear in DIR all at once, or not at all: they grow beside it, in\n"
           "`.DIR.partial-...`, and take its place when every byte was verified. A pull that was\n"
           "interrupted, even by kill -9, goes on where it stopped. From our own registries only\n"
           "those chunks travel that are neither on disk nor in the local store. DIR may exist when\n"
           "it is empty or holds exactly this model already.",
  .min_arguments = 2,
  .max_arguments = 2,
  .arguments = { ARGUMENT_REFERENCE, ARGUMENT_DIRECTORY },
  .options = &group,
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
