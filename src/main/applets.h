/* The faces of the program, and the one place that names concrete adapters. */
#pragma once

#include "cli/command.h"
#include "cli/places.h"

extern const AppletTable applets;
extern const Places places;
