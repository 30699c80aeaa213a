#include "cli/commands.h"

#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/target.h"
#include "delivery/artifact.h"
#include "storage/repository_links.h"

/* What is known of one tag. */
typedef struct {
  Digest digest;
  guint64 logical_bytes, stored_bytes;
  gint64 modified_ms;
  gboolean is_whole; /* its manifest and blobs could be read */
} TagFacts;

/* Sizes of what a manifest names, as far as the store has it. */
static gboolean
measure (Ctx *ctx, BlobStore *blobs, Repository *repository, const char *tag, TagFacts *facts, GError **error)
{
  g_autoptr (GBytes) bytes = repository_get_manifest (ctx, repository, tag, NULL, &facts->digest, error);
  g_autoptr (Manifest) manifest = bytes != NULL ? manifest_parse (bytes, NULL, error) : NULL;
  if (manifest == NULL)
    return FALSE;
  g_autoptr (GArray) refs = manifest_refs (manifest);
  for (guint i = 0; i < refs->len; i++)
    {
      const Descriptor *descriptor = g_array_index (refs, ManifestRef, i).descriptor;
      BlobInfo info;
      facts->logical_bytes += descriptor->size_bytes;
      if (!blob_store_stat (ctx, blobs, &descriptor->digest, &info, error))
        return FALSE;
      facts->stored_bytes += info.stored_bytes;
    }
  ObjectInfo object;
  g_autofree char *key = blob_data_key (&facts->digest);
  if (!object_store_stat (ctx, blob_store_objects (blobs), key, &object, error))
    return FALSE;
  facts->modified_ms = object.modified_ms;
  return TRUE;
}

static char *
age_text (gint64 modified_ms)
{
  gint64 minutes = MAX (0, g_get_real_time () / 1000 - modified_ms) / 60000;
  if (minutes < 60)
    return g_strdup_printf ("%d min", (int) minutes);
  if (minutes < 48 * 60)
    return g_strdup_printf ("%d h", (int) (minutes / 60));
  return g_strdup_printf ("%d days", (int) (minutes / (24 * 60)));
}

typedef struct {
  Cli *cli;
  BlobStore *blobs; /* NULL for a registry */
  yyjson_mut_doc *doc;
  yyjson_mut_val *models;
  Table *table;
} Listing;

static void
add_local_tag (Ctx *ctx, Listing *listing, Repository *repository, const char *tag, yyjson_mut_val *item)
{
  char digest[DIGEST_STRING_SIZE] = "";
  TagFacts facts = { 0 };
  g_autoptr (GError) problem = NULL;
  if (!measure (ctx, listing->blobs, repository, tag, &facts, &problem))
    {
      /* A damaged entry must not hide the others. */
      report_text (listing->doc, item, "problem", problem->message);
      table_add (listing->table, repository->name, tag, "", "", "", problem->message);
      return;
    }
  g_autofree char *logical = text_bytes (facts.logical_bytes), *stored = text_bytes (facts.stored_bytes);
  g_autofree char *age = age_text (facts.modified_ms);
  report_digest (listing->doc, item, "digest", &facts.digest);
  report_number (listing->doc, item, "logicalBytes", facts.logical_bytes);
  report_number (listing->doc, item, "storedBytes", facts.stored_bytes);
  report_number (listing->doc, item, "modifiedMs", (guint64) MAX (0, facts.modified_ms));
  digest_format (&facts.digest, digest);
  digest[strlen ("sha256:") + 12] = '\0';
  table_add (listing->table, repository->name, tag, logical, stored, age, digest);
}

static gboolean
add_repository (Ctx *ctx, Listing *listing, Repository *repository, GError **error)
{
  g_autoptr (GPtrArray) tags = repository_list_tags (ctx, repository, error);
  for (guint i = 0; tags != NULL && i < tags->len; i++)
    {
      const char *tag = g_ptr_array_index (tags, i);
      yyjson_mut_val *item = report_item (listing->doc, listing->models);
      report_text (listing->doc, item, "repository", repository->display);
      report_text (listing->doc, item, "tag", tag);
      if (listing->blobs != NULL)
        add_local_tag (ctx, listing, repository, tag, item);
      else
        table_add (listing->table, repository->display, tag, "", "", "", "");
    }
  return tags != NULL;
}

static gboolean
add_named (Ctx *ctx, Listing *listing, const char *name, GError **error)
{
  g_autoptr (Target) target = target_parse (name, error);
  g_autoptr (Repository) repository
    = target != NULL ? target_open (listing->cli, target, &listing->cli->common.registry, FALSE, error) : NULL;
  if (repository == NULL)
    return FALSE;
  listing->blobs = repository->is_local ? cli_store (listing->cli, FALSE, error) : NULL;
  return (listing->blobs != NULL || !repository->is_local) && add_repository (ctx, listing, repository, error);
}

static gboolean
add_everything (Ctx *ctx, Listing *listing, GError **error)
{
  listing->blobs = cli_store_if_any (listing->cli);
  if (listing->blobs == NULL)
    return TRUE; /* nothing was ever stored here */
  g_autoptr (GPtrArray) names = repository_list (ctx, blob_store_objects (listing->blobs), error);
  for (guint i = 0; names != NULL && i < names->len; i++)
    {
      g_autoptr (Repository) repository
        = listing->cli->places->open_local (listing->blobs, g_ptr_array_index (names, i), error);
      if (repository == NULL || !add_repository (ctx, listing, repository, error))
        return FALSE;
    }
  return names != NULL;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer settings, const char *const *arguments, GError **error)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  g_autoptr (Table) table = table_new (6, 1 << 2 | 1 << 3);
  Listing listing = { .cli = cli, .doc = doc, .models = report_array (doc, root, "models"), .table = table };
  gboolean ok = arguments[0] != NULL ? add_named (ctx, &listing, arguments[0], error)
                                     : add_everything (ctx, &listing, error);
  if (!ok)
    return FALSE;
  cli_answer (cli, doc);
  if (yyjson_mut_arr_size (listing.models) == 0)
    cli_remark (cli, "Nothing here yet. `ai-models push PATH REF` puts a model in.");
  table_say (table, cli, "");
  return TRUE;
}

static const Example examples[] = {
  { "list", "All models of the local store: size, stored size, age, digest." },
  { "list registry.example/team/llama", "The tags of a repository of a registry." },
};

const Command list_command = {
  .name = "list",
  .summary = "List models of the local store, or tags of a repository",
  .usage = "[REPOSITORY]",
  .about = "Columns: repository, tag, size of the files, size stored (chunks shared with other models\n"
           "count in each), age, digest. A model that cannot be read is listed with what is wrong.",
  .max_arguments = 1,
  .arguments = { ARGUMENT_REFERENCE },
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
