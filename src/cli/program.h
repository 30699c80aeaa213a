/* What commands have in common that run as programs of their own, for a machine or a cluster, until a signal ends them. */
#pragma once

#include "cli/cli.h"

extern const char *const program_log_levels[]; /* choices of --log-level */

/* Begins to log as `component`: from `level` (one of the choices) on, NULL: info, or debug with --verbose. */
void program_start_log (const Cli *cli, const char *level, const char *component);
/* For whoever waits for a program that may listen anywhere; `path` may be NULL. */
gboolean program_write_port (const char *path, guint16 port, GError **error);
/* Blocks until the context is cancelled. */
void program_wait (Ctx *ctx);
