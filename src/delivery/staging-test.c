#include "delivery/staging.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

typedef struct {
  char *root, *target;
  Digest digest;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  self->root = g_dir_make_tmp ("staging-XXXXXX", NULL);
  self->target = g_build_filename (self->root, "model", NULL);
  digest_of (DIGEST_SHA256, "x", 1, &self->digest);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  g_assert_true (file_remove_tree (self->root, NULL));
  g_free (self->root);
  g_free (self->target);
}

static Staging *
begin (Fixture *self)
{
  g_autoptr (GError) error = NULL;
  Staging *staging = staging_new (self->target, &self->digest, &error);
  g_assert_no_error (error);
  g_assert_true (staging_begin (staging, &error));
  return staging;
}

static void
put_file (Staging *staging, const char *path, const char *text)
{
  g_autoptr (GError) error = NULL;
  am_autofd int fd = growing_dir_open_file (staging_dir (staging), path, &error);
  g_assert_no_error (error);
  g_assert_true (file_write_all (fd, text, strlen (text), NULL));
}

static void
assert_content (Fixture *self, const char *path, const char *text)
{
  g_autofree char *full = g_build_filename (self->target, path, NULL), *content = NULL;
  g_assert_true (g_file_get_contents (full, &content, NULL, NULL));
  g_assert_cmpstr (content, ==, text);
}

static guint
count_entries (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  guint n = 0;
  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

static void
test_appears_whole (Fixture *self, gconstpointer data)
{
  mode_t old = umask (077);
  Staging *staging = begin (self);
  put_file (staging, "a/b/file", "text");
  umask (old);
  g_assert_false (g_file_test (self->target, G_FILE_TEST_EXISTS));
  g_assert_true (staging_publish (staging, NULL));
  staging_free (staging);
  assert_content (self, "a/b/file", "text");
  g_assert_cmpuint (count_entries (self->root), ==, 1);
  struct stat info;
  g_autofree char *file = g_build_filename (self->target, "a/b/file", NULL);
  g_assert_cmpint (stat (file, &info), ==, 0);
  g_assert_cmpint (info.st_mode & 0777, ==, 0644);
  g_assert_cmpint (stat (self->target, &info), ==, 0);
  g_assert_cmpint (info.st_mode & 0777, ==, 0755);
}

/* Pitfalls A15. */
static void
test_stays_for_the_next_run (Fixture *self, gconstpointer data)
{
  Staging *staging = begin (self);
  put_file (staging, "file", "text");
  staging_free (staging);
  staging = begin (self);
  g_assert_true (staging_publish (staging, NULL));
  staging_free (staging);
  assert_content (self, "file", "text");
}

static void
test_nothing_is_left_of_nothing (Fixture *self, gconstpointer data)
{
  staging_free (begin (self));
  g_assert_cmpuint (count_entries (self->root), ==, 0);
}

static void
test_replaces (Fixture *self, gconstpointer data)
{
  g_autofree char *old_file = g_build_filename (self->target, "old", NULL);
  g_assert_cmpint (g_mkdir (self->target, 0755), ==, 0);
  g_assert_true (g_file_set_contents (old_file, "old", -1, NULL));
  Staging *staging = begin (self);
  g_assert_cmpint (staging_target_state (staging), ==, TARGET_FULL);
  put_file (staging, "new", "new");
  g_assert_true (staging_publish (staging, NULL));
  staging_free (staging);
  assert_content (self, "new", "new");
  g_assert_false (g_file_test (old_file, G_FILE_TEST_EXISTS));
  g_assert_cmpuint (count_entries (self->root), ==, 1);
}

/* Pitfalls A16. */
static void
test_one_at_a_time (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Staging *first = begin (self);
  g_assert_null (staging_new (self->target, &self->digest, &error));
  g_assert_true (am_error_has_reason (error, "DirectoryBusy"));
  g_autofree char *pid = g_strdup_printf ("process %ld", (long) getpid ());
  g_assert_nonnull (strstr (error->message, pid));
  staging_free (first);
  staging_free (begin (self));
}

/* Pitfalls A25. */
static void
test_links_are_not_followed (Fixture *self, gconstpointer data)
{
  Staging *staging = begin (self);
  g_autofree char *link = g_build_filename (growing_dir_path (staging_dir (staging)), "link", NULL);
  g_autofree char *folder = g_build_filename (growing_dir_path (staging_dir (staging)), "folder", NULL);
  g_autofree char *outside = g_build_filename (self->root, "outside", NULL);
  g_assert_cmpint (g_mkdir (outside, 0755), ==, 0);
  g_assert_cmpint (symlink ("../outside/file", link), ==, 0);
  g_assert_cmpint (symlink ("../outside", folder), ==, 0);
  g_autoptr (GError) error = NULL;
  g_assert_cmpint (growing_dir_open_file (staging_dir (staging), "link", &error), ==, -1);
  g_clear_error (&error);
  g_assert_cmpint (growing_dir_open_file (staging_dir (staging), "folder/file", &error), ==, -1);
  g_assert_cmpuint (count_entries (outside), ==, 0);
  staging_free (staging);
}

static void
test_keeps_only_what_is_wanted (Fixture *self, gconstpointer data)
{
  Staging *staging = begin (self);
  g_autoptr (GHashTable) wanted = g_hash_table_new (g_str_hash, g_str_equal);
  put_file (staging, "a/wanted", "1");
  put_file (staging, "a/unwanted", "2");
  put_file (staging, "b/c/unwanted", "3");
  put_file (staging, "d/.nfs000000000000002a00000001", "open somewhere");
  put_file (staging, ".nfs-is-no-such-name", "5");
  g_hash_table_add (wanted, (gpointer) "a/wanted");
  g_assert_true (growing_dir_keep_only (staging_dir (staging), wanted, NULL));
  g_assert_true (staging_publish (staging, NULL));
  staging_free (staging);
  assert_content (self, "a/wanted", "1");
  assert_content (self, "d/.nfs000000000000002a00000001", "open somewhere");
  g_assert_cmpuint (count_entries (self->target), ==, 2);
}

/* Pitfalls A15. */
static void
test_leftovers_of_others_go (Fixture *self, gconstpointer data)
{
  g_autofree char *stale = g_build_filename (self->root, ".model.partial-0123456789ab", NULL);
  g_autofree char *other = g_build_filename (self->root, ".model.partial-of-mine", NULL);
  g_assert_cmpint (g_mkdir (stale, 0755) + g_mkdir (other, 0755), ==, 0);
  Staging *staging = begin (self);
  put_file (staging, "file", "text");
  g_assert_true (staging_publish (staging, NULL));
  staging_free (staging);
  g_assert_false (g_file_test (stale, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (other, G_FILE_TEST_EXISTS));
}

static void
test_too_large (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Staging *staging = begin (self);
  g_assert_true (growing_dir_check_space (staging_dir (staging), 1000, &error));
  g_assert_false (growing_dir_check_space (staging_dir (staging), G_MAXUINT64, &error));
  g_assert_true (am_error_has_reason (error, "InsufficientStorage"));
  staging_free (staging);
}

/* A directory may have as long a name as any: what is temporary has not (pitfalls A27). */
static void
test_long_name (Fixture *self, gconstpointer data)
{
  g_autofree char *name = g_strnfill (255, 'n'), *over = g_strnfill (256, 'n');
  g_autofree char *too_long = g_build_filename (self->root, over, NULL);
  g_autoptr (GError) error = NULL;
  g_free (self->target);
  self->target = g_build_filename (self->root, name, NULL);
  for (guint again = 0; again < 2; again++)
    {
      Staging *staging = begin (self);
      put_file (staging, "file", again ? "second" : "first");
      g_assert_true (staging_publish (staging, NULL));
      staging_free (staging);
      assert_content (self, "file", again ? "second" : "first");
      g_assert_cmpuint (count_entries (self->root), ==, 1);
    }
  g_assert_null (staging_new (too_long, &self->digest, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
}

static void
test_bad_targets (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (g_file_set_contents (self->target, "x", -1, NULL));
  g_assert_null (staging_new (self->target, &self->digest, &error));
  g_assert_true (am_error_is (error, AM_ERROR_FAILED_PRECONDITION));
  g_clear_error (&error);
  g_assert_null (staging_new ("/", &self->digest, &error));
  g_clear_error (&error);
  g_assert_null (staging_new (".", &self->digest, &error));
  g_clear_error (&error);
  g_assert_null (staging_new ("/no/such/folder/model", &self->digest, &error));
  g_assert_true (am_error_is (error, AM_ERROR_NOT_FOUND));
}

#define ADD(name, func) g_test_add ("/delivery/staging/" name, Fixture, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("appears-whole", test_appears_whole);
  ADD ("stays-for-the-next-run", test_stays_for_the_next_run);
  ADD ("nothing-is-left-of-nothing", test_nothing_is_left_of_nothing);
  ADD ("replaces", test_replaces);
  ADD ("one-at-a-time", test_one_at_a_time);
  ADD ("links-are-not-followed", test_links_are_not_followed);
  ADD ("keeps-only-what-is-wanted", test_keeps_only_what_is_wanted);
  ADD ("leftovers-of-others-go", test_leftovers_of_others_go);
  ADD ("too-large", test_too_large);
  ADD ("long-name", test_long_name);
  ADD ("bad-targets", test_bad_targets);
  return g_test_run ();
}
