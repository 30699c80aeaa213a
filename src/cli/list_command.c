#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/store_listing.h"
#include "cli/target.h"

#define SHORT_DIGEST_CHARS 19 /* "sha256:" and 12 digits */

typedef struct {
  gboolean names;
} Settings;

static const Option options[] = {
  OPTION (Settings, names, "names", '\0', OPTION_FLAG, NULL, NULL, "only references, one a line"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

/* "3 days": the largest unit that fits. */
static char *
format_age (gint64 modified_ms)
{
  static const struct {
    gint64 seconds;
    const char *unit;
  } units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };
  gint64 seconds = MAX (0, g_get_real_time () / G_USEC_PER_SEC - modified_ms / 1000);
  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    {
      gint64 count = seconds / units[i].seconds;
      if (count > 0)
        return g_strdup_printf ("%" G_GINT64_FORMAT " %s%s", count, units[i].unit, count == 1 ? "" : "s");
    }
  return g_strdup ("now");
}

static char *
format_time (gint64 modified_ms)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (modified_ms / 1000);
  return time != NULL ? g_date_time_format (time, "%Y-%m-%dT%H:%M:%SZ") : NULL;
}

static void
answer_local (Cli *cli, const StoreListing *listing)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  yyjson_mut_val *models = report_array (doc, root, "models");
  guint64 logical = 0;
  for (guint i = 0; i < listing->models->len; i++)
    {
      const StoredModel *model = &g_array_index (listing->models, StoredModel, i);
      g_autofree char *time = format_time (model->modified_ms);
      yyjson_mut_val *item = report_item (doc, models);
      report_text (doc, item, "repository", model->repository);
      report_text (doc, item, "tag", model->tag);
      report_digest (doc, item, "digest", &model->digest);
      report_number (doc, item, "logicalBytes", model->logical_bytes);
      report_number (doc, item, "storedBytes", model->stored_bytes);
      report_text (doc, item, "storedAt", time);
      report_text (doc, item, "problem", model->problem);
      logical += model->logical_bytes;
    }
  report_number (doc, root, "logicalBytes", logical);
  report_number (doc, root, "storedBytes", listing->stored_bytes);
  cli_answer (cli, doc);
}

static void
say_local (Cli *cli, const StoreListing *listing)
{
  g_autoptr (Table) table = table_new (6, 1 << 2 | 1 << 3);
  guint64 logical = 0;
  if (listing->models->len == 0)
    {
      cli_remark (cli, "nothing here yet: `ai-models push PATH REF` puts a model in");
      return;
    }
  table_add (table, "NAME", "TAG", "SIZE", "STORED", "DIGEST", "AGE");
  for (guint i = 0; i < listing->models->len; i++)
    {
      const StoredModel *model = &g_array_index (listing->models, StoredModel, i);
      char digest[DIGEST_STRING_SIZE];
      g_autofree char *size = text_bytes (model->logical_bytes), *stored = text_bytes (model->stored_bytes);
      g_autofree char *age = format_age (model->modified_ms);
      g_autofree char *short_digest = g_strndup (digest_format (&model->digest, digest), SHORT_DIGEST_CHARS);
      table_add (table, model->repository, model->tag != NULL ? model->tag : "-", size, stored, short_digest,
                 model->problem != NULL ? model->problem : age);
      logical += model->logical_bytes;
    }
  g_autofree char *logical_text = text_bytes (logical), *stored_text = text_bytes (listing->stored_bytes);
  table_say (table, cli, "");
  cli_say (cli, "\n%u in all: %s, stored in %s\n", listing->models->len, logical_text, stored_text);
}

static void
say_names (Cli *cli, const StoreListing *listing)
{
  for (guint i = 0; i < listing->models->len; i++)
    {
      const StoredModel *model = &g_array_index (listing->models, StoredModel, i);
      char digest[DIGEST_STRING_SIZE];
      if (model->tag != NULL)
        cli_say (cli, "%s:%s\n", model->repository, model->tag);
      else
        cli_say (cli, "%s@%s\n", model->repository, digest_format (&model->digest, digest));
    }
}

/* A store that was never made is an empty one. */
static StoreListing *
list_store (Ctx *ctx, Cli *cli, const char *repository, gboolean with_sizes, GError **error)
{
  g_autoptr (GError) problem = NULL;
  BlobStore *blobs = cli_store (cli, FALSE, &problem);
  if (blobs != NULL)
    return store_listing_new (ctx, blobs, repository, with_sizes, error);
  if (repository == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return store_listing_new_empty ();
  g_propagate_error (error, g_steal_pointer (&problem));
  return NULL;
}

static gboolean
list_local (Ctx *ctx, Cli *cli, const char *repository, const Settings *settings, GError **error)
{
  g_autoptr (StoreListing) listing = list_store (ctx, cli, repository, !settings->names, error);
  if (listing == NULL)
    return FALSE;
  answer_local (cli, listing);
  if (settings->names)
    say_names (cli, listing);
  else
    say_local (cli, listing);
  return TRUE;
}

static gboolean
list_remote (Ctx *ctx, Cli *cli, const Target *target, const Settings *settings, GError **error)
{
  g_autoptr (Repository) repository = target_open (cli, target, &cli->common.registry, FALSE, error);
  if (repository == NULL)
    return FALSE;
  g_autoptr (GPtrArray) tags = repository_list_tags (ctx, repository, error);
  if (tags == NULL)
    return FALSE;
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "repository", repository->display);
  yyjson_mut_val *array = report_array (doc, root, "tags");
  for (guint i = 0; i < tags->len; i++)
    {
      yyjson_mut_arr_add_strcpy (doc, array, tags->pdata[i]);
      if (settings->names)
        cli_say (cli, "%s:%s\n", repository->display, (char *) tags->pdata[i]);
      else
        cli_say (cli, "%s\n", (char *) tags->pdata[i]);
    }
  cli_answer (cli, doc);
  return TRUE;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  if (arguments[0] == NULL)
    return list_local (ctx, cli, NULL, data, error);
  g_autoptr (Target) target = target_parse (arguments[0], error);
  if (target == NULL)
    return FALSE;
  return target->reference->host != NULL ? list_remote (ctx, cli, target, data, error)
                                         : list_local (ctx, cli, target->reference->name, data, error);
}

static const Example examples[] = {
  { "list", "Everything in the local store." },
  { "list registry.example/team/minilm", "The tags of a repository of a registry." },
};

const Command list_command = {
  .name = "list",
  .summary = "List models of the local store, or tags of a repository",
  .usage = "[REPOSITORY]",
  .about = "For the local store: name, tag, size of the files, size stored, digest and age of every model.\n"
           "Models that share bytes share what is stored: the sum below the table counts it once. A tag\n"
           "`-` stands for a manifest that only its digest names. A model that cannot be read is listed\n"
           "with what is wrong. For a registry: the tags.",
  .max_arguments = 1,
  .arguments = { ARGUMENT_REFERENCE },
  .options = &group,
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
