/* The upload gateway as a command: its options, and what it stands on. */
#pragma once

#include "cli/command.h"

extern const Command upload_gateway_command;
