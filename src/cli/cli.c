#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/exit_status.h"
#include "cli/help.h"

const char *
applet_name (const Applet *self)
{
  return self->command != NULL ? self->command->name : self->name;
}

const char *
applet_summary (const Applet *self)
{
  return self->command != NULL ? self->command->summary : self->summary;
}

const Applet *
applet_find (const AppletTable *table, const char *name)
{
  for (gsize i = 0; i < table->n_applets; i++)
    if (strcmp (applet_name (&table->applets[i]), name) == 0)
      return &table->applets[i];
  return NULL;
}

char *
cli_store_directory (const Cli *self)
{
  const char *named = g_getenv ("AI_MODELS_STORE");
  if (self->common.store != NULL)
    return g_strdup (self->common.store);
  if (named != NULL && *named != '\0')
    return g_strdup (named);
  return g_build_filename (g_get_user_data_dir (), "ai-models", NULL);
}

BlobStore *
cli_store (Cli *self, gboolean create, GError **error)
{
  if (self->store == NULL)
    {
      g_autofree char *directory = cli_store_directory (self);
      self->store = self->places->open_store (directory, create, error);
      if (self->store == NULL)
        g_prefix_error (error, "store %s: ", directory);
    }
  return self->store != NULL ? self->store->blobs : NULL;
}

BlobStore *
cli_store_if_any (Cli *self)
{
  g_autoptr (GError) error = NULL;
  BlobStore *blobs = cli_store (self, FALSE, &error);
  am_ignore (&error, "the command can do without a local store");
  return blobs;
}

gboolean
cli_wants_json (const Cli *self)
{
  return self->common.json;
}

Progress *
cli_progress (Cli *self, const char *verb)
{
  return progress_new (progress_style (self->common.quiet), verb);
}

/* Foreign text must not steer the terminal: control characters but line feed become '?'. */
static char *
harmless (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *out = g_string_new (NULL);
  for (const char *c = valid; *c != '\0'; c = g_utf8_next_char (c))
    {
      gunichar letter = g_utf8_get_char (c);
      gboolean steers = letter != '\n' && g_unichar_iscntrl (letter);
      g_string_append_unichar (out, steers ? '?' : letter);
    }
  return g_string_free (out, FALSE);
}

void
cli_say (Cli *self, const char *format, ...)
{
  if (self->common.json)
    return;
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *safe = harmless (text);
  g_string_append (self->out, safe);
}

/* "ai-models push: <text>" on standard error. */
static void
complain (const Cli *self, const char *text)
{
  g_autofree char *safe = harmless (text);
  g_autofree char *line = self->command != NULL ? g_strdup_printf ("ai-models %s: %s\n", self->command->name, safe)
                                                : g_strdup_printf ("ai-models: %s\n", safe);
  GError *error = NULL;
  if (!file_write_all (STDERR_FILENO, line, strlen (line), &error))
    g_clear_error (&error); /* nowhere left to say it */
}

void
cli_remark (Cli *self, const char *format, ...)
{
  if (self->common.quiet)
    return;
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  complain (self, text);
}

void
cli_answer (Cli *self, yyjson_mut_doc *doc)
{
  if (!self->common.json || self->has_json)
    return;
  g_autofree char *text = json_write_pretty (doc);
  g_string_append (self->out, text);
  g_string_append_c (self->out, '\n');
  self->has_json = TRUE;
}

static void
answer_error (Cli *self, const GError *error)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc), *body = yyjson_mut_obj (doc);
  g_autofree char *message = g_utf8_make_valid (error->message, -1);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_val (doc, root, "error", body);
  yyjson_mut_obj_add_str (doc, body, "code", am_error_info_of (error)->name);
  if (am_error_reason (error) != NULL)
    yyjson_mut_obj_add_str (doc, body, "reason", am_error_reason (error));
  yyjson_mut_obj_add_str (doc, body, "message", message);
  yyjson_mut_obj_add_int (doc, body, "exitStatus", exit_status_of (error));
  cli_answer (self, doc);
}

/* Shows an error once, with what can be done about it. */
static void
show_error (Cli *self, const GError *error)
{
  const char *remedy = exit_remedy_of (error);
  answer_error (self, error);
  if (g_strcmp0 (self->common.log_format, "json") == 0)
    {
      am_log_error (NULL, error->message, "code", am_error_info_of (error)->name, "reason", am_error_reason (error),
                    "remedy", remedy, NULL);
      return;
    }
  complain (self, error->message);
  if (remedy != NULL)
    complain (self, remedy);
  if (am_error_has_reason (error, CLI_USAGE) && self->command != NULL)
    {
      g_autofree char *more = g_strdup_printf ("`ai-models %s --help` tells how it is used", self->command->name);
      complain (self, more);
    }
}

static gboolean
flush_output (Cli *self, GError **error)
{
  if (self->out->len == 0)
    return TRUE;
  gboolean good = file_write_all (STDOUT_FILENO, self->out->str, self->out->len, error);
  g_string_truncate (self->out, 0);
  if (!good)
    g_prefix_error (error, "standard output: ");
  return good;
}

static void
start_log (const Cli *self)
{
  AmLogLevel level = self->common.verbose ? AM_LOG_DEBUG : self->common.quiet ? AM_LOG_ERROR : AM_LOG_WARNING;
  AmLogFormat format = g_strcmp0 (self->common.log_format, "json") == 0 ? AM_LOG_FORMAT_JSON : AM_LOG_FORMAT_TEXT;
  am_log_init (level, format, self->command->name);
}

static gboolean
parse_line (Cli *self, gpointer settings, char **argv, GPtrArray *arguments, GError **error)
{
  const OptionGroup *groups[COMMAND_MAX_GROUPS + 1];
  OptionBinding bindings[COMMAND_MAX_GROUPS];
  gsize n = 0;
  command_groups (self->command, groups);
  for (; groups[n] != NULL; n++)
    bindings[n] = (OptionBinding){ groups[n], groups[n] == self->command->options ? settings : &self->common };
  return options_parse (bindings, n, argv, arguments, error);
}

static gboolean
check_arguments (const Command *command, guint n, GError **error)
{
  if (n < command->min_arguments)
    return cli_usage_fail (error, "an argument is missing: ai-models %s %s", command->name, command->usage);
  if (n > command->max_arguments)
    return cli_usage_fail (error, "too many arguments: ai-models %s %s", command->name, command->usage);
  return TRUE;
}

/* Reads the line, then answers --help and --version or does the work. */
static gboolean
run_command (Ctx *ctx, Cli *self, char **argv, GError **error)
{
  g_autofree gpointer settings = g_malloc0 (MAX (self->command->settings_size, 1));
  g_autoptr (GPtrArray) arguments = g_ptr_array_new ();
  gboolean parsed = parse_line (self, settings, argv, arguments, error);
  start_log (self);
  if (self->common.help)
    {
      g_clear_error (error);
      g_autofree char *text = help_command (self->command);
      g_string_append (self->out, text);
      return TRUE;
    }
  if (!parsed)
    return FALSE;
  if (self->common.version)
    {
      g_string_append (self->out, "ai-models " AI_MODELS_VERSION "\n");
      return TRUE;
    }
  if (!check_arguments (self->command, arguments->len, error))
    return FALSE;
  g_ptr_array_add (arguments, NULL);
  return self->command->run (ctx, self, settings, (const char *const *) arguments->pdata, error);
}

static int
run_and_show (Ctx *ctx, Cli *self, char **argv)
{
  g_autoptr (GError) error = NULL, output_error = NULL;
  if (!run_command (ctx, self, argv, &error))
    show_error (self, error);
  if (!flush_output (self, &output_error))
    {
      complain (self, output_error->message);
      if (error == NULL)
        return exit_status_of (output_error);
    }
  return exit_status_of (error);
}

static int
fail_unknown_command (Cli *self, const char *word)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (gsize i = 0; i < self->applets->n_applets; i++)
    g_ptr_array_add (names, (gpointer) applet_name (&self->applets->applets[i]));
  const char *meant = nearest_word (word, (const char *const *) names->pdata, names->len);
  g_autofree char *text = word[0] == '-'
                            ? g_strdup_printf ("options come after the command: ai-models COMMAND %.100s", word)
                          : meant != NULL
                            ? g_strdup_printf ("there is no command %.100s; did you mean %s?", word, meant)
                            : g_strdup_printf ("there is no command %.100s", word);
  complain (self, text);
  complain (self, "`ai-models --help` lists the commands");
  return EXIT_STATUS_USAGE;
}

static int
show_text (Cli *self, char *text, int status)
{
  g_autoptr (GError) error = NULL;
  int fd = status == 0 ? STDOUT_FILENO : STDERR_FILENO;
  gboolean good = file_write_all (fd, text, strlen (text), &error);
  g_free (text);
  return good ? status : exit_status_of (error);
}

static gboolean
is_one_of (const char *word, const char *a, const char *b, const char *c)
{
  return strcmp (word, a) == 0 || strcmp (word, b) == 0 || strcmp (word, c) == 0;
}

static int
dispatch (Ctx *ctx, Cli *self, int argc, char **argv)
{
  if (argc < 2)
    return show_text (self, help_program (self->applets), EXIT_STATUS_USAGE);
  const char *word = argv[1];
  char *only_help[] = { (char *) "--help", NULL };
  char **rest = argv + 2;
  if (is_one_of (word, "--help", "-h", "help") && argc == 2)
    return show_text (self, help_program (self->applets), 0);
  if (is_one_of (word, "--version", "-V", "version"))
    return show_text (self, g_strdup ("ai-models " AI_MODELS_VERSION "\n"), 0);
  gboolean asks_help = is_one_of (word, "--help", "-h", "help");
  const Applet *applet = applet_find (self->applets, asks_help ? argv[2] : word);
  if (applet == NULL)
    return fail_unknown_command (self, asks_help ? argv[2] : word);
  if (asks_help)
    rest = only_help;
  if (applet->command == NULL)
    {
      char *help_line[] = { argv[2], only_help[0], NULL };
      return asks_help ? applet->main (ctx, 2, help_line) : applet->main (ctx, argc - 1, argv + 1);
    }
  self->command = applet->command;
  return run_and_show (ctx, self, rest);
}

int
cli_main (Ctx *ctx, const AppletTable *applets, const Places *places, int argc, char **argv)
{
  Cli self = { .applets = applets, .places = places, .out = g_string_new (NULL) };
  int status = dispatch (ctx, &self, argc, argv);
  local_store_free (self.store);
  g_string_free (self.out, TRUE);
  return status;
}
