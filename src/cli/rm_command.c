#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/store_removal.h"
#include "cli/target.h"
#include "storage/collect.h"

typedef struct {
  guint n_manifests;
  guint64 freed_bytes;
  gboolean has_freed;
} Removed;

static void
answer (Cli *cli, const char *reference, const Removed *removed)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "reference", reference);
  report_number (doc, root, "removedManifests", removed->n_manifests);
  if (removed->has_freed)
    report_number (doc, root, "freedBytes", removed->freed_bytes);
  cli_answer (cli, doc);
}

static void
say (Cli *cli, const char *reference, const Removed *removed)
{
  g_autofree char *freed = text_bytes (removed->freed_bytes);
  cli_say (cli, "Removed %s", reference);
  if (removed->has_freed)
    cli_say (cli, ", %s freed", freed);
  cli_say (cli, "\n");
}

static gboolean
remove_local (Ctx *ctx, Cli *cli, const Target *target, Repository *repository, Removed *out_removed, GError **error)
{
  const Reference *reference = target->reference;
  BlobStore *blobs = cli_store (cli, FALSE, error);
  if (blobs == NULL
      || !store_remove (ctx, blobs, repository, reference->has_digest ? NULL : reference->tag, &reference->digest,
                        &out_removed->n_manifests, error))
    return FALSE;
  StoreCollectStats stats = { 0 };
  g_autoptr (GError) problem = NULL;
  if (store_collect (ctx, blobs, 0, &stats, &problem))
    {
      out_removed->freed_bytes = stats.freed_bytes;
      out_removed->has_freed = TRUE;
    }
  else if (am_error_has_reason (problem, "StoreBusy") || am_error_has_reason (problem, "LocksUnsupported"))
    cli_remark (cli, "Note: %s", problem->message);
  else
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return TRUE;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  Removed removed = { 0 };
  g_autoptr (Repository) repository = NULL;
  g_autoptr (Target) target = target_find (cli, arguments[0], &repository, error);
  if (target == NULL)
    return FALSE;
  gboolean good = repository->is_local ? remove_local (ctx, cli, target, repository, &removed, error)
                                       : repository_remove_manifest (ctx, repository, target->selector, error);
  if (!good)
    return FALSE;
  removed.n_manifests += !repository->is_local && target->reference->has_digest;
  answer (cli, arguments[0], &removed);
  say (cli, arguments[0], &removed);
  return TRUE;
}

static const Example examples[] = {
  { "rm minilm:v1", "Forget a model of the local store and free what nothing else uses." },
  { "rm registry.example/team/minilm@sha256:...", "Remove a manifest, and every tag of it, from a registry." },
};

const Command rm_command = {
  .name = "rm",
  .summary = "Remove a model",
  .usage = "REF",
  .about = "In the local store a tag is removed, and with the last tag of a manifest the manifest itself;\n"
           "then the space is freed that no other model uses. In a registry a tag is only untagged, as OCI\n"
           "says; a digest removes the manifest with all its tags, and the registry frees space in its\n"
           "own time.",
  .min_arguments = 1,
  .max_arguments = 1,
  .arguments = { ARGUMENT_REFERENCE },
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
