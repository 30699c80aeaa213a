/* What is particular to a store in a directory: its marker, what the file system refuses, other processes. */
#include "storage/object_store_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "storage/storage_fixture.h"

#define NOBODY 65534

static gint n_synced_files;

/* Instead of the C library's: counts, then syncs. */
int
fdatasync (int fd)
{
  g_atomic_int_inc (&n_synced_files);
  return (int) syscall (SYS_fdatasync, fd);
}

static void
test_marker (StorageFixture *self, gconstpointer data)
{
  static const struct {
    const char *marker; /* NULL: none */
    int code;           /* 0: opens */
    const char *part;
  } rows[] = {
    { "{\"format\":\"ai-models-store\",\"version\":1}\n", 0, NULL },
    { "{\"format\":\"ai-models-store\",\"version\":1,\"later\":true}", 0, NULL },
    { "{\"format\":\"ai-models-store\",\"version\":2}", AM_ERROR_FAILED_PRECONDITION, "newer" },
    { "{\"format\":\"other\",\"version\":1}", AM_ERROR_FAILED_PRECONDITION, "damaged" },
    { "{\"format\":\"ai-models-store\"}", AM_ERROR_FAILED_PRECONDITION, "damaged" },
    { "", AM_ERROR_FAILED_PRECONDITION, "damaged" },
    { NULL, AM_ERROR_FAILED_PRECONDITION, "neither empty" },
  };
  g_autofree char *marker = fixture_path (self, "ai-models-store.json");
  fixture_put (self->fs, "t/x", "1");
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      if (rows[i].marker != NULL)
        g_assert_true (g_file_set_contents (marker, rows[i].marker, -1, NULL));
      else
        g_assert_cmpint (unlink (marker), ==, 0);
      g_autoptr (ObjectStore) again = object_store_fs_new (self->dir, TRUE, &error);
      g_assert_cmpint (again != NULL, ==, rows[i].code == 0);
      if (again != NULL)
        continue;
      g_assert_nonnull (strstr (error->message, rows[i].part));
      fixture_assert_error (&error, (AmErrorCode) rows[i].code, NULL);
    }
}

static void
test_create (StorageFixture *self, gconstpointer data)
{
  g_autofree char *fresh = fixture_path (self, "x/y/store");
  g_autoptr (GError) error = NULL;
  g_assert_null (object_store_fs_new (fresh, FALSE, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, NULL);
  g_autoptr (ObjectStore) made = object_store_fs_new (fresh, TRUE, &error);
  g_assert_no_error (error);
  g_autoptr (ObjectStore) opened = object_store_fs_new (fresh, FALSE, &error);
  g_assert_no_error (error);
  fixture_put (made, "t/x", "1");
  g_autofree char *seen = fixture_get (opened, "t/x");
  g_assert_cmpstr (seen, ==, "1");
  g_autofree char *file = fixture_path (self, "x/file");
  g_assert_true (g_file_set_contents (file, "", 0, NULL));
  g_assert_null (object_store_fs_new (file, TRUE, &error));
  fixture_assert_error (&error, AM_ERROR_FAILED_PRECONDITION, NULL);
}

/* Several processes make the same new store at once, and fill it. */
static int
create_and_fill (gpointer data)
{
  g_autofree char *root = g_strdup_printf ("%s/new", (const char *) data);
  g_autofree char *key = g_strdup_printf ("t/%d", getpid ());
  g_autoptr (ObjectStore) store = object_store_fs_new (root, TRUE, NULL);
  return store == NULL || !object_store_put (NULL, store, key, "x", 1, OBJECT_COMMIT_LAZY, NULL);
}

static void
test_create_race (StorageFixture *self, gconstpointer data)
{
  for (guint round = 0; round < 20; round++)
    {
      g_autofree char *root = fixture_path (self, "new");
      pid_t pids[6];
      for (guint i = 0; i < G_N_ELEMENTS (pids); i++)
        if ((pids[i] = fork ()) == 0)
          _exit (create_and_fill (self->dir));
      for (guint i = 0; i < G_N_ELEMENTS (pids); i++)
        {
          int status = 0;
          g_assert_cmpint (waitpid (pids[i], &status, 0), ==, pids[i]);
          g_assert_cmpint (status, ==, 0);
        }
      g_assert_true (file_remove_tree (root, NULL));
    }
}

static void
test_leftovers (StorageFixture *self, gconstpointer data)
{
  g_autofree char *old = fixture_path (self, ".tmp/.tmp-old");
  g_autofree char *young = fixture_path (self, ".tmp/.tmp-young");
  struct timespec times[2] = { { .tv_sec = time (NULL) - 2 * 24 * 3600 }, { .tv_sec = time (NULL) - 2 * 24 * 3600 } };
  g_assert_true (g_file_set_contents (old, "x", 1, NULL));
  g_assert_true (g_file_set_contents (young, "x", 1, NULL));
  g_assert_cmpint (utimensat (AT_FDCWD, old, times, 0), ==, 0);
  g_autoptr (ObjectStore) again = object_store_fs_new (self->dir, FALSE, NULL);
  g_assert_false (g_file_test (old, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (young, G_FILE_TEST_EXISTS));
}

static void
test_foreign_files (StorageFixture *self, gconstpointer data)
{
  g_autofree char *elsewhere = fixture_path (self, "../elsewhere-XXXXXX");
  g_autofree char *link_path = fixture_path (self, "t/linked");
  g_autofree char *dangling = fixture_path (self, "t/dangling");
  g_autofree char *to_file = fixture_path (self, "t/to-file");
  g_autofree char *fifo = fixture_path (self, "t/fifo");
  g_autofree char *loop = fixture_path (self, "t/loop");
  g_autoptr (GError) error = NULL;
  g_assert_nonnull (g_mkdtemp (elsewhere));
  g_autofree char *there = g_build_filename (elsewhere, "object", NULL);
  g_assert_true (g_file_set_contents (there, "far", 3, NULL));
  fixture_put (self->fs, "t/x", "1");
  g_assert_cmpint (symlink (elsewhere, link_path), ==, 0);
  g_assert_cmpint (symlink ("nowhere", dangling), ==, 0);
  g_assert_cmpint (symlink ("x", to_file), ==, 0);
  g_assert_cmpint (symlink ("loop", loop), ==, 0);
  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  /* A folder moved to another disk is seen by reading and by listing alike; the rest is nobody's object. */
  g_autofree char *content = fixture_get (self->fs, "t/linked/object");
  g_assert_cmpstr (content, ==, "far");
  g_autofree char *keys = fixture_list (self->fs, "", 10);
  g_assert_cmpstr (keys, ==, "t/linked/object t/x");
  g_assert_null (object_store_open (NULL, self->fs, "t/fifo", &error));
  g_assert_nonnull (error);
  g_assert_true (file_remove_tree (elsewhere, NULL));
}

/* As another user, for whom the store is read-only. */
static int
use_read_only (gpointer data)
{
  g_autoptr (GError) error = NULL;
  if (geteuid () == 0 && (setgid (NOBODY) < 0 || setuid (NOBODY) < 0))
    return 10;
  g_autoptr (ObjectStore) store = object_store_fs_new (data, FALSE, &error);
  if (store == NULL)
    return 11;
  g_autoptr (GBytes) bytes = object_store_get (NULL, store, "t/x", 10, &error);
  if (bytes == NULL)
    return 12;
  if (object_store_put (NULL, store, "t/x", "2", 1, OBJECT_COMMIT_DEFAULT, &error)
      || !am_error_is (error, AM_ERROR_PERMISSION_DENIED) || !am_error_has_reason (error, "ReadOnlyStorage"))
    return 13;
  g_clear_error (&error);
  if (object_store_remove (NULL, store, "t/x", &error) || !am_error_has_reason (error, "ReadOnlyStorage"))
    return 14;
  g_clear_error (&error);
  g_autoptr (ObjectLock) lock = object_store_lock (NULL, store, OBJECT_LOCK_COMMITS, &error);
  return lock != NULL ? 15 : 0;
}

static void
test_read_only (StorageFixture *self, gconstpointer data)
{
  g_autofree char *sub = fixture_path (self, "t");
  g_autofree char *temp = fixture_path (self, ".tmp");
  g_autofree char *marker = fixture_path (self, "ai-models-store.json");
  fixture_put (self->fs, "t/x", "1");
  g_assert_cmpint (chmod (self->dir, 0555), ==, 0);
  g_assert_cmpint (chmod (sub, 0555), ==, 0);
  g_assert_cmpint (chmod (temp, 0555), ==, 0);
  g_assert_cmpint (chmod (marker, 0444), ==, 0);
  g_assert_cmpint (fixture_fork (use_read_only, self->dir), ==, 0);
  g_assert_cmpint (chmod (self->dir, 0755), ==, 0);
  g_assert_cmpint (chmod (sub, 0755), ==, 0);
  g_assert_cmpint (chmod (temp, 0755), ==, 0);
  g_autofree char *content = fixture_get (self->fs, "t/x");
  g_assert_cmpstr (content, ==, "1");
}

static gboolean
is_no_space (const GError *error)
{
  return am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED) && am_error_has_reason (error, "InsufficientStorage");
}

/* Fills the store until it refuses; what was acknowledged stays, of the rest nothing is seen. */
static int
fill_up (gpointer data)
{
  g_autofree char *block = g_malloc0 (100000);
  g_autoptr (GError) error = NULL;
  g_autoptr (ObjectStore) store = object_store_fs_new (data, TRUE, &error);
  guint n_put = 0;
  if (store == NULL)
    return 20;
  for (; n_put < 100; n_put++)
    {
      g_autofree char *key = g_strdup_printf ("t/%03u", n_put);
      if (!object_store_put (NULL, store, key, block, 100000, n_put % 2 ? OBJECT_COMMIT_LAZY : 0, &error))
        break;
    }
  g_autoptr (ObjectWriter) writer = object_store_create (NULL, store, NULL);
  if (!is_no_space (error) || strstr (error->message, "no space is left") == NULL)
    return 21;
  if (n_put == 0 || fixture_count (store, "t/") != n_put)
    return 22;
  g_clear_pointer (&writer, object_writer_free);
  /* Removing makes room again. */
  if (!object_store_remove_prefix (NULL, store, "t/", NULL)
      || !object_store_put (NULL, store, "t/x", block, 100000, OBJECT_COMMIT_DEFAULT, NULL))
    return 23;
  return 0;
}

static void
test_full_disk (StorageFixture *self, gconstpointer data)
{
  g_autofree char *mount_point = fixture_path (self, "small");
  g_assert_cmpint (mkdir (mount_point, 0755), ==, 0);
  if (mount ("none", mount_point, "tmpfs", 0, "size=1m") < 0)
    {
      g_test_skip ("mounting is not allowed here");
      return;
    }
  int status = fixture_fork (fill_up, mount_point);
  g_assert_cmpint (umount (mount_point), ==, 0);
  g_assert_cmpint (status, ==, 0);
}

/* The same where nothing can be mounted: a limit on the size of files. */
static int
exceed_limit (gpointer data)
{
  struct rlimit limit = { 50000, 50000 };
  g_autofree char *block = g_malloc0 (100000);
  g_autoptr (GError) error = NULL;
  signal (SIGXFSZ, SIG_IGN);
  if (setrlimit (RLIMIT_FSIZE, &limit) < 0)
    return 30;
  g_autoptr (ObjectStore) store = object_store_fs_new (data, TRUE, &error);
  if (object_store_put (NULL, store, "t/large", block, 100000, OBJECT_COMMIT_DEFAULT, &error) || !is_no_space (error))
    return 31;
  g_clear_error (&error);
  return object_store_put (NULL, store, "t/small", block, 1000, OBJECT_COMMIT_DEFAULT, &error) ? 0 : 32;
}

static void
test_file_limit (StorageFixture *self, gconstpointer data)
{
  g_assert_cmpint (fixture_fork (exceed_limit, self->dir), ==, 0);
  g_autofree char *keys = fixture_list (self->fs, "", 10);
  g_assert_cmpstr (keys, ==, "t/small");
  g_autofree char *temp = fixture_path (self, ".tmp");
  g_autoptr (GDir) dir = g_dir_open (temp, 0, NULL);
  g_assert_null (g_dir_read_name (dir));
}

/* The directory vanished, as a disk that was unmounted: that is no "not found" for any object. */
static void
test_gone (StorageFixture *self, gconstpointer data)
{
  g_autofree char *aside = g_strconcat (self->dir, "-aside", NULL);
  g_autoptr (GError) error = NULL;
  g_assert_cmpint (rename (self->dir, aside), ==, 0);
  g_assert_null (object_store_list (NULL, self->fs, "", NULL, 1, &error));
  g_assert_nonnull (error);
  g_clear_error (&error);
  g_assert_false (object_store_put (NULL, self->fs, "t/x", "1", 1, OBJECT_COMMIT_DEFAULT, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL);
  g_assert_false (g_file_test (self->dir, G_FILE_TEST_EXISTS));
  g_assert_cmpint (rename (aside, self->dir), ==, 0);
  g_autofree char *temp = fixture_path (self, ".tmp");
  g_assert_cmpint (rmdir (temp), ==, 0);
  fixture_put (self->fs, "t/x", "1"); /* only the folder of unfinished files was lost */
}

/* A lazy commit may be lost in a power cut, but never takes with it what lay there before and may have been synced. */
static void
test_lazy_over_durable (StorageFixture *self, gconstpointer data)
{
  static const struct {
    ObjectCommitFlags first, second;
    gint n_synced; /* by the second */
  } rows[] = {
    { OBJECT_COMMIT_DEFAULT, OBJECT_COMMIT_LAZY, 1 },
    { OBJECT_COMMIT_LAZY, OBJECT_COMMIT_LAZY, 1 },
    { OBJECT_COMMIT_DEFAULT, OBJECT_COMMIT_DEFAULT, 1 },
    { OBJECT_COMMIT_DEFAULT, OBJECT_COMMIT_LAZY | OBJECT_COMMIT_IF_ABSENT, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *key = g_strdup_printf ("t/%u", i);
      g_autoptr (GError) error = NULL;
      gboolean exclusive = (rows[i].second & OBJECT_COMMIT_IF_ABSENT) != 0;
      g_atomic_int_set (&n_synced_files, 0);
      fixture_assert_ok (object_store_put (NULL, self->fs, key, "1", 1, rows[i].first, &error), error);
      g_assert_cmpint (g_atomic_int_get (&n_synced_files), ==, rows[i].first == OBJECT_COMMIT_LAZY ? 0 : 1);
      g_atomic_int_set (&n_synced_files, 0);
      gboolean put = object_store_put (NULL, self->fs, key, "2", 1, rows[i].second, &error);
      g_assert_cmpint (g_atomic_int_get (&n_synced_files), ==, rows[i].n_synced);
      g_assert_cmpint (put, ==, !exclusive);
      if (exclusive)
        fixture_assert_error (&error, AM_ERROR_ALREADY_EXISTS, NULL);
      g_autofree char *content = fixture_get (self->fs, key);
      g_assert_cmpstr (content, ==, exclusive ? "1" : "2");
    }
}

static int
race_process (gpointer data)
{
  g_autoptr (ObjectStore) store = object_store_fs_new (data, FALSE, NULL);
  int won = 0;
  for (guint i = 0; i < 50; i++)
    {
      g_autofree char *key = g_strdup_printf ("race/%u/x", i);
      won += object_store_put (NULL, store, key, "x", 1, OBJECT_COMMIT_IF_ABSENT | OBJECT_COMMIT_LAZY, NULL);
    }
  return won;
}

static void
test_if_absent_processes (StorageFixture *self, gconstpointer data)
{
  pid_t pids[4];
  int total = 0;
  for (guint i = 0; i < G_N_ELEMENTS (pids); i++)
    if ((pids[i] = fork ()) == 0)
      _exit (race_process (self->dir));
  for (guint i = 0; i < G_N_ELEMENTS (pids); i++)
    {
      int status = 0;
      g_assert_cmpint (waitpid (pids[i], &status, 0), ==, pids[i]);
      total += WEXITSTATUS (status);
    }
  g_assert_cmpint (total, ==, 50);
}

/* A process that opens the store, says so, and waits to be killed. */
static pid_t
start_holder (const char *dir)
{
  int pipe_fds[2];
  char ready;
  g_assert_cmpint (pipe (pipe_fds), ==, 0);
  pid_t pid = fork ();
  if (pid == 0)
    {
      ObjectStore *store = object_store_fs_new (dir, FALSE, NULL);
      if (store == NULL || write (pipe_fds[1], "x", 1) != 1)
        _exit (1);
      for (;;)
        pause ();
    }
  g_assert_cmpint (read (pipe_fds[0], &ready, 1), ==, 1);
  close (pipe_fds[0]);
  close (pipe_fds[1]);
  return pid;
}

static void
test_alone (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  pid_t holder = start_holder (self->dir);
  g_autofree char *name = g_strdup_printf ("process %d (", holder);
  g_assert_null (object_store_lock (NULL, self->fs, OBJECT_LOCK_ALONE, &error));
  g_assert_nonnull (strstr (error->message, name));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, "StoreBusy");
  g_assert_cmpint (kill (holder, SIGKILL), ==, 0);
  g_assert_cmpint (waitpid (holder, NULL, 0), ==, holder);
  g_autoptr (ObjectLock) lock = object_store_lock (NULL, self->fs, OBJECT_LOCK_ALONE, &error);
  g_assert_no_error (error);
  fixture_put (self->fs, "t/x", "1"); /* the holder itself may write */
  g_clear_pointer (&lock, object_lock_free);
  /* A second handle of this process is somebody else too. */
  g_autoptr (ObjectStore) second = object_store_fs_new (self->dir, FALSE, &error);
  g_assert_null (object_store_lock (NULL, self->fs, OBJECT_LOCK_ALONE, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, "StoreBusy");
}

static int
open_it (gpointer data)
{
  gint64 start = g_get_monotonic_time ();
  g_autoptr (ObjectStore) store = object_store_fs_new (data, FALSE, NULL);
  return store == NULL ? 40 : g_get_monotonic_time () - start < 100000 ? 41 : 0;
}

/* Who opens a store that somebody has alone waits for it. */
static void
test_open_waits (StorageFixture *self, gconstpointer data)
{
  g_autoptr (ObjectLock) lock = object_store_lock (NULL, self->fs, OBJECT_LOCK_ALONE, NULL);
  int status = 0;
  g_assert_nonnull (lock);
  pid_t pid = fork ();
  if (pid == 0)
    _exit (open_it (self->dir));
  g_usleep (200000);
  g_clear_pointer (&lock, object_lock_free);
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/object-store-fs/marker", test_marker);
  STORAGE_TEST ("/object-store-fs/create", test_create);
  STORAGE_TEST ("/object-store-fs/create-race", test_create_race);
  STORAGE_TEST ("/object-store-fs/leftovers", test_leftovers);
  STORAGE_TEST ("/object-store-fs/foreign-files", test_foreign_files);
  STORAGE_TEST ("/object-store-fs/read-only", test_read_only);
  STORAGE_TEST ("/object-store-fs/full-disk", test_full_disk);
  STORAGE_TEST ("/object-store-fs/file-limit", test_file_limit);
  STORAGE_TEST ("/object-store-fs/gone", test_gone);
  STORAGE_TEST ("/object-store-fs/lazy-over-durable", test_lazy_over_durable);
  STORAGE_TEST ("/object-store-fs/if-absent-processes", test_if_absent_processes);
  STORAGE_TEST ("/object-store-fs/alone", test_alone);
  STORAGE_TEST ("/object-store-fs/open-waits", test_open_waits);
  return g_test_run ();
}
