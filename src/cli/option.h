/* Options of a command line as tables: parsing, help and completion all read the same rows. A table binds
 * each option to a member of the command's settings struct, as base/json.h does with JSON members.
 * Used by cli/ and main/. Pure; thread-safe. */
#pragma once

#include <glib.h>

#include "base/error.h"

typedef enum {
  OPTION_FLAG,     /* gboolean */
  OPTION_TEXT,     /* const char *, borrowed from argv */
  OPTION_NUMBER,   /* guint64 */
  OPTION_BYTES,    /* guint64, "8MiB" */
  OPTION_QUANTITY, /* guint64, "500Gi" as Kubernetes writes it */
} OptionType;

typedef struct {
  const char *name; /* without the dashes */
  char letter;      /* short form; '\0': none */
  OptionType type;
  gsize offset;
  const char *argument;       /* shown in help, "FILE"; NULL for a flag. FILE and DIR complete as such */
  const char *const *choices; /* the only values, NULL-terminated; or NULL */
  const char *help;
} Option;

#define OPTION(Struct, member, name, letter, type, argument, choices, help)       \
  {                                                                               \
    name, letter, type, G_STRUCT_OFFSET (Struct, member), argument, choices, help \
  }

typedef struct {
  const char *title; /* "Registry options"; NULL: "Options" */
  const Option *options;
  gsize n_options;
} OptionGroup;

/* A group and the struct its offsets are of. */
typedef struct {
  const OptionGroup *group;
  gpointer settings;
} OptionBinding;

/* Reason of every error that is the caller's misuse of the command line; it ends with exit status 2. */
#define CLI_USAGE "Usage"
#define cli_usage_fail(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, CLI_USAGE, __VA_ARGS__)

/* Sorts `argv` (NULL-terminated, without the program's and the command's name) into options, stored through
 * the bindings, and other arguments, appended to `out_arguments` (borrowed). Takes --name value, --name=value,
 * -x value, -xvalue, grouped flags, and -- before arguments that begin with a dash.
 * INVALID_ARGUMENT (reason CLI_USAGE) names the option and, when one is near, what was meant. */
gboolean options_parse (const OptionBinding *bindings, gsize n_bindings, char *const *argv, GPtrArray *out_arguments,
                        GError **error);

/* The one of `n` words that `word` most likely was meant to be, or NULL when none is near. */
const char *nearest_word (const char *word, const char *const *words, gsize n_words);
