/* `ai-models publish`: the publication worker (publish/worker.h) as the controller starts it. */
#pragma once

#include "cli/command.h"

extern const Command publish_command;
