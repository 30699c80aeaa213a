/* Options that commands have in common. Tables and plain structs; not thread-safe while they are filled. */
#pragma once

#include "cli/option.h"

/* How to reach one registry. */
typedef struct {
  gboolean plain_http, insecure, password_stdin;
  const char *ca_file, *username, *password_file;
} RegistryOptions;

typedef struct {
  gboolean help, version, json, quiet, verbose;
  const char *log_format;
  const char *store;
  RegistryOptions registry;
} CommonOptions;

extern const OptionGroup output_option_group;   /* every command */
extern const OptionGroup store_option_group;    /* those that may use the local store */
extern const OptionGroup registry_option_group; /* those that may speak to a registry */
