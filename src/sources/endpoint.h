/* The address of a hub or of a mirror of one. Pure. Private to sources/. */
#pragma once

#include "base/error.h"

/* "https://host:443" of an http or https URL, caller frees; NULL for others and for those with user info: no address of a
 * hub holds a name and a password. */
char *endpoint_origin (const char *url);
/* `text` without slashes at its end, and its origin; the caller frees both. INVALID_ARGUMENT, naming `setting`, unless it is
 * an http or https URL without user info, query and fragment. */
gboolean endpoint_parse (const char *text, const char *setting, char **out_endpoint, char **out_origin,
                         GError **error);
