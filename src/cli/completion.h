/* Completion scripts for shells, made from the command tables. Pure; the caller frees. */
#pragma once

#include "cli/command.h"

char *completion_bash (const AppletTable *table);
char *completion_zsh (const AppletTable *table);
