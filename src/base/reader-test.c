#include "base/reader.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

static const char content[] = "0123456789";
#define N 10u

static void
expect (Reader *reader, guint64 offset, gsize size, const char *wanted)
{
  char buffer[N + 1];
  g_autoptr (GError) error = NULL;
  memset (buffer, '#', sizeof buffer);
  gboolean ok = reader_read_at (NULL, reader, offset, buffer, size, &error);
  if (wanted == NULL)
    {
      g_assert_false (ok);
      g_assert_error (error, AM_ERROR, AM_ERROR_OUT_OF_RANGE);
      g_assert_cmpint (buffer[0], ==, '#');
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpmem (buffer, size, wanted, strlen (wanted));
  g_assert_cmpint (buffer[size], ==, '#');
}

/* Every implementation over the same ten bytes. */
static void
check_contract (Reader *reader)
{
  static const struct {
    guint64 offset;
    gsize size;
    const char *wanted;
  } rows[] = {
    { 0, N, content }, { 0, 0, "" },       { N, 0, "" },       { 3, 4, "3456" },         { N - 1, 1, "9" },
    { N, 1, NULL },    { 0, N + 1, NULL }, { N + 1, 0, NULL }, { G_MAXUINT64, 2, NULL }, { 5, G_MAXSIZE, NULL },
  };
  g_assert_cmpuint (reader->size_bytes, ==, N);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    expect (reader, rows[i].offset, rows[i].size, rows[i].wanted);
}

static char *
temp_file (const char *bytes)
{
  g_autofree char *dir = g_dir_make_tmp ("reader-XXXXXX", NULL);
  char *path = g_build_filename (dir, "f", NULL);
  g_assert_true (g_file_set_contents (path, bytes, -1, NULL));
  return path;
}

static void
drop (const char *path)
{
  g_autofree char *dir = g_path_get_dirname (path);
  g_assert_true (file_remove_tree (dir, NULL));
}

static void
test_contract (void)
{
  g_autofree char *path = temp_file (content);
  g_autoptr (GBytes) bytes = g_bytes_new_static (content, N);
  g_autoptr (GBytes) wider = g_bytes_new_static ("abc0123456789xyz", 16);
  g_autoptr (Reader) memory = reader_new_bytes (bytes);
  g_autoptr (Reader) file = reader_new_file (path, NULL);
  g_autoptr (Reader) from_fd = reader_new_fd (open (path, O_RDONLY), "f", NULL);
  g_autoptr (Reader) base = reader_new_bytes (wider);
  g_autoptr (Reader) slice = reader_new_slice (base, 3, N);
  Reader *all[] = { memory, file, from_fd, slice };
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    check_contract (all[i]);
  g_autoptr (Reader) nothing = reader_new_slice (base, 16, 0);
  expect (nothing, 0, 0, "");
  expect (nothing, 0, 1, NULL);
  drop (path);
}

static void
test_not_files (void)
{
  g_autofree char *path = temp_file (content);
  g_autofree char *dir = g_path_get_dirname (path);
  g_autofree char *fifo = g_build_filename (dir, "fifo", NULL);
  g_autofree char *missing = g_build_filename (dir, "missing", NULL);
  g_autoptr (GError) error = NULL;
  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  g_assert_null (reader_new_file (dir, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_FAILED_PRECONDITION);
  g_clear_error (&error);
  g_assert_null (reader_new_file (fifo, &error)); /* and does not wait for a writer */
  g_assert_error (error, AM_ERROR, AM_ERROR_FAILED_PRECONDITION);
  g_clear_error (&error);
  g_assert_null (reader_new_file (missing, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
  reader_free (NULL);
  drop (path);
}

static void
test_shrinks (void)
{
  g_autofree char *path = temp_file (content);
  g_autoptr (Reader) reader = reader_new_file (path, NULL);
  g_autoptr (GError) error = NULL;
  char buffer[N];
  g_assert_cmpint (truncate (path, 4), ==, 0);
  g_assert_true (reader_read_at (NULL, reader, 0, buffer, 4, &error));
  g_assert_false (reader_read_at (NULL, reader, 2, buffer, 4, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
  drop (path);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/reader/contract", test_contract);
  g_test_add_func ("/reader/not-files", test_not_files);
  g_test_add_func ("/reader/shrinks", test_shrinks);
  return g_test_run ();
}
