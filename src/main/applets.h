/* The faces of the program, and the one place that names concrete adapters. */
#pragma once

#include "cli/command.h"
#include "cli/places.h"

extern const AppletTable applets;
extern const Places places;

/* A directory, or the URL of a bucket (storage/s3_config.h). NOT_FOUND when there is no store and `create` is not set;
 * errors of the two adapters. Caller frees. */
ObjectStore *places_open_objects (Ctx *ctx, const char *place, gboolean create, GError **error);
