#include "cli/model_report.h"

#include "base/text.h"

#define MAX_LISTED_FILES 20u

typedef struct {
  const char *key, *label;
  gsize value, confidence;
} NamedText;

#define NAMED(member, key, label)                                                                           \
  {                                                                                                         \
    key, label, G_STRUCT_OFFSET (ModelProfile, member), G_STRUCT_OFFSET (ModelProfile, member##_confidence) \
  }
static const NamedText named_texts[] = {
  NAMED (family, "family", "Family"),
  NAMED (architecture, "architecture", "Architecture"),
  NAMED (task, "task", "Task"),
  NAMED (quantization, "quantization", "Quantization"),
};

/* NULL when the value is not known for sure. */
static const char *
public_text (const ModelProfile *profile, const NamedText *row)
{
  const Confidence *confidence = G_STRUCT_MEMBER_P (profile, row->confidence);
  char *const *value = G_STRUCT_MEMBER_P (profile, row->value);
  return confidence_is_public (*confidence) ? *value : NULL;
}

static void
add_words (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, GPtrArray *words)
{
  yyjson_mut_val *array = report_array (doc, object, key);
  for (guint i = 0; i < words->len; i++)
    yyjson_mut_arr_add_strcpy (doc, array, g_ptr_array_index (words, i));
}

void
model_report_json (yyjson_mut_doc *doc, yyjson_mut_val *object, const ModelProfile *profile)
{
  report_text (doc, object, "format", model_format_name (profile->format));
  for (guint i = 0; i < G_N_ELEMENTS (named_texts); i++)
    report_text (doc, object, named_texts[i].key, public_text (profile, &named_texts[i]));
  report_text (doc, object, "precision", profile->precision);
  if (confidence_is_public (profile->parameter_confidence))
    report_number (doc, object, "parameterCount", profile->parameter_count);
  if (confidence_is_public (profile->context_confidence))
    report_number (doc, object, "contextWindowTokens", profile->context_tokens);
  report_number (doc, object, "weightsBytes", profile->weights_bytes);
  add_words (doc, object, "endpointTypes", profile->endpoints);
  add_words (doc, object, "features", profile->features);
  add_words (doc, object, "warnings", profile->warnings);
}

void
model_report_say (Cli *cli, const ModelProfile *profile)
{
  cli_say (cli, "%-13s %s\n", "Format", model_format_name (profile->format));
  for (guint i = 0; i < G_N_ELEMENTS (named_texts); i++)
    if (public_text (profile, &named_texts[i]) != NULL)
      cli_say (cli, "%-13s %s\n", named_texts[i].label, public_text (profile, &named_texts[i]));
  if (profile->precision != NULL)
    cli_say (cli, "%-13s %s\n", "Precision", profile->precision);
  if (confidence_is_public (profile->parameter_confidence) && profile->parameter_count > 0)
    {
      g_autofree char *count = text_count (profile->parameter_count);
      cli_say (cli, "%-13s %s (%" G_GUINT64_FORMAT ")\n", "Parameters", count, profile->parameter_count);
    }
  if (confidence_is_public (profile->context_confidence) && profile->context_tokens > 0)
    cli_say (cli, "%-13s %" G_GUINT64_FORMAT " tokens\n", "Context", profile->context_tokens);
  for (guint i = 0; i < profile->warnings->len; i++)
    cli_remark (cli, "Note: %s", (const char *) g_ptr_array_index (profile->warnings, i));
}

void
model_report_source_json (yyjson_mut_doc *doc, yyjson_mut_val *object, const ModelSource *source)
{
  if (source->revision == NULL)
    return;
  yyjson_mut_val *item = yyjson_mut_obj_add_obj (doc, object, "source");
  report_text (doc, item, "url", source->display);
  report_text (doc, item, "revision", source->revision);
  report_text (doc, item, "within", source->within);
  report_text (doc, item, "license", source->license);
}

void
model_report_source_say (Cli *cli, const ModelSource *source)
{
  if (source->revision == NULL)
    return;
  cli_say (cli, "%-13s %s\n%-13s %s\n", "Source", source->display, "Revision", source->revision);
  if (source->license != NULL)
    cli_say (cli, "%-13s %s\n", "License", source->license);
}

static const char *const role_names[] = {
  [FILE_CONFIG] = "config",   [FILE_COMPANION] = "companion", [FILE_WEIGHTS] = "weights",
  [FILE_DROPPED] = "dropped", [FILE_REJECTED] = "rejected",
};

void
model_report_files_json (yyjson_mut_doc *doc, yyjson_mut_val *object, const FileSelection *selection,
                         GHashTable *digests)
{
  yyjson_mut_val *array = report_array (doc, object, "files");
  for (guint i = 0; i < selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      yyjson_mut_val *item = report_item (doc, array);
      report_text (doc, item, "path", file->target);
      report_number (doc, item, "sizeBytes", file->size_bytes);
      report_text (doc, item, "role", role_names[file->role]);
      report_flag (doc, item, "kept", selected_file_is_kept (file));
      const Digest *digest = digests != NULL ? g_hash_table_lookup (digests, file->target) : NULL;
      if (digest != NULL && selected_file_is_kept (file))
        report_digest (doc, item, "digest", digest);
      report_text (doc, item, "why", file->why);
    }
}

static void
say_files (Cli *cli, const FileSelection *selection, gboolean kept, const char *title)
{
  guint n = 0;
  g_autoptr (Table) table = table_new (3, 1 << 1);
  for (guint i = 0; i < selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      if (selected_file_is_kept (file) != kept)
        continue;
      g_autofree char *size = text_bytes (file->size_bytes);
      if (n++ < MAX_LISTED_FILES)
        table_add (table, file->target, size, kept ? role_names[file->role] : file->why);
    }
  if (n == 0)
    return;
  cli_say (cli, "%s\n", title);
  table_say (table, cli, "  ");
  if (n > MAX_LISTED_FILES)
    cli_say (cli, "  and %u more (--json lists them all)\n", n - MAX_LISTED_FILES);
}

void
model_report_files_say (Cli *cli, const FileSelection *selection)
{
  say_files (cli, selection, TRUE, "Files");
  say_files (cli, selection, FALSE, "Left out");
}
