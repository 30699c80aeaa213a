/* Small pieces of what commands print: JSON members and columns. Not thread-safe. */
#pragma once

#include "base/digest.h"
#include "cli/cli.h"
#include "registry/transfer_events.h"

/* A document with an object as its root. */
yyjson_mut_doc *report_new (yyjson_mut_val **out_root);
/* Members; a NULL text is left out. Everything is copied. */
void report_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const char *text);
void report_number (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, guint64 number);
void report_flag (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, gboolean flag);
void report_digest (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const Digest *digest);
yyjson_mut_val *report_array (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key);
yyjson_mut_val *report_item (yyjson_mut_doc *doc, yyjson_mut_val *array);

/* Rows of text in columns, each as wide as its longest cell; numbers to the right. */
typedef struct Table Table;
Table *table_new (guint n_columns, guint right_aligned_mask);
void table_add (Table *self, ...); /* n_columns of const char *, copied */
void table_say (Table *self, Cli *cli, const char *indent);
void table_free (Table *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Table, table_free)

/* Events of a transfer shown as progress; `progress` must outlive their use. */
TransferEvents report_progress (Progress *progress);
