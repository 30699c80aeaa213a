#include "cli/program.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"

#define LONG_MS (3600 * 1000)

const char *const program_log_levels[] = { "debug", "info", "warning", "error", NULL };

void
program_start_log (const Cli *cli, const char *level, const char *component)
{
  AmLogLevel least = cli->common.verbose ? AM_LOG_DEBUG : AM_LOG_INFO;
  gboolean as_json = g_strcmp0 (cli->common.log_format, "json") == 0;
  if (level != NULL)
    am_log_level_parse (level, &least); /* one of the choices */
  am_log_init (least, as_json ? AM_LOG_FORMAT_JSON : AM_LOG_FORMAT_TEXT, component);
}

gboolean
program_write_port (const char *path, guint16 port, GError **error)
{
  char text[16];
  g_snprintf (text, sizeof text, "%u\n", port);
  return path == NULL || file_replace (path, text, strlen (text), error);
}

void
program_wait (Ctx *ctx)
{
  g_autoptr (GError) problem = NULL;
  while (ctx_sleep_ms (ctx, LONG_MS, &problem))
    continue;
  am_ignore (&problem, "told to stop");
}
