/* What `ai-models controller` can be told, as a table, and what follows from it. Private to main/. */
#pragma once

#include "cli/option.h"
#include "controllers/controller_settings.h"

typedef struct {
  ControllerSettings controller; /* as far as it stands on the command line */
  const char *listen, *metrics_listen, *webhook_listen, *tls_cert, *tls_key, *log_level;
  guint64 max_workers, sweep_interval_s, inventory_interval_s, linger_s;
  gboolean no_accounting;
  const char *delivery, *grant_salt_file;
  guint64 max_materializations;
} ControllerOptions;

extern const OptionGroup controller_options;

/* The settings with all defaults, but for the replica's identity; texts are those of `self`. INVALID_ARGUMENT (reason
 * CLI_USAGE) for what is missing or does not go together; errors of reading the salt. */
gboolean controller_options_take (const ControllerOptions *self, ControllerSettings *out_settings, GError **error);
