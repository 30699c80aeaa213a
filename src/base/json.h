/* JSON glue over yyjson. Foreign JSON is read with limits (size, depth) and bound to structs by
 * field tables; members a table does not name survive a read-modify-write when the document is kept
 * by the caller. Used wherever JSON is read or written; values are not thread-safe. */
#pragma once

#include <glib.h>
#include <yyjson.h>

#define JSON_MAX_DEPTH 64

typedef struct yyjson_doc JsonDoc;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (yyjson_doc, yyjson_doc_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (yyjson_mut_doc, yyjson_mut_doc_free)

typedef enum {
  JSON_STRICT = 0,
  JSON_WILD = 1, /* config.json of the wild: NaN and Infinity, BOM; these and integers beyond 64 bits as raw text */
  JSON_SHALLOW,  /* strict; the caller has seen to it that it is not nested too deep */
} JsonFlavour;

/* INVALID_ARGUMENT with the position on bad JSON or more than JSON_MAX_DEPTH levels;
 * RESOURCE_EXHAUSTED above `limit_bytes`. The depth is checked before parsing. Free with
 * yyjson_doc_free. */
yyjson_doc *json_parse (gconstpointer data, gsize size, gsize limit_bytes, JsonFlavour flavour, GError **error);

/* At most so many values, names of members among them, are made of it when it is parsed (an empty list counts as one too many).
 * For who bounds what they take: 16 bytes parsed and 24 in a mutable document, of as little as two bytes of text. */
gsize json_count_values (gconstpointer data, gsize size);

typedef enum {
  JSON_STRING,  /* char *, copied; NULL when absent */
  JSON_UINT64,  /* guint64 */
  JSON_INT64,   /* gint64 */
  JSON_BOOL,    /* gboolean */
  JSON_DOUBLE,  /* double */
  JSON_STRINGS, /* GPtrArray of char * with g_free; NULL when absent */
} JsonType;

typedef struct {
  const char *name;
  JsonType type;
  gsize offset;
  gboolean required;
} JsonField;

#define JSON_FIELD(Struct, member, name, type, required)   \
  {                                                        \
    name, type, G_STRUCT_OFFSET (Struct, member), required \
  }

/* Fills `out` (zeroed by the caller) from `object`. INVALID_ARGUMENT names the member that is missing
 * or of another type; what was filled so far is the caller's to free. JSON null counts as absent. */
gboolean json_bind (yyjson_val *object, const JsonField *fields, gsize n_fields, gpointer out, GError **error);
/* Adds the members of `in` to a mutable object: strings and arrays when not NULL, numbers always when
 * required and otherwise when not zero. Strings are copied. */
void json_unbind (yyjson_mut_doc *doc, yyjson_mut_val *object, const JsonField *fields, gsize n_fields,
                  gconstpointer in);
/* Frees the strings and arrays that json_bind stored. */
void json_clear (const JsonField *fields, gsize n_fields, gpointer bound);

/* NULL when absent or of another type; a string with a NUL inside is none. */
const char *json_get_string (yyjson_val *object, const char *name);
yyjson_val *json_get_object (yyjson_val *object, const char *name);
yyjson_val *json_get_array (yyjson_val *object, const char *name);

/* Compact text of a document; keys in the order they were added. Never NULL, always valid JSON: NaN and
 * Infinity become null, bytes that are not UTF-8 become U+FFFD. (Not for what was read as JSON_WILD, which keeps
 * them as raw text.) */
char *json_write (yyjson_mut_doc *doc, gsize *out_size);
/* Indented, for people. */
char *json_write_pretty (yyjson_mut_doc *doc);
