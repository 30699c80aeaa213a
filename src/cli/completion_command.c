#include "cli/commands.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/completion.h"

static const char *const shells[] = { "bash", "zsh", NULL };

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  if (!g_strv_contains (shells, arguments[0]))
    return cli_usage_fail (error, "there is no completion for \"%.100s\", only for bash and zsh", arguments[0]);
  g_autofree char *text = strcmp (arguments[0], "bash") == 0 ? completion_bash (cli->applets)
                                                             : completion_zsh (cli->applets);
  cli_say (cli, "%s", text);
  return TRUE;
}

static const Example examples[] = {
  { "completion bash > ~/.local/share/bash-completion/completions/ai-models", "Install it for yourself." },
};

const Command completion_command = {
  .name = "completion",
  .summary = "Print the completion script of a shell",
  .usage = "bash|zsh",
  .min_arguments = 1,
  .max_arguments = 1,
  .arguments = { ARGUMENT_WORD },
  .words = shells,
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
