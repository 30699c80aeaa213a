/* The keys of the module's bucket: what the environment of this process has, and what the module's Secret says now. */
#pragma once

#include <glib.h>

/* Whether the files accessKey and secretKey of `dir` (a mounted Secret; NULL: there is none) hold other keys than
 * AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which a process keeps for as long as it lives. FALSE when they cannot be read. */
gboolean staging_keys_are_old (const char *dir);
