#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/model_report.h"
#include "cli/report.h"
#include "cli/source_argument.h"
#include "cli/target.h"
#include "publish/publish.h"
#include "publish/size_estimate.h"

typedef struct {
  gboolean dry_run;
  const char *format, *variant, *token_file;
} Settings;

static const char *const formats[] = { "safetensors", "gguf", "diffusers", NULL };
static const Option options[] = {
  OPTION (Settings, dry_run, "dry-run", 'n', OPTION_FLAG, NULL, NULL,
          "check everything and say what would be pushed"),
  OPTION (Settings, format, "format", '\0', OPTION_TEXT, "FORMAT", formats,
          "take the files of this format where several fit"),
  OPTION (Settings, variant, "variant", '\0', OPTION_TEXT, "NAME", NULL,
          "Diffusers: the variant of the weights, fp16"),
  OPTION (Settings, token_file, "token-file", '\0', OPTION_TEXT, "FILE", NULL,
          "read the hub's token from a file, - is standard input (else $HF_TOKEN)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

static void
answer (Cli *cli, const char *reference, const PublishPlan *plan, const PublishResult *result,
        guint64 estimated_bytes)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "reference", reference);
  report_flag (doc, root, "dryRun", result == NULL);
  if (result != NULL)
    {
      report_digest (doc, root, "digest", &result->digest);
      report_number (doc, root, "movedBytes", result->moved_bytes);
    }
  report_number (doc, root, "logicalBytes", plan->total_bytes);
  if (result == NULL)
    report_number (doc, root, "estimatedStoredBytes", estimated_bytes);
  model_report_source_json (doc, root, plan->source);
  model_report_json (doc, root, plan->profile);
  model_report_files_json (doc, root, plan->selection, result != NULL ? result->digests : NULL);
  cli_answer (cli, doc);
}

static void
say (Cli *cli, const char *reference, const PublishPlan *plan, const PublishResult *result, guint64 estimated_bytes)
{
  char digest[DIGEST_STRING_SIZE];
  g_autofree char *size = text_bytes (plan->total_bytes);
  model_report_source_say (cli, plan->source);
  model_report_say (cli, plan->profile);
  model_report_files_say (cli, plan->selection);
  if (result == NULL)
    {
      g_autofree char *stored = text_bytes (estimated_bytes);
      cli_say (
        cli,
        "Nothing was pushed: %u files, %s, would become %s\nIt would take about %s in the store (estimated from samples)\n",
        plan->n_files, size, reference, stored);
      return;
    }
  g_autofree char *moved = text_bytes (result->moved_bytes);
  cli_say (cli, "Pushed  %s\nDigest  %s\nFiles   %u, %s\nMoved   %s\n", reference,
           digest_format (&result->digest, digest), plan->n_files, size, moved);
}

static gboolean
push (Ctx *ctx, Cli *cli, const Target *target, const char *reference, const PublishPlan *plan, GError **error)
{
  g_auto (PublishResult) result = { 0 };
  g_autoptr (Repository) repository = target_open (cli, target, &cli->common.registry, TRUE, error);
  if (repository == NULL)
    return FALSE;
  {
    g_autoptr (Progress) progress = cli_progress (cli, "pushing");
    TransferEvents events = report_progress (progress);
    if (!publish_run (ctx, plan, repository, target->reference->tag, &events, &result, error))
      return FALSE;
  }
  answer (cli, reference, plan, &result, 0);
  say (cli, reference, plan, &result, 0);
  return TRUE;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  SelectionWish wish = { .variant = settings->variant };
  g_autoptr (Target) target = target_parse (arguments[1], error);
  if (target == NULL)
    return FALSE;
  if (target->reference->has_digest)
    return cli_usage_fail (error, "a push is named by a tag: its digest follows from the files");
  wish.has_format = settings->format != NULL && model_format_parse (settings->format, &wish.format);
  ModelSource *source = source_argument_open (ctx, cli, arguments[0], settings->token_file, error);
  g_autoptr (PublishPlan) plan = source != NULL ? publish_plan_new (ctx, source, &wish, error) : NULL;
  if (plan == NULL)
    return FALSE;
  if (!settings->dry_run)
    return push (ctx, cli, target, arguments[1], plan, error);
  guint64 estimated_bytes = 0;
  if (!publish_plan_estimate (ctx, plan, &estimated_bytes, error))
    return FALSE;
  answer (cli, arguments[1], plan, NULL, estimated_bytes);
  say (cli, arguments[1], plan, NULL, estimated_bytes);
  return TRUE;
}

static const Example examples[] = {
  { "push ./minilm minilm:v1", "A directory into the local store." },
  { "push llama.gguf registry.example/team/llama:q4", "One file to a registry." },
  { "push --dry-run model.tar.gz demo", "What would be taken from an archive, and what is in it." },
  { "push https://huggingface.co/owner/name registry.example/team/name:v1", "A model of the Hugging Face hub." },
  { "push https://ollama.com/library/qwen3:4b registry.example/team/qwen3:4b", "A model of Ollama's registry." },
};

const Command push_command = {
  .name = "push",
  .summary = "Publish a model from a file, a directory, an archive or a hub",
  .usage = "PATH|URL REF",
  .about = "The format (Safetensors, GGUF, Diffusers) is recognised and every file checked before a\n"
           "byte moves; what does not belong to the model is left out and listed. Each file becomes\n"
           "one layer of a standard OCI artifact, so the same files give the same digest anywhere.\n"
           "Archives (tar, tar.gz, tar.zst, zip) are told by their content, unpacked on the way. To our own\n"
           "registries only chunks travel that they lack; an interrupted push goes on where it was.\n"
           "A model of the Hugging Face hub is named by the address of its page, also of a branch, a\n"
           "folder or one file; it is checked by its headers first, then streamed and verified against\n"
           "the hub's hashes, and nothing of it is kept on this machine. Of a model of Ollama's registry,\n"
           "named by its page or as ollama://NAME:TAG, the GGUF file becomes NAME-TAG-QUANTIZATION.gguf.",
  .min_arguments = 2,
  .max_arguments = 2,
  .arguments = { ARGUMENT_PATH, ARGUMENT_REFERENCE },
  .options = &group,
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
