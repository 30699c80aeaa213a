#include "cli/commands.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/target.h"
#include "delivery/artifact_copy.h"

typedef struct {
  gboolean referrers;
  RegistryOptions from;
} Settings;

#define FROM(member, name, type, argument, help) \
  OPTION (Settings, from.member, name, '\0', type, argument, NULL, help)

static const Option options[] = {
  OPTION (Settings, referrers, "referrers", 'r', OPTION_FLAG, NULL, NULL,
          "copy what refers to it too, such as signatures"),
  FROM (plain_http, "from-plain-http", OPTION_FLAG, NULL, "speak HTTP without TLS to the source"),
  FROM (ca_file, "from-ca-file", OPTION_TEXT, "FILE", "certificates to trust for the source"),
  FROM (insecure, "from-insecure", OPTION_FLAG, NULL, "do not check the source's certificate"),
  FROM (username, "from-username", OPTION_TEXT, "NAME", "user for the source"),
  FROM (password_file, "from-password-file", OPTION_TEXT, "FILE", "read the source's password from a file"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

/* What is given for the destination is meant for the source too only when that is the same registry: a
 * password never reaches a host it was not given for. */
static const RegistryOptions *
source_options (const Cli *cli, const Settings *settings, gboolean same_place)
{
  return same_place && settings->from.username == NULL ? &cli->common.registry : &settings->from;
}

/* A destination without a tag and with a digest keeps to that digest alone. */
static gboolean
check_digest (const Target *destination, const CopyResult *result, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  return !destination->reference->has_digest || digest_equal (&destination->reference->digest, &result->digest)
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                     "what was copied has the digest %s, not the one asked for",
                     digest_format (&result->digest, text));
}

static void
answer (Cli *cli, const char *const *arguments, gboolean has_referrers, const CopyResult *result)
{
  yyjson_mut_val *root;
  g_autoptr (yyjson_mut_doc) doc = report_new (&root);
  report_text (doc, root, "source", arguments[0]);
  report_text (doc, root, "destination", arguments[1]);
  report_digest (doc, root, "digest", &result->digest);
  report_number (doc, root, "manifests", result->n_manifests);
  report_number (doc, root, "blobs", result->n_blobs);
  report_number (doc, root, "mountedBlobs", result->n_mounted_blobs);
  if (has_referrers)
    {
      report_number (doc, root, "referrers", result->n_referrers);
      report_number (doc, root, "missingReferrers", result->n_missing_referrers);
    }
  report_number (doc, root, "logicalBytes", result->logical_bytes);
  report_number (doc, root, "movedBytes", result->moved_bytes);
  cli_answer (cli, doc);
}

static void
say (Cli *cli, const char *const *arguments, gboolean has_referrers, const CopyResult *result)
{
  char digest[DIGEST_STRING_SIZE];
  g_autofree char *size = text_bytes (result->logical_bytes), *moved = text_bytes (result->moved_bytes);
  cli_say (cli, "Copied  %s to %s\nDigest  %s\nSize    %s in %u blobs\nMoved   %s\n", arguments[0], arguments[1],
           digest_format (&result->digest, digest), size, result->n_blobs, moved);
  if (has_referrers)
    cli_say (cli, "With    %u referrers\n", result->n_referrers);
  if (result->n_missing_referrers > 0)
    cli_remark (cli, "Note: the source lists %u referrers that it does not have", result->n_missing_referrers);
}

static gboolean
copy (Ctx *ctx, Cli *cli, const Settings *settings, const Target *source, const Target *destination,
      CopyResult *out_result, GError **error)
{
  gboolean same_place = target_same_place (source, destination);
  const RegistryOptions *from_options = source_options (cli, settings, same_place);
  g_autoptr (Repository) from = target_open (cli, source, from_options, FALSE, error);
  if (from == NULL)
    return FALSE;
  g_autoptr (Repository) to = target_open (cli, destination, &cli->common.registry, TRUE, error);
  if (to == NULL)
    return FALSE;
  g_autoptr (Progress) progress = cli_progress (cli, "copying");
  TransferEvents events = report_progress (progress);
  CopyOptions copy_options = {
    .same_place = same_place,
    .referrers = settings->referrers,
    .local = cli_store_if_any (cli),
    .events = &events,
  };
  return artifact_copy (ctx, from, source->selector, to, destination->reference->tag, &copy_options, out_result,
                        error);
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  CopyResult result;
  g_autoptr (Target) source = target_parse (arguments[0], error);
  if (source == NULL)
    return FALSE;
  g_autoptr (Target) destination = target_parse (arguments[1], error);
  if (destination == NULL || !copy (ctx, cli, settings, source, destination, &result, error)
      || !check_digest (destination, &result, error))
    return FALSE;
  answer (cli, arguments, settings->referrers, &result);
  say (cli, arguments, settings->referrers, &result);
  return TRUE;
}

static const Example examples[] = {
  { "copy minilm:v1 registry.example/team/minilm:v1", "Publish a model of the local store in a registry." },
  { "copy registry.example/team/minilm:v1 minilm:v1", "The other way." },
  { "copy old.example/m:v1 new.example/m:v1", "From registry to registry, nothing kept here." },
  { "copy --referrers old.example/m:v1 new.example/m:v1",
    "With its signatures and everything else that refers to it." },
};

const Command copy_command = {
  .name = "copy",
  .summary = "Copy an artifact between registries and the local store",
  .usage = "SOURCE DESTINATION",
  .about = "Copies a manifest or an index with everything it names, byte for byte, so the digest stays.\n"
           "Nothing moves that the destination has: blobs are mounted within one registry, and between\n"
           "stores of our own only missing chunks travel. The content streams: no disk space is needed\n"
           "here. The options for registries are those of the destination; the source has its own.",
  .min_arguments = 2,
  .max_arguments = 2,
  .arguments = { ARGUMENT_REFERENCE, ARGUMENT_REFERENCE },
  .options = &group,
  .uses_store = TRUE,
  .uses_registry = TRUE,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
