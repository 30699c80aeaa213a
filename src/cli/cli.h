/* The frame of every command: reads the command line, opens what references name, prints results as text or
 * JSON, shows errors with a remedy, and ends with the documented exit status (docs/en/cli.md).
 * Used by main/ and by the commands of this folder. One thread. */
#pragma once

#include "base/json.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/places.h"
#include "cli/progress.h"

/* Runs the applet that argv[1] names and returns the exit status. */
int cli_main (Ctx *ctx, const AppletTable *applets, const Places *places, int argc, char **argv);

struct Cli {
  const AppletTable *applets;
  const Places *places;
  const Command *command;
  CommonOptions common;
  LocalStore *store; /* opened when first asked for */
  GString *out;      /* standard output, written at the end */
  gboolean has_json; /* the document is in `out` */
};

/* The local store's folder. Caller frees. */
char *cli_store_directory (const Cli *self);
/* The local store, owned by `self`. NOT_FOUND when there is none and `create` is not set. */
BlobStore *cli_store (Cli *self, gboolean create, GError **error);
/* The same, NULL without an error when there is none that can be used. */
BlobStore *cli_store_if_any (Cli *self);

/* A line, or part of one, of the answer for people; nothing with --json. Control characters that came from
 * outside are made harmless. */
void cli_say (Cli *self, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* A remark on standard error; nothing with --quiet. */
void cli_remark (Cli *self, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* The answer for programs; nothing without --json. */
void cli_answer (Cli *self, yyjson_mut_doc *doc);
gboolean cli_wants_json (const Cli *self);
/* Caller frees. */
Progress *cli_progress (Cli *self, const char *verb);
