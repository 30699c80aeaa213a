/* The login of the module's registry as its Secret is mounted: a folder with the files `username` and `password`. */
#pragma once

#include "base/error.h"

/* "Basic ...", read anew; caller frees, it is a secret. */
char *registry_login_header (const char *dir, GError **error);
