#include "delivery/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define SHORT_DIGEST_CHARS 12
#define STEM_MAX_BYTES 200

struct Staging {
  char *parent;
  char *stem; /* what the names of all that is temporary begin with: ".<name>", or a hash of a long one */
  char *target, *lock_path;
  GrowingDir *dir;
  char *partial_prefix; /* "<stem>.partial-" */
  int lock_fd;
  TargetState state;
};

/* Absolute, links resolved; of a target that is not there yet its parent's. */
static char *
absolute_target (const char *directory, GError **error)
{
  g_autofree char *canonical = g_canonicalize_filename (directory, NULL);
  char *real = realpath (canonical, NULL);
  if (real != NULL)
    return real;
  if (errno != ENOENT)
    {
      am_fail_errno (error, errno, "cannot use %s", directory);
      return NULL;
    }
  g_autofree char *parent = g_path_get_dirname (canonical), *name = g_path_get_basename (canonical);
  g_autofree char *real_parent = realpath (parent, NULL);
  if (real_parent == NULL)
    {
      am_fail_errno (error, errno, "the folder %s, in which %s is to appear, cannot be used", parent, name);
      return NULL;
    }
  return g_build_filename (real_parent, name, NULL);
}

static gboolean
directory_is_empty (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  return dir != NULL && g_dir_read_name (dir) == NULL;
}

static gboolean
look_at_target (Staging *self, GError **error)
{
  struct stat info, here;
  if (lstat (self->target, &info) < 0)
    {
      self->state = TARGET_ABSENT;
      return errno == ENOENT || am_fail_errno (error, errno, "cannot use %s", self->target);
    }
  if (!S_ISDIR (info.st_mode))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s is not a directory", self->target);
  if (stat (".", &here) == 0 && here.st_dev == info.st_dev && here.st_ino == info.st_ino)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                    "a model appears whole or not at all, so it cannot fill the directory you are in: name a new "
                    "one, such as ./model");
  self->state = directory_is_empty (self->target) ? TARGET_EMPTY : TARGET_FULL;
  return TRUE;
}

/* FALSE without an error when the lock file was removed by its last owner in between: try again. */
static gboolean
try_lock (Staging *self, GError **error)
{
  struct stat held, named;
  char pid[32] = "";
  am_autofd int fd = open (self->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0)
    return am_fail_errno (error, errno, "cannot create a file in %s", self->parent);
  if (flock (fd, LOCK_EX | LOCK_NB) < 0)
    {
      gssize n = read (fd, pid, sizeof pid - 1);
      pid[MAX (n, 0)] = '\0';
      g_strchomp (pid);
      return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "DirectoryBusy",
                      "another pull into %s is going on%s%s; wait for it or stop it", self->target,
                      *pid != '\0' ? ", process " : "", pid);
    }
  if (fstat (fd, &held) < 0 || stat (self->lock_path, &named) < 0 || held.st_ino != named.st_ino)
    return FALSE;
  g_snprintf (pid, sizeof pid, "%ld\n", (long) getpid ());
  if (ftruncate (fd, 0) < 0 || !file_pwrite_all (fd, 0, pid, strlen (pid), error))
    {
      if (error != NULL && *error == NULL)
        am_fail_errno (error, errno, "cannot write %s", self->lock_path);
      return FALSE;
    }
  self->lock_fd = am_steal_fd (&fd);
  return TRUE;
}

static gboolean
take_lock (Staging *self, GError **error)
{
  GError *problem = NULL;
  while (!try_lock (self, &problem))
    if (problem != NULL)
      {
        g_propagate_error (error, problem);
        return FALSE;
      }
  return TRUE;
}

/* With a suffix it must still be a name that a file system takes. */
static char *
temporary_stem (const char *name)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  Digest digest;
  if (strlen (name) <= STEM_MAX_BYTES)
    return g_strconcat (".", name, NULL);
  digest_of (DIGEST_SHA256, name, strlen (name), &digest);
  return g_strconcat (".", digest_hex (&digest, hex), NULL);
}

Staging *
staging_new (const char *directory, const Digest *artifact, GError **error)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  g_autoptr (Staging) self = g_new0 (Staging, 1);
  self->lock_fd = -1;
  self->target = absolute_target (directory, error);
  if (self->target == NULL)
    return NULL;
  self->parent = g_path_get_dirname (self->target);
  if (strcmp (self->target, "/") == 0)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s cannot be a model's directory", self->target);
  digest_hex (artifact, hex);
  g_autofree char *name = g_path_get_basename (self->target);
  self->stem = temporary_stem (name);
  self->partial_prefix = g_strconcat (self->stem, ".partial-", NULL);
  g_autofree char *path = g_strdup_printf ("%s/%s%.*s", self->parent, self->partial_prefix, SHORT_DIGEST_CHARS, hex);
  self->dir = growing_dir_new (path, self->target);
  self->lock_path = g_strdup_printf ("%s/%s.lock", self->parent, self->stem);
  if (!take_lock (self, error) || !look_at_target (self, error))
    return NULL;
  return g_steal_pointer (&self);
}

void
staging_free (Staging *self)
{
  if (self == NULL)
    return;
  if (self->lock_fd >= 0)
    {
      rmdir (growing_dir_path (self->dir)); /* only when nothing grew in it */
      unlink (self->lock_path);             /* while it is still held: see try_lock */
      close (self->lock_fd);
    }
  g_free (self->parent);
  g_free (self->stem);
  g_free (self->target);
  growing_dir_free (self->dir);
  g_free (self->lock_path);
  g_free (self->partial_prefix);
  g_free (self);
}

TargetState
staging_target_state (const Staging *self)
{
  return self->state;
}

const char *
staging_target (const Staging *self)
{
  return self->target;
}

GrowingDir *
staging_dir (const Staging *self)
{
  return self->dir;
}

gboolean
staging_begin (Staging *self, GError **error)
{
  struct stat info;
  const char *path = growing_dir_path (self->dir);
  if (mkdir (path, 0755) < 0 && errno != EEXIST)
    return am_fail_errno (error, errno, "cannot create a directory in %s", self->parent);
  am_autofd int fd = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstat (fd, &info) < 0)
    return am_fail_errno (error, errno, "cannot use %s", path);
  if (info.st_uid != geteuid ())
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, NULL, "%s belongs to another user: remove it", path);
  if (!file_set_mode (fd, 0755))
    return am_fail_errno (error, errno, "cannot use %s", path);
  return TRUE;
}

/* Swaps the finished directory with what is there. Where the file system cannot, two renames do it: there is a
 * moment without the target then, and a failure puts the old one back. */
static gboolean
exchange (Staging *self, GError **error)
{
  const char *path = growing_dir_path (self->dir);
  if (renameat2 (AT_FDCWD, path, AT_FDCWD, self->target, RENAME_EXCHANGE) == 0)
    return TRUE;
  if (errno != EINVAL && errno != ENOSYS)
    return am_fail_errno (error, errno, "cannot put the model in place of %s", self->target);
  g_autofree char *aside = g_strdup_printf ("%s/%s.replaced", self->parent, self->stem);
  if (!file_remove_tree (aside, error))
    return FALSE;
  if (rename (self->target, aside) < 0)
    return am_fail_errno (error, errno, "cannot move %s aside", self->target);
  if (rename (path, self->target) < 0)
    {
      int saved_errno = errno;
      if (rename (aside, self->target) < 0)
        am_log_error (NULL, "the replaced directory could not be put back", "path", aside, NULL);
      return am_fail_errno (error, saved_errno, "cannot put the model in place of %s", self->target);
    }
  return rename (aside, path) == 0 || file_remove_tree (aside, error);
}

/* Half-done pulls of other artifacts into the same directory, and what was replaced. */
static void
remove_leftovers (Staging *self)
{
  g_autoptr (GDir) dir = g_dir_open (self->parent, 0, NULL);
  const char *name;
  gsize prefix_size = strlen (self->partial_prefix);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      if (!g_str_has_prefix (name, self->partial_prefix) || strlen (name) != prefix_size + SHORT_DIGEST_CHARS
          || strspn (name + prefix_size, "0123456789abcdef") != SHORT_DIGEST_CHARS)
        continue;
      g_autoptr (GError) problem = NULL;
      g_autofree char *path = g_build_filename (self->parent, name, NULL);
      file_remove_tree (path, &problem);
      am_ignore (&problem, "a leftover beside the finished model");
    }
}

gboolean
staging_publish (Staging *self, GError **error)
{
  if (self->state == TARGET_FULL)
    {
      if (!exchange (self, error))
        return FALSE;
    }
  else if (rename (growing_dir_path (self->dir), self->target) < 0)
    return am_fail_errno (error, errno, "cannot put the model at %s", self->target);
  if (!file_sync_dir (self->parent, error))
    return FALSE;
  remove_leftovers (self);
  return TRUE;
}
