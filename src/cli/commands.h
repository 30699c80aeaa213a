/* The commands, one file each. */
#pragma once

#include "cli/command.h"

extern const Command push_command, pull_command, inspect_command, verify_command, list_command, rm_command,
  copy_command, serve_command;

/* `completion bash|zsh` reads the applet table of the program it is part of. */
extern const Command completion_command;
