/* A command of `ai-models` as data: its arguments, options, help text and function. cli.h runs it; help.h and
 * completion.h show it. Immutable tables; thread-safe. */
#pragma once

#include "base/ctx.h"
#include "cli/option.h"

typedef struct Cli Cli;

/* What stands in an argument's place, for completion. */
typedef enum { ARGUMENT_NONE, ARGUMENT_PATH, ARGUMENT_DIRECTORY, ARGUMENT_REFERENCE, ARGUMENT_WORD } ArgumentKind;

typedef struct {
  const char *line;    /* what to type, without "ai-models " */
  const char *meaning; /* one line */
} Example;

#define COMMAND_MAX_ARGUMENTS 2

typedef struct {
  const char *name;
  const char *summary; /* one line, no full stop */
  const char *usage;   /* "PATH REF" */
  const char *about;   /* paragraphs, wrapped at 78 columns */
  guint min_arguments, max_arguments;
  ArgumentKind arguments[COMMAND_MAX_ARGUMENTS];
  const char *const *words;           /* of ARGUMENT_WORD, NULL-terminated */
  const OptionGroup *options;         /* its own; or NULL */
  gboolean uses_store, uses_registry; /* takes the options of the local store, of registries */
  gsize settings_size;                /* of the struct its options are bound to; zeroed first */
  const Example *examples;
  gsize n_examples;
  /* Does the work; `arguments` is NULL-terminated and of an allowed length. The error is shown and turned
   * into an exit status by the caller. */
  gboolean (*run) (Ctx *ctx, Cli *cli, gconstpointer settings, const char *const *arguments, GError **error);
} Command;

/* A face of the program: a command, or a program of its own with its own command line. */
typedef struct {
  const char *name, *summary;
  const Command *command;
  int (*main) (Ctx *ctx, int argc, char **argv);
} Applet;

typedef struct {
  const Applet *applets;
  gsize n_applets;
} AppletTable;

const char *applet_name (const Applet *self);
const char *applet_summary (const Applet *self);
/* NULL when there is none. */
const Applet *applet_find (const AppletTable *table, const char *name);
