#include "cli/help.h"

#include <string.h>

#include "cli/common_options.h"
#include "cli/exit_status.h"

#define HELP_COLUMN 26

void
command_groups (const Command *command, const OptionGroup *out_groups[COMMAND_MAX_GROUPS + 1])
{
  gsize n = 0;
  if (command->options != NULL)
    out_groups[n++] = command->options;
  if (command->uses_store)
    out_groups[n++] = &store_option_group;
  if (command->uses_registry)
    out_groups[n++] = &registry_option_group;
  out_groups[n++] = &output_option_group;
  out_groups[n] = NULL;
}

/* "  left            right", the right part on its own line when the left one is too long. */
static void
append_row (GString *text, const char *left, const char *right)
{
  g_string_append_printf (text, "  %s", left);
  gsize used = strlen (left) + 2;
  if (used + 2 > HELP_COLUMN)
    {
      g_string_append_c (text, '\n');
      used = 0;
    }
  g_string_append_printf (text, "%*s%s\n", (int) (HELP_COLUMN - used), "", right);
}

static void
append_option (GString *text, const Option *option)
{
  g_autoptr (GString) left = g_string_new (NULL);
  if (option->letter != '\0')
    g_string_append_printf (left, "-%c, --%s", option->letter, option->name);
  else
    g_string_append_printf (left, "    --%s", option->name);
  if (option->argument != NULL)
    g_string_append_printf (left, " %s", option->argument);
  append_row (text, left->str, option->help);
}

static void
append_groups (GString *text, const Command *command)
{
  const OptionGroup *groups[COMMAND_MAX_GROUPS + 1];
  command_groups (command, groups);
  for (const OptionGroup **group = groups; *group != NULL; group++)
    {
      g_string_append_printf (text, "\n%s:\n", (*group)->title != NULL ? (*group)->title : "Options");
      for (gsize i = 0; i < (*group)->n_options; i++)
        append_option (text, &(*group)->options[i]);
    }
}

static void
append_exit_statuses (GString *text)
{
  g_string_append (text, "\nExit status:\n");
  for (gsize i = 0; i < n_exit_statuses; i++)
    g_string_append_printf (text, "  %-4d%s\n", exit_statuses[i].status, exit_statuses[i].meaning);
}

char *
help_command (const Command *command)
{
  GString *text = g_string_new (NULL);
  g_string_append_printf (text, "Usage: ai-models %s [OPTION]...%s%s\n\n%s.\n", command->name,
                          *command->usage != '\0' ? " " : "", command->usage, command->summary);
  if (command->about != NULL)
    g_string_append_printf (text, "\n%s\n", command->about);
  append_groups (text, command);
  if (command->n_examples > 0)
    g_string_append (text, "\nExamples:\n");
  for (gsize i = 0; i < command->n_examples; i++)
    g_string_append_printf (text, "  ai-models %s\n      %s\n", command->examples[i].line,
                            command->examples[i].meaning);
  append_exit_statuses (text);
  return g_string_free (text, FALSE);
}

char *
help_program (const AppletTable *table)
{
  GString *text = g_string_new (
    "Usage: ai-models COMMAND [OPTION]... [ARGUMENT]...\n\n"
    "A registry of AI models: publish, store, serve and fetch model files as standard OCI\n"
    "artifacts, in less space than they weigh, verified bit for bit.\n\n"
    "Commands:\n");
  for (gsize i = 0; i < table->n_applets; i++)
    g_string_append_printf (text, "  %-16s%s\n", applet_name (&table->applets[i]),
                            applet_summary (&table->applets[i]));
  g_string_append (text,
                   "\nReferences:\n"
                   "  NAME[:TAG][@DIGEST]       a model in the local store; the tag is `latest` unless given\n"
                   "  HOST/NAME[:TAG][@DIGEST]  a model in a registry: ours or any other that speaks OCI\n"
                   "\nExamples:\n"
                   "  ai-models push ./minilm minilm:v1             publish a directory into the local store\n"
                   "  ai-models inspect minilm:v1                   show what the model is\n"
                   "  ai-models copy minilm:v1 registry.example/team/minilm:v1\n"
                   "  ai-models pull registry.example/team/minilm:v1 ./minilm\n"
                   "\n`ai-models COMMAND --help` tells more of each; `man ai-models` and docs/en/cli.md tell all.\n");
  append_exit_statuses (text);
  return g_string_free (text, FALSE);
}
