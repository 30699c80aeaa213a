/* The module's registry for those who ask it as its users: the login as its Secret is mounted, a folder with the files
 * `username` and `password`, and what may be shown of a failure. */
#pragma once

#include "base/error.h"

/* "Basic ...", read anew; caller frees, it is a secret. */
char *registry_login_header (const char *dir, GError **error);
/* Always FALSE: the failure of a call to `who`, with its code and reason, in words that name no address. `status` 0: there was
 * no answer. */
gboolean registry_tell_failure (const char *who, const GError *failure, guint status, GError **error);
