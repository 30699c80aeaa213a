/* Help texts made from the command tables. Pure; the caller frees. */
#pragma once

#include "cli/command.h"

/* Of the whole program. */
char *help_program (const AppletTable *table);
/* Of one command. */
char *help_command (const Command *command);
/* Option groups of a command, its own first, NULL-terminated: at most this many and one. */
#define COMMAND_MAX_GROUPS 4
void command_groups (const Command *command, const OptionGroup *out_groups[COMMAND_MAX_GROUPS + 1]);
