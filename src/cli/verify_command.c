#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/target.h"
#include "delivery/artifact_verify.h"

static void
answer (Cli *cli, const char *reference, const VerifyReport *report)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "reference", reference);
  report_digest (doc, root, "digest", &report->digest);
  report_flag (doc, root, "intact", report->damages->len == 0);
  report_number (doc, root, "manifests", report->n_manifests);
  report_number (doc, root, "blobs", report->n_blobs);
  report_number (doc, root, "bytes", report->n_bytes);
  yyjson_mut_val *damages = report_array (doc, root, "damages");
  for (guint i = 0; i < report->damages->len; i++)
    {
      const Damage *damage = report->damages->pdata[i];
      yyjson_mut_val *item = report_item (doc, damages);
      report_text (doc, item, "object", damage->object);
      report_text (doc, item, "file", damage->file);
      report_text (doc, item, "problem", damage->problem);
    }
  cli_answer (cli, doc);
}

static void
say (Cli *cli, const char *reference, const VerifyReport *report)
{
  char digest[DIGEST_STRING_SIZE];
  g_autofree char *size = text_bytes (report->n_bytes);
  for (guint i = 0; i < report->damages->len; i++)
    {
      const Damage *damage = report->damages->pdata[i];
      cli_say (cli, "damaged: %s%s%s%s: %s\n", damage->object, damage->file != NULL ? " (" : "",
               damage->file != NULL ? damage->file : "", damage->file != NULL ? ")" : "", damage->problem);
    }
  if (report->damages->len == 0)
    cli_say (cli, "%s is intact: %u blobs, %s, digest %s\n", reference, report->n_blobs, size,
             digest_format (&report->digest, digest));
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  g_auto (VerifyReport) report = { .damages = NULL };
  g_autoptr (Repository) repository = NULL;
  g_autoptr (Target) target = target_find (cli, arguments[0], &repository, error);
  if (target == NULL)
    return FALSE;
  g_autoptr (Progress) progress = cli_progress (cli, "verifying");
  TransferEvents events = report_progress (progress);
  BlobStore *blobs = repository->is_local ? cli_store (cli, FALSE, error) : NULL;
  if (!artifact_verify (ctx, repository, target->selector, blobs, &events, &report, error))
    return FALSE;
  answer (cli, arguments[0], &report);
  say (cli, arguments[0], &report);
  if (report.damages->len == 0)
    return TRUE;
  const Damage *first = report.damages->pdata[0];
  return am_fail (error, AM_ERROR_DATA_LOSS, "Damaged", "%s is damaged: %u object%s, the first is %s", arguments[0],
                  report.damages->len, report.damages->len == 1 ? "" : "s", first->object);
}

static const Example examples[] = {
  { "verify minilm:v1", "Reread every stored byte of a model of the local store." },
  { "verify registry.example/team/minilm:v1", "Read a model from a registry and check it, keeping nothing." },
};

const Command verify_command = {
  .name = "verify",
  .summary = "Reread a stored model and report what is damaged",
  .usage = "REF",
  .about = "Reads the manifest and every blob it names and compares digests. In the local store each\n"
           "chunk is checked where it lies, and every damaged object is named. Ends with status 7\n"
           "when something is damaged or missing.",
  .min_arguments = 1,
  .max_arguments = 1,
  .arguments = { ARGUMENT_REFERENCE },
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
