/* Any list of paths as a source (a line each; the first line is the wish: format, variant or place; the last one
 * the content of every file that is asked for): refused with a reason, or the kept files have safe, distinct
 * targets and there are weights among them. */
#include "domain/file_selection.h"

#include "base/file.h"

#include <string.h>

#define MAX_LINES 300

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static GBytes *
load (const char *path, gpointer data, GError **error)
{
  return g_bytes_new (data, strlen (data));
}

static void
check_selection (const FileSelection *selection)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (selection->files, SelectedFile, i);
      g_assert_cmpint (file->role, !=, FILE_REJECTED);
      g_assert_true (file->why != NULL && file->why[0] != '\0');
      if (!selected_file_is_kept (file))
        continue;
      g_assert_true (path_is_safe (file->target));
      g_assert_true (g_hash_table_add (seen, file->target));
    }
  g_assert_cmpuint (file_selection_n_kept (selection), ==, g_hash_table_size (seen));
  g_assert_cmpuint (file_selection_kept_bytes (selection), <=, 100 * (guint64) selection->files->len);
}

static SelectionWish
wish_of (const char *line)
{
  SelectionWish wish = { 0 };
  if (model_format_parse (line, &wish.format))
    wish.has_format = TRUE;
  else if (line[0] == '.')
    wish.variant = line + 1;
  else if (line[0] != '\0')
    wish.within = line;
  return wish;
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_auto (GStrv) lines = g_strsplit (text, "\n", MAX_LINES);
  guint n_lines = g_strv_length (lines);
  if (n_lines < 3)
    return 0;
  SelectionWish wish = wish_of (lines[0]);
  g_autoptr (GArray) files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  for (guint i = 1; i + 1 < n_lines; i++)
    {
      SourceFile file = { lines[i], i % 100, i % 2 };
      g_array_append_val (files, file);
    }
  g_autoptr (GError) error = NULL;
  g_autoptr (FileSelection) selection = file_selection_new ((const SourceFile *) (gpointer) files->data, files->len,
                                                            &wish, &error);
  if (selection == NULL)
    {
      g_assert_nonnull (error);
      return 0;
    }
  check_selection (selection);
  if (file_selection_refine (selection, load, lines[n_lines - 1], &error))
    check_selection (selection);
  else
    g_assert_nonnull (am_error_reason (error));
  return 0;
}
