#include "base/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

typedef struct {
  char *dir;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  self->dir = g_dir_make_tmp ("file-XXXXXX", NULL);
  g_assert_nonnull (self->dir);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (file_remove_tree (self->dir, &error));
  g_assert_false (g_file_test (self->dir, G_FILE_TEST_EXISTS));
  g_free (self->dir);
}

static char *
path_of (const Fixture *self, const char *name)
{
  return g_strdup_printf ("%s/%s", self->dir, name);
}

static void
assert_content (const char *path, const char *wanted)
{
  g_autofree char *content = NULL;
  g_assert_true (g_file_get_contents (path, &content, NULL, NULL));
  g_assert_cmpstr (content, ==, wanted);
}

static guint
count_names (const char *path)
{
  guint n = 0;
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

static void
test_temp (Fixture *self, gconstpointer data)
{
  g_autofree char *target = path_of (self, "t");
  g_autoptr (GError) error = NULL;
  for (guint round = 0; round < 2; round++)
    {
      g_autoptr (TempFile) file = temp_file_new (self->dir, &error);
      g_assert_true (temp_file_write (file, "hello", 5, &error));
      g_assert_true (temp_file_write_at (file, 0, "J", 1, &error));
      g_assert_true (temp_file_write (file, "!", 1, &error)); /* goes on at the end */
      g_assert_true (temp_file_sync (file, &error));
      if (round == 0)
        g_assert_false (g_file_test (target, G_FILE_TEST_EXISTS));
      gboolean put = temp_file_publish (file, target, round == 1, &error);
      g_assert_cmpint (put, ==, round == 0);
    }
  g_assert_error (error, AM_ERROR, AM_ERROR_ALREADY_EXISTS);
  assert_content (target, "Jello!");
  g_assert_cmpuint (count_names (self->dir), ==, 1); /* the one that lost is gone */
  temp_file_free (NULL);
}

static void
test_replace_and_read (Fixture *self, gconstpointer data)
{
  g_autofree char *path = path_of (self, "f");
  g_autofree char *nowhere = path_of (self, "no/f");
  g_autoptr (GError) error = NULL;
  g_assert_true (file_replace (path, "one", 3, &error));
  g_assert_true (file_replace (path, "three", 5, &error));
  g_autoptr (GBytes) bytes = file_read (path, 5, &error);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), "three", 5);
  g_assert_null (file_read (path, 4, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
  g_clear_error (&error);
  g_assert_null (file_read (nowhere, 4, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_null (file_read (self->dir, 4, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_FAILED_PRECONDITION);
  g_clear_error (&error);
  g_assert_false (file_replace (nowhere, "x", 1, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
}

static void
test_make_dirs (Fixture *self, gconstpointer data)
{
  static const struct {
    const char *name;
    int code; /* 0: fine */
  } rows[] = {
    { "a/b/c/d", 0 },
    { "a/b/c/d", 0 },
    { "a/b/e/", 0 },
    { "file", AM_ERROR_FAILED_PRECONDITION },
    { "file/x", AM_ERROR_FAILED_PRECONDITION },
    { "file/x/y", AM_ERROR_FAILED_PRECONDITION },
  };
  g_autofree char *file = path_of (self, "file");
  g_assert_true (g_file_set_contents (file, "", 0, NULL));
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = path_of (self, rows[i].name);
      g_autoptr (GError) error = NULL;
      g_assert_cmpint (file_make_dirs (path, NULL, &error), ==, rows[i].code == 0);
      if (rows[i].code != 0)
        g_assert_error (error, AM_ERROR, rows[i].code);
      else
        g_assert_true (g_file_test (path, G_FILE_TEST_IS_DIR));
    }
}

static gboolean stop;

static gpointer
remove_levels (gpointer data)
{
  g_autofree char *lower = g_strdup_printf ("%s/x/y", (const char *) data);
  g_autofree char *upper = g_strdup_printf ("%s/x", (const char *) data);
  while (!g_atomic_int_get (&stop))
    {
      rmdir (lower);
      rmdir (upper);
      g_usleep (10); /* nobody does it without a break, and under the thread sanitizer the maker would never win */
    }
  return NULL;
}

/* Somebody removes the levels while they are made. */
static void
test_make_dirs_race (Fixture *self, gconstpointer data)
{
  g_autofree char *path = path_of (self, "x/y/z");
  g_autoptr (GError) error = NULL;
  stop = FALSE;
  GThread *thread = g_thread_new ("rmdir", remove_levels, self->dir);
  gint64 enough_us = g_get_monotonic_time () + 3 * G_TIME_SPAN_SECOND; /* each syncs directories, on any disk */
  for (guint i = 0; i < 50 || (i < 3000 && g_get_monotonic_time () < enough_us); i++)
    {
      gboolean ok = file_make_dirs (path, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (ok);
      rmdir (path);
    }
  g_atomic_int_set (&stop, TRUE);
  g_thread_join (thread);
}

static void
test_make_dirs_unsynced (Fixture *self, gconstpointer data)
{
  g_autofree char *upper = path_of (self, "u");
  g_autofree char *lower = path_of (self, "u/v");
  g_autoptr (GPtrArray) unsynced = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (file_make_dirs (lower, unsynced, &error));
      g_assert_no_error (error);
      /* Levels that are there already are nobody's business the second time. */
      g_assert_cmpuint (unsynced->len, ==, 2);
      g_assert_cmpstr (g_ptr_array_index (unsynced, 0), ==, self->dir);
      g_assert_cmpstr (g_ptr_array_index (unsynced, 1), ==, upper);
    }
}

static void
test_remove_tree (Fixture *self, gconstpointer data)
{
  g_autofree char *outside = path_of (self, "outside");
  g_autofree char *precious = path_of (self, "outside/precious");
  g_autofree char *tree = path_of (self, "tree");
  g_autofree char *link_in_tree = path_of (self, "tree/a/link");
  g_autofree char *file_in_tree = path_of (self, "tree/a/b/f");
  g_autofree char *deep = path_of (self, "tree/a/b");
  g_autoptr (GError) error = NULL;
  g_assert_true (file_make_dirs (outside, NULL, &error));
  g_assert_true (g_file_set_contents (precious, "p", 1, NULL));
  g_assert_true (file_make_dirs (deep, NULL, &error));
  g_assert_cmpint (symlink (outside, link_in_tree), ==, 0);
  g_assert_true (g_file_set_contents (file_in_tree, "f", 1, NULL));
  g_assert_true (file_remove_tree (tree, &error));
  g_assert_true (file_remove_tree (tree, &error)); /* missing is fine */
  g_assert_no_error (error);
  g_assert_false (g_file_test (tree, G_FILE_TEST_EXISTS));
  assert_content (precious, "p");
}

static void
test_pread (Fixture *self, gconstpointer data)
{
  g_autofree char *path = path_of (self, "f");
  g_autoptr (GError) error = NULL;
  am_autofd int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  char buffer[8];
  g_assert_true (file_write_all (fd, "abc", 3, &error));
  g_assert_true (file_pwrite_all (fd, 5, "xyz", 3, &error)); /* leaves a hole */
  g_assert_true (file_pread_all (fd, 0, buffer, 8, "f", &error));
  g_assert_cmpmem (buffer, 8, "abc\0\0xyz", 8);
  g_assert_false (file_pread_all (fd, 6, buffer, 3, "f", &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
  g_clear_error (&error);
  am_autofd int closed = -1;
  g_assert_false (file_write_all (closed, "x", 1, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_INTERNAL);
  g_assert_true (file_write_all (closed, "", 0, NULL));
}

static void
test_path_is_safe (void)
{
  g_autofree char *at_limit = g_strnfill (255, 'a');
  g_autofree char *too_long = g_strnfill (256, 'a');
  g_autofree char *whole = g_strdup_printf ("%s/%s/%s/%s/b", at_limit, at_limit, at_limit, at_limit);
  const struct {
    const char *path;
    gboolean safe;
  } rows[] = {
    { "a", TRUE },       { "a/b", TRUE },        { ".a/..b/c..", TRUE }, { "...", TRUE },
    { "a b", TRUE },     { "\xc3\xa4/x", TRUE }, { at_limit, TRUE },     { NULL, FALSE },
    { "", FALSE },       { ".", FALSE },         { "..", FALSE },        { "/a", FALSE },
    { "a/", FALSE },     { "a//b", FALSE },      { "a/./b", FALSE },     { "a/../b", FALSE },
    { "../a", FALSE },   { "a/..", FALSE },      { "a\\b", FALSE },      { "a\nb", FALSE },
    { "a\x7f", FALSE },  { "\xff", FALSE },      { "\xc0\xaf", FALSE },  { "\xed\xa0\x80", FALSE },
    { too_long, FALSE }, { whole, FALSE },       { "/", FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *shown = g_strescape (rows[i].path != NULL ? rows[i].path : "(none)", NULL);
      g_test_message ("%s", shown);
      g_assert_cmpint (path_is_safe (rows[i].path), ==, rows[i].safe);
    }
  g_assert_cmpuint (strlen (whole), ==, 1025);
  whole[1024] = '\0'; /* ends with a slash now: still not safe; one less is */
  g_assert_false (path_is_safe (whole));
  whole[1023] = '\0';
  g_assert_true (path_is_safe (whole));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add (name, Fixture, NULL, set_up, func, tear_down)
  ADD ("/file/temp", test_temp);
  ADD ("/file/replace-and-read", test_replace_and_read);
  ADD ("/file/make-dirs", test_make_dirs);
  ADD ("/file/make-dirs-race", test_make_dirs_race);
  ADD ("/file/make-dirs-unsynced", test_make_dirs_unsynced);
  ADD ("/file/remove-tree", test_remove_tree);
  ADD ("/file/pread", test_pread);
  g_test_add_func ("/file/path-is-safe", test_path_is_safe);
  return g_test_run ();
}
