#include "cli/completion.h"

#include <string.h>

#include "cli/help.h"

#define HEADER(mark) mark "\n# Made by `ai-models completion`: do not edit.\n"

static gboolean
is_file (const Option *option)
{
  return g_strcmp0 (option->argument, "FILE") == 0;
}

static gboolean
is_directory (const Option *option)
{
  return g_strcmp0 (option->argument, "DIR") == 0;
}

/* Calls `func` for each option of a command. */
static void
foreach_option (const Command *command, void (*func) (GString *text, const Option *option), GString *text)
{
  const OptionGroup *groups[COMMAND_MAX_GROUPS + 1];
  command_groups (command, groups);
  for (const OptionGroup **group = groups; *group != NULL; group++)
    for (gsize i = 0; i < (*group)->n_options; i++)
      func (text, &(*group)->options[i]);
}

static void
bash_word (GString *text, const Option *option)
{
  g_string_append_printf (text, "%s--%s", text->str[text->len - 1] == '"' ? "" : " ", option->name);
}

/* One line of the case over the word before the cursor. */
static void
bash_value (GString *text, const Option *option)
{
  if (option->argument == NULL)
    return;
  g_string_append_printf (text, "        --%s", option->name);
  if (option->letter != '\0')
    g_string_append_printf (text, "|-%c", option->letter);
  if (option->choices != NULL)
    {
      g_autofree char *choices = g_strjoinv (" ", (char **) option->choices);
      g_string_append_printf (text, ") COMPREPLY=($(compgen -W \"%s\" -- \"$word\")); return ;;\n", choices);
    }
  else if (is_directory (option))
    g_string_append (text, ") compopt -o filenames; COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n");
  else if (is_file (option))
    g_string_append (text, ") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n");
  else
    g_string_append (text, ") COMPREPLY=(); return ;;\n");
}

/* Options whose value is a word of its own. */
static void
bash_taker (GString *text, const Option *option)
{
  if (option->argument == NULL)
    return;
  bash_word (text, option);
  if (option->letter != '\0')
    g_string_append_printf (text, " -%c", option->letter);
}

static void
bash_arguments (GString *text, const Command *command)
{
  g_string_append (text, "      kinds=\"");
  for (guint i = 0; i < command->max_arguments && i < COMMAND_MAX_ARGUMENTS; i++)
    {
      static const char *const names[] = { "none", "path", "directory", "reference", "word" };
      g_string_append_printf (text, "%s%s", i > 0 ? " " : "", names[command->arguments[i]]);
    }
  g_string_append (text, "\"\n");
  if (command->words != NULL)
    {
      g_autofree char *words = g_strjoinv (" ", (char **) command->words);
      g_string_append_printf (text, "      words=\"%s\"\n", words);
    }
}

static void
bash_command (GString *text, const Applet *applet)
{
  g_string_append_printf (text, "    %s)\n", applet_name (applet));
  if (applet->command == NULL)
    {
      g_string_append (text, "      options=\"--help\"\n      ;;\n");
      return;
    }
  g_string_append (text, "      case $before in\n");
  foreach_option (applet->command, bash_value, text);
  g_string_append (text, "      esac\n      options=\"");
  foreach_option (applet->command, bash_word, text);
  g_string_append (text, "\"\n      values=\"");
  foreach_option (applet->command, bash_taker, text);
  g_string_append (text, "\"\n");
  bash_arguments (text, applet->command);
  g_string_append (text, "      ;;\n");
}

static const char bash_start[]
  = "_ai_models ()\n"
    "{\n"
    "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "  local options= values= kinds= words= kind i n=0 line=${COMP_LINE:0:COMP_POINT} typed\n"
    "  COMPREPLY=()\n";

/* A reference has colons, at which bash cuts words: so arguments are counted on the line itself, and a
 * reference is completed as a whole and then cut where bash cuts. */
static const char bash_end[]
  = "  esac\n"
    "  if [[ $word == -* ]]; then\n"
    "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
    "    return\n"
    "  fi\n"
    "  read -ra typed <<< \"$line\"\n"
    "  [[ $line == *' ' ]] || unset 'typed[-1]'\n"
    "  for ((i = 2; i < ${#typed[@]}; i++)); do\n"
    "    if [[ \" $values \" == *\" ${typed[i]} \"* ]]; then\n"
    "      i=$((i + 1))\n"
    "    elif [[ ${typed[i]} != -* ]]; then\n"
    "      n=$((n + 1))\n"
    "    fi\n"
    "  done\n"
    "  read -ra kinds <<< \"$kinds\"\n"
    "  kind=${kinds[n]:-none}\n"
    "  case $kind in\n"
    "    path) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
    "    directory) compopt -o filenames; COMPREPLY=($(compgen -d -- \"$word\")) ;;\n"
    "    reference)\n"
    "      word=${line##* }\n"
    "      COMPREPLY=($(compgen -W \"$(ai-models list --names 2> /dev/null)\" -- \"$word\"))\n"
    "      if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
    "        COMPREPLY=(\"${COMPREPLY[@]#\"${word%\"${word##*:}\"}\"}\")\n"
    "      fi\n"
    "      ;;\n"
    "    word) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
    "  esac\n"
    "}\n"
    "complete -F _ai_models ai-models\n";

char *
completion_bash (const AppletTable *table)
{
  GString *text = g_string_new (HEADER ("# bash completion for ai-models"));
  g_string_append (text, bash_start);
  g_string_append (text, "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W \"");
  for (gsize i = 0; i < table->n_applets; i++)
    g_string_append_printf (text, "%s ", applet_name (&table->applets[i]));
  g_string_append (text, "--help --version\" -- \"$word\"))\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n");
  for (gsize i = 0; i < table->n_applets; i++)
    bash_command (text, &table->applets[i]);
  g_string_append (text, bash_end);
  return g_string_free (text, FALSE);
}

/* Text inside a zsh argument specification in single quotes. */
static void
zsh_append_escaped (GString *text, const char *words)
{
  for (; *words != '\0'; words++)
    if (*words == '\'')
      g_string_append (text, "'\\''");
    else
      {
        if (strchr (":[]\\`$", *words) != NULL)
          g_string_append_c (text, '\\');
        g_string_append_c (text, *words);
      }
}

static void
zsh_value (GString *text, const Option *option)
{
  if (option->argument == NULL)
    return;
  g_autofree char *label = g_ascii_strdown (option->argument, -1);
  g_string_append_printf (text, ":%s:", label);
  if (option->choices != NULL)
    {
      g_autofree char *choices = g_strjoinv (" ", (char **) option->choices);
      g_string_append_printf (text, "(%s)", choices);
    }
  else if (is_directory (option) || is_file (option))
    g_string_append (text, is_directory (option) ? "_files -/" : "_files");
}

static void
zsh_option (GString *text, const Option *option)
{
  g_string_append (text, "        ");
  if (option->letter != '\0')
    g_string_append_printf (text, "'(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter,
                            option->argument != NULL ? "+" : "", option->name, option->argument != NULL ? "=" : "");
  else
    g_string_append_printf (text, "'--%s%s[", option->name, option->argument != NULL ? "=" : "");
  zsh_append_escaped (text, option->help);
  g_string_append_c (text, ']');
  zsh_value (text, option);
  g_string_append (text, "' \\\n");
}

static void
zsh_arguments (GString *text, const Command *command)
{
  for (guint i = 0; i < command->max_arguments && i < COMMAND_MAX_ARGUMENTS; i++)
    {
      const char *optional = i < command->min_arguments ? "" : ":";
      g_autofree char *words = command->words != NULL ? g_strjoinv (" ", (char **) command->words) : NULL;
      g_string_append_printf (text, "        '%u:%s", i + 1, optional);
      switch (command->arguments[i])
        {
        case ARGUMENT_PATH: g_string_append (text, "path:_files"); break;
        case ARGUMENT_DIRECTORY: g_string_append (text, "directory:_files -/"); break;
        case ARGUMENT_REFERENCE: g_string_append (text, "reference:_ai_models_references"); break;
        case ARGUMENT_WORD: g_string_append_printf (text, "word:(%s)", words != NULL ? words : ""); break;
        case ARGUMENT_NONE: g_string_append (text, "argument: "); break;
        }
      g_string_append (text, "' \\\n");
    }
}

static void
zsh_command (GString *text, const Applet *applet)
{
  g_string_append_printf (text, "    %s)\n      _arguments -s \\\n", applet_name (applet));
  if (applet->command == NULL)
    g_string_append (text, "        '--help[show help]' \\\n");
  else
    {
      foreach_option (applet->command, zsh_option, text);
      zsh_arguments (text, applet->command);
    }
  g_string_append (text, "        && return 0\n      ;;\n");
}

char *
completion_zsh (const AppletTable *table)
{
  GString *text = g_string_new (HEADER ("#compdef ai-models"));
  g_string_append (text, "_ai_models_references ()\n{\n  local -a references\n"
                         "  references=(${(f)\"$(ai-models list --names 2> /dev/null)\"})\n"
                         "  compadd -a references\n}\n\n"
                         "_ai_models ()\n{\n  local -a commands\n  commands=(\n");
  for (gsize i = 0; i < table->n_applets; i++)
    {
      g_string_append_printf (text, "    '%s:", applet_name (&table->applets[i]));
      zsh_append_escaped (text, applet_summary (&table->applets[i]));
      g_string_append (text, "'\n");
    }
  g_string_append (text, "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
                         "  shift words\n  ((CURRENT--))\n  case $words[1] in\n");
  for (gsize i = 0; i < table->n_applets; i++)
    zsh_command (text, &table->applets[i]);
  g_string_append (text, "  esac\n}\n\n_ai_models \"$@\"\n");
  return g_string_free (text, FALSE);
}
