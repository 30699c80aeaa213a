#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/model_report.h"
#include "cli/report.h"
#include "cli/source_argument.h"
#include "cli/target.h"
#include "delivery/artifact.h"
#include "delivery/range_reader.h"
#include "publish/publish.h"

#define CONFIG_LIMIT_BYTES (4u << 20)

typedef struct {
  const char *token_file;
} Settings;

static const Option options[] = {
  OPTION (Settings, token_file, "token-file", '\0', OPTION_TEXT, "FILE", NULL,
          "read the hub's token from a file, - is standard input (else $HF_TOKEN)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

/* A path that is there, or looks like one, or an address of a hub. A reference never begins with a dot or a slash. */
static gboolean
is_path (const char *argument)
{
  return source_argument_is_url (argument) || argument[0] == '.' || argument[0] == '/'
         || g_file_test (argument, G_FILE_TEST_EXISTS);
}

static gboolean
inspect_path (Ctx *ctx, Cli *cli, const char *path, const char *token_file, GError **error)
{
  yyjson_mut_val *root;
  ModelSource *source = source_argument_open (ctx, cli, path, token_file, error);
  g_autoptr (PublishPlan) plan = source != NULL ? publish_plan_new (ctx, source, NULL, error) : NULL;
  if (plan == NULL)
    return FALSE;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  g_autofree char *size = text_bytes (plan->total_bytes);
  report_text (doc, root, "path", path);
  report_number (doc, root, "logicalBytes", plan->total_bytes);
  model_report_source_json (doc, root, plan->source);
  model_report_json (doc, root, plan->profile);
  model_report_files_json (doc, root, plan->selection, NULL);
  cli_answer (cli, doc);
  model_report_source_say (cli, plan->source);
  model_report_say (cli, plan->profile);
  cli_say (cli, "%-13s %s in %u files\n", "Size", size, plan->n_files);
  model_report_files_say (cli, plan->selection);
  return TRUE;
}

/* Which format the layers are of, as if they were a directory. */
static gboolean
find_format (const Artifact *artifact, ModelFormat *out_format, GError **error)
{
  g_autoptr (GArray) files = g_array_new (FALSE, TRUE, sizeof (SourceFile));
  for (guint i = 0; i < artifact->model->layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (artifact->model->layers, ModelpackLayer, i);
      SourceFile file = { layer->path, layer->descriptor->size_bytes, FALSE };
      if (layer->codec != MODELPACK_RAW)
        return am_fail (error, AM_ERROR_UNIMPLEMENTED, NULL, "its files are inside archives");
      g_array_append_val (files, file);
      /* Which variant its weights are of was chosen when it was pushed. */
      if (g_strcmp0 (layer->path, "model_index.json") == 0)
        {
          *out_format = MODEL_FORMAT_DIFFUSERS;
          return TRUE;
        }
    }
  g_autoptr (FileSelection) selection = file_selection_new ((const SourceFile *) files->data, files->len, NULL,
                                                            error);
  if (selection == NULL)
    return FALSE;
  *out_format = selection->format;
  return TRUE;
}

/* From the headers of the files where they lie: only some blocks of each are read. */
static ModelProfile *
read_profile (Ctx *ctx, Repository *repository, const Artifact *artifact, GError **error)
{
  ModelFormat format;
  if (!find_format (artifact, &format, error))
    return NULL;
  g_autoptr (ModelInspector) inspector = model_inspector_new (format);
  for (guint i = 0; i < artifact->model->layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (artifact->model->layers, ModelpackLayer, i);
      g_autoptr (Reader) reader = range_reader_new (repository, &layer->descriptor->digest,
                                                    layer->descriptor->size_bytes);
      if (!model_inspector_add_file (ctx, inspector, layer->path, reader, error))
        return NULL;
    }
  g_autoptr (ModelFacts) facts = model_inspector_finish (inspector, error);
  return facts != NULL ? model_profile_new (facts, NULL) : NULL;
}

/* What the publisher wrote into the config: all there is to say of files that are no model of ours. */
static const struct {
  gsize offset;
  const char *key, *label;
} config_texts[] = {
  { G_STRUCT_OFFSET (ModelpackFacts, name), "name", "Name" },
  { G_STRUCT_OFFSET (ModelpackFacts, format), "format", "Format" },
  { G_STRUCT_OFFSET (ModelpackFacts, family), "family", "Family" },
  { G_STRUCT_OFFSET (ModelpackFacts, architecture), "architecture", "Architecture" },
  { G_STRUCT_OFFSET (ModelpackFacts, quantization), "quantization", "Quantization" },
  { G_STRUCT_OFFSET (ModelpackFacts, precision), "precision", "Precision" },
  { G_STRUCT_OFFSET (ModelpackFacts, param_size), "parameterSize", "Parameters" },
};

static gboolean
collect_bytes (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  g_byte_array_append (data, bytes, (guint) size);
  return TRUE;
}

static gboolean
read_config (Ctx *ctx, Repository *repository, const Artifact *artifact, ModelpackFacts *out_facts, GError **error)
{
  const Descriptor *config = artifact->manifest->config;
  g_autoptr (GByteArray) buffer = g_byte_array_new ();
  Digest actual;
  if (config->size_bytes > CONFIG_LIMIT_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "SIZE_INVALID", "the config is too large");
  if (config->size_bytes > 0
      && !repository_read_blob (ctx, repository, &config->digest, 0, config->size_bytes, collect_bytes, buffer,
                                error))
    return FALSE;
  digest_of (config->digest.algorithm, buffer->data, buffer->len, &actual);
  if (!digest_equal (&actual, &config->digest))
    return am_fail (error, AM_ERROR_DATA_LOSS, "DigestMismatch",
                    "the config is damaged: its bytes do not match its digest");
  g_autoptr (GBytes) bytes = g_bytes_new_static (buffer->data, buffer->len);
  return modelpack_read_config (bytes, out_facts, error);
}

/* Bytes that the content takes where it lies. */
static gboolean
sum_stored (Ctx *ctx, Repository *repository, const Artifact *artifact, guint64 *out_bytes, GError **error)
{
  g_autoptr (GHashTable) counted = g_hash_table_new (digest_hash, digest_equal_func);
  guint64 sum = artifact->manifest->config->size_bytes + g_bytes_get_size (artifact->bytes);
  for (guint i = 0; i < artifact->model->layers->len; i++)
    {
      const Descriptor *layer = g_array_index (artifact->model->layers, ModelpackLayer, i).descriptor;
      g_autoptr (GError) problem = NULL;
      if (!g_hash_table_add (counted, (gpointer) &layer->digest))
        continue;
      g_autoptr (Recipe) recipe = repository_get_recipe (ctx, repository, &layer->digest, &problem);
      if (problem != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      sum += recipe != NULL ? recipe_encoded_bytes (recipe) : layer->size_bytes;
    }
  *out_bytes = sum;
  return TRUE;
}

typedef struct {
  const char *reference;
  Artifact *artifact;
  ModelProfile *profile; /* or NULL: then what the config says */
  ModelpackFacts config;
  guint64 stored_bytes;
} Inspection;

static void
inspection_clear (Inspection *self)
{
  artifact_free (self->artifact);
  model_profile_free (self->profile);
  modelpack_facts_clear (&self->config);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Inspection, inspection_clear)

static void
answer (Cli *cli, const Inspection *self)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "reference", self->reference);
  report_digest (doc, root, "digest", &self->artifact->digest);
  report_text (doc, root, "mediaType", self->artifact->manifest->media_type);
  report_text (doc, root, "artifactType", self->artifact->manifest->artifact_type);
  report_number (doc, root, "logicalBytes", self->artifact->total_bytes);
  report_number (doc, root, "storedBytes", self->stored_bytes);
  if (self->profile != NULL)
    model_report_json (doc, root, self->profile);
  for (gsize i = 0; self->profile == NULL && i < G_N_ELEMENTS (config_texts); i++)
    report_text (doc, root, config_texts[i].key, G_STRUCT_MEMBER (char *, &self->config, config_texts[i].offset));
  yyjson_mut_val *files = report_array (doc, root, "files");
  for (guint i = 0; i < self->artifact->model->layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (self->artifact->model->layers, ModelpackLayer, i);
      yyjson_mut_val *item = report_item (doc, files);
      report_text (doc, item, "path", layer->path);
      report_number (doc, item, "sizeBytes", layer->descriptor->size_bytes);
      report_digest (doc, item, "digest", &layer->descriptor->digest);
      report_text (doc, item, "mediaType", layer->descriptor->media_type);
      report_text (doc, item, "role", modelpack_kind_name (layer->kind));
    }
  cli_answer (cli, doc);
}

static void
say (Cli *cli, const Inspection *self)
{
  char digest[DIGEST_STRING_SIZE];
  g_autofree char *logical = text_bytes (self->artifact->total_bytes), *stored = text_bytes (self->stored_bytes);
  g_autoptr (Table) table = table_new (3, 1 << 1);
  if (self->profile != NULL)
    model_report_say (cli, self->profile);
  for (gsize i = 0; self->profile == NULL && i < G_N_ELEMENTS (config_texts); i++)
    {
      const char *text = G_STRUCT_MEMBER (char *, &self->config, config_texts[i].offset);
      if (text != NULL)
        cli_say (cli, "%-13s %s\n", config_texts[i].label, text);
    }
  guint64 total = MAX (self->artifact->total_bytes, 1);
  cli_say (cli, "%-13s %s, stored in %s (%.0f %%)\n", "Size", logical, stored,
           100.0 * (double) self->stored_bytes / (double) total);
  cli_say (cli, "%-13s %s\nFiles\n", "Digest", digest_format (&self->artifact->digest, digest));
  for (guint i = 0; i < self->artifact->model->layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (self->artifact->model->layers, ModelpackLayer, i);
      g_autofree char *size = text_bytes (layer->descriptor->size_bytes);
      table_add (table, layer->path != NULL ? layer->path : "(archive)", size, modelpack_kind_name (layer->kind));
    }
  table_say (table, cli, "  ");
}

/* Trouble with the files themselves leaves what the config says; trouble on the way there does not. */
static gboolean
inspect_files (Ctx *ctx, Cli *cli, Repository *repository, Inspection *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  self->profile = read_profile (ctx, repository, self->artifact, &problem);
  if (self->profile != NULL)
    return TRUE;
  if (!am_error_is (problem, AM_ERROR_INVALID_ARGUMENT) && !am_error_is (problem, AM_ERROR_UNIMPLEMENTED)
      && !am_error_is (problem, AM_ERROR_RESOURCE_EXHAUSTED))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  cli_remark (cli, "shown is what the publisher wrote, because the files cannot be looked into: %s",
              problem->message);
  return read_config (ctx, repository, self->artifact, &self->config, error);
}

static gboolean
inspect_reference (Ctx *ctx, Cli *cli, const char *text, GError **error)
{
  g_auto (Inspection) self = { .reference = text };
  g_autoptr (Repository) repository = NULL;
  g_autoptr (Target) target = target_find (cli, text, &repository, error);
  if (target == NULL)
    return FALSE;
  self.artifact = artifact_resolve (ctx, repository, target->selector, error);
  if (self.artifact == NULL || !sum_stored (ctx, repository, self.artifact, &self.stored_bytes, error)
      || !inspect_files (ctx, cli, repository, &self, error))
    return FALSE;
  answer (cli, &self);
  say (cli, &self);
  return TRUE;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  return is_path (arguments[0]) ? inspect_path (ctx, cli, arguments[0], settings->token_file, error)
                                : inspect_reference (ctx, cli, arguments[0], error);
}

static const Example examples[] = {
  { "inspect minilm:v1", "A model of the local store." },
  { "inspect registry.example/team/minilm:v1 --json", "A model in a registry, for a program." },
  { "inspect ./llama.gguf", "A file that was not published yet." },
  { "inspect https://huggingface.co/owner/name", "A model of the Hugging Face hub, by its headers." },
  { "inspect ollama.com/library/qwen3:4b", "A model of Ollama's registry, likewise." },
};

const Command inspect_command = {
  .name = "inspect",
  .summary = "Show what a model is",
  .usage = "REF|PATH|URL",
  .about = "Format, family, architecture, task, parameters, quantization, precision and context window,\n"
           "as the files themselves say, then files and sizes: logical, and as stored. Of a model in a\n"
           "registry only headers are read. An argument that exists on disk, or begins with `.` or `/`,\n"
           "is a path, an address of the Hugging Face hub or of ollama.com a model there; anything else is\n"
           "a reference.",
  .min_arguments = 1,
  .max_arguments = 1,
  .arguments = { ARGUMENT_REFERENCE },
  .options = &group,
  .settings_size = sizeof (Settings),
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
