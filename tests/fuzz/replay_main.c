/* Runs a fuzz target over files and folders given as arguments, without a fuzzer: so that ordinary builds
 * replay the corpus. Prints TAP; fails when there was no input at all. */
#include <glib.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static int
by_name (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(char *const *) a, *(char *const *) b);
}

static void
collect (const char *path, GPtrArray *files)
{
  g_autoptr (GDir) dir = g_file_test (path, G_FILE_TEST_IS_DIR) ? g_dir_open (path, 0, NULL) : NULL;
  if (dir == NULL)
    {
      g_ptr_array_add (files, g_strdup (path));
      return;
    }
  for (const char *name = g_dir_read_name (dir); name != NULL; name = g_dir_read_name (dir))
    {
      g_autofree char *child = g_build_filename (path, name, NULL);
      collect (child, files);
    }
}

int
main (int argc, char **argv)
{
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);
  for (int i = 1; i < argc; i++)
    collect (argv[i], files);
  g_ptr_array_sort (files, by_name);
  printf ("1..%u\n", files->len + 1);
  guint n_read = 0;
  for (guint i = 0; i < files->len; i++)
    {
      const char *path = g_ptr_array_index (files, i);
      char *content = NULL;
      gsize size = 0;
      gboolean is_read = g_file_get_contents (path, &content, &size, NULL);
      if (is_read)
        LLVMFuzzerTestOneInput ((const guint8 *) content, size);
      n_read += is_read;
      g_free (content);
      printf ("%sok %u - %s\n", is_read ? "" : "not ", i + 1, path);
    }
  printf ("%sok %u - there was something to replay\n", n_read > 0 ? "" : "not ", files->len + 1);
  return n_read > 0 && n_read == files->len ? 0 : 1;
}
