/* Tolerant reading of config.json and its like: formats-config-facts.md 1. A value of another kind than
 * asked for counts as unknown; null counts as absent; of duplicate keys the last wins, as in Python.
 * Private to formats/config_*.c and its neighbours that read such files. */
#pragma once

#include "base/json.h"

#define CONFIG_MAX_BYTES (16 * 1024 * 1024)

/* A JSON object of at most CONFIG_MAX_BYTES. INVALID_ARGUMENT, reason FormatInvalid, on anything else. */
yyjson_doc *config_parse (const char *text, gsize size, GError **error);
/* NULL when absent or null. `object` may be NULL or of any type. */
yyjson_val *config_get (yyjson_val *object, const char *key);
yyjson_val *config_object (yyjson_val *object, const char *key);
/* NULL when absent, empty or no string; owned by the document. */
const char *config_string (yyjson_val *object, const char *key);
/* TRUE only for true. */
gboolean config_true (yyjson_val *object, const char *key);
gboolean config_has (yyjson_val *object, const char *key);
/* An integer >= 0, also as 4096.0, "4096" or the largest of a list per layer. */
gboolean config_value_u64 (yyjson_val *value, guint64 *out_value);
gboolean config_value_double (yyjson_val *value, double *out_value);
gboolean config_u64 (yyjson_val *object, const char *key, guint64 *out_value);

/* TRUE when `text` (may be NULL) is in the list, which ends with NULL. */
gboolean config_is_one_of (const char *text, const char *const *names);

/* A config and the part of it that describes the text model, which is looked at first. */
typedef struct {
  yyjson_val *root, *text; /* the same when there is no such part */
} ConfigScope;

/* Finds the text part: formats-config-facts.md 2. */
ConfigScope config_scope (yyjson_val *root);
yyjson_val *config_scope_get (const ConfigScope *self, const char *key);
/* The first of the keys (up to a NULL) that holds a positive number. */
guint64 config_scope_first_u64 (const ConfigScope *self, const char *const *keys);
