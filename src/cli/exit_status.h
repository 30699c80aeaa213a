/* What the program's exit statuses mean; base/error.h gives each error code its status. Pure. */
#pragma once

#include <glib.h>

#include "base/error.h"

#define EXIT_STATUS_USAGE 2

typedef struct {
  int status;
  const char *meaning;
} ExitStatus;

extern const ExitStatus exit_statuses[];
extern const gsize n_exit_statuses;

/* Status of a command that ended with `error`; 0 for NULL. Misuse of the command line is 2. */
int exit_status_of (const GError *error);
/* What a person can do about the error, one sentence; NULL when there is nothing to say. */
const char *exit_remedy_of (const GError *error);
