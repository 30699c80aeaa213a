/* `ai-models controller`: the controller of Models and ClusterModels (controllers/model_controller.h) as a process. */
#pragma once

#include "cli/command.h"

extern const Command controller_command;
