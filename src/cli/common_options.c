#include "cli/common_options.h"

#define COMMON(member, name, letter, type, argument, choices, help) \
  OPTION (CommonOptions, member, name, letter, type, argument, choices, help)

static const char *const log_formats[] = { "text", "json", NULL };

static const Option output_options[] = {
  COMMON (json, "json", '\0', OPTION_FLAG, NULL, NULL, "print one JSON document on standard output"),
  COMMON (quiet, "quiet", 'q', OPTION_FLAG, NULL, NULL, "no progress and no remarks; errors are still shown"),
  COMMON (verbose, "verbose", 'v', OPTION_FLAG, NULL, NULL, "log every step on standard error"),
  COMMON (log_format, "log-format", '\0', OPTION_TEXT, "FORMAT", log_formats, "log lines as text or json"),
  COMMON (help, "help", 'h', OPTION_FLAG, NULL, NULL, "show this help"),
  COMMON (version, "version", 'V', OPTION_FLAG, NULL, NULL, "show the version"),
};

static const Option store_options[] = {
  COMMON (store, "store", '\0', OPTION_TEXT, "DIR", NULL,
          "local store: directory or s3://BUCKET (else $AI_MODELS_STORE, else $XDG_DATA_HOME/ai-models)"),
};

static const Option registry_options[] = {
  COMMON (registry.plain_http, "plain-http", '\0', OPTION_FLAG, NULL, NULL,
          "speak HTTP without TLS (usual for localhost without being asked)"),
  COMMON (registry.ca_file, "ca-file", '\0', OPTION_TEXT, "FILE", NULL,
          "certificates to trust, instead of the system's"),
  COMMON (registry.insecure, "insecure", '\0', OPTION_FLAG, NULL, NULL, "do not check the registry's certificate"),
  COMMON (registry.username, "username", 'u', OPTION_TEXT, "NAME", NULL, "user for the registry"),
  COMMON (registry.password_stdin, "password-stdin", '\0', OPTION_FLAG, NULL, NULL,
          "read the password from standard input"),
  COMMON (registry.password_file, "password-file", '\0', OPTION_TEXT, "FILE", NULL, "read the password from a file"),
};

const OptionGroup output_option_group = { "Output options", output_options, G_N_ELEMENTS (output_options) };
const OptionGroup store_option_group = { "Store options", store_options, G_N_ELEMENTS (store_options) };
const OptionGroup registry_option_group = { "Registry options", registry_options, G_N_ELEMENTS (registry_options) };
