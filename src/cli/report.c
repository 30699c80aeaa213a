#include "cli/report.h"

#include <stdarg.h>

yyjson_mut_doc *
report_new (yyjson_mut_val **out_root)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  *out_root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, *out_root);
  return doc;
}

void
report_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const char *text)
{
  if (text == NULL)
    return;
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  yyjson_mut_obj_add_strcpy (doc, object, key, valid);
}

void
report_number (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, guint64 number)
{
  yyjson_mut_obj_add_uint (doc, object, key, number);
}

void
report_flag (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, gboolean flag)
{
  yyjson_mut_obj_add_bool (doc, object, key, flag != FALSE);
}

void
report_digest (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  report_text (doc, object, key, digest_format (digest, text));
}

yyjson_mut_val *
report_array (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key)
{
  yyjson_mut_val *array = yyjson_mut_arr (doc);
  yyjson_mut_obj_add_val (doc, object, key, array);
  return array;
}

yyjson_mut_val *
report_item (yyjson_mut_doc *doc, yyjson_mut_val *array)
{
  return yyjson_mut_arr_add_obj (doc, array);
}

struct Table {
  guint n_columns, right_aligned_mask;
  GPtrArray *cells; /* char *, row by row */
};

Table *
table_new (guint n_columns, guint right_aligned_mask)
{
  Table *self = g_new0 (Table, 1);
  self->n_columns = n_columns;
  self->right_aligned_mask = right_aligned_mask;
  self->cells = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
table_add (Table *self, ...)
{
  va_list args;
  va_start (args, self);
  for (guint i = 0; i < self->n_columns; i++)
    g_ptr_array_add (self->cells, g_utf8_make_valid (va_arg (args, const char *), -1));
  va_end (args);
}

static guint
column_width (const Table *self, guint column)
{
  glong width = 0;
  for (guint i = column; i < self->cells->len; i += self->n_columns)
    width = MAX (width, g_utf8_strlen (self->cells->pdata[i], -1));
  return (guint) width;
}

void
table_say (Table *self, Cli *cli, const char *indent)
{
  g_autofree guint *widths = g_new (guint, self->n_columns);
  for (guint i = 0; i < self->n_columns; i++)
    widths[i] = column_width (self, i);
  for (guint i = 0; i < self->cells->len; i++)
    {
      guint column = i % self->n_columns;
      const char *cell = self->cells->pdata[i];
      int padding = (int) (widths[column] - (guint) g_utf8_strlen (cell, -1));
      gboolean is_last = column + 1 == self->n_columns;
      gboolean right = (self->right_aligned_mask >> column & 1) != 0;
      cli_say (cli, "%s%*s%s%*s", column == 0 ? indent : "  ", right ? padding : 0, "", cell,
               right || is_last ? 0 : padding, "");
      if (is_last)
        cli_say (cli, "\n");
    }
}

void
table_free (Table *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->cells);
  g_free (self);
}

static void
on_plan (guint64 total_bytes, guint n_files, gpointer data)
{
  progress_plan (data, total_bytes, n_files);
}

static void
on_file (const char *path, gpointer data)
{
  progress_file (data, path);
}

static void
on_file_done (const char *path, gpointer data)
{
  progress_file_done (data);
}

static void
on_bytes (guint64 done_bytes, guint64 moved_bytes, gpointer data)
{
  progress_add (data, done_bytes);
}

TransferEvents
report_progress (Progress *progress)
{
  return (TransferEvents){ on_plan, on_file, on_file_done, on_bytes, progress };
}
