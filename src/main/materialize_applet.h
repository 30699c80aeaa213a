/* `ai-models materialize`: the materializer (delivery/materialize.h) as the controller's Jobs start it. */
#pragma once

#include "cli/command.h"

extern const Command materialize_command;
