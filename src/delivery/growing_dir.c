#include "delivery/growing_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#define MAX_FOLDER_DEPTH 64
#define SPARE_BYTES (16u << 20) /* left for the file system's own needs */

struct GrowingDir {
  char *path, *shown;
};

GrowingDir *
growing_dir_new (const char *path, const char *shown)
{
  GrowingDir *self = g_new0 (GrowingDir, 1);
  self->path = g_strdup (path);
  self->shown = g_strdup (shown);
  return self;
}

void
growing_dir_free (GrowingDir *self)
{
  if (self == NULL)
    return;
  g_free (self->path);
  g_free (self->shown);
  g_free (self);
}

const char *
growing_dir_path (const GrowingDir *self)
{
  return self->path;
}

/* Some file systems tell of no blocks: the bytes are believed to be there then. A wrong guess shows as a full volume. */
static guint64
bytes_on_disk (const struct stat *info)
{
  return info->st_blocks == 0 && S_ISREG (info->st_mode) ? (guint64) info->st_size : (guint64) info->st_blocks * 512;
}

/* Bytes on disk below an open directory. What cannot be looked at counts as nothing. */
static guint64
allocated_bytes (int dir_fd, int depth)
{
  guint64 sum = 0;
  struct stat info;
  DIR *dir = fdopendir (dir_fd);
  if (dir == NULL)
    {
      close (dir_fd);
      return 0;
    }
  for (struct dirent *entry = readdir (dir); entry != NULL; entry = readdir (dir))
    {
      if (strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0
          || fstatat (dirfd (dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        continue;
      int child = S_ISDIR (info.st_mode) && depth < MAX_FOLDER_DEPTH
                    ? openat (dirfd (dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                    : -1;
      sum += bytes_on_disk (&info) + (child >= 0 ? allocated_bytes (child, depth + 1) : 0);
    }
  closedir (dir);
  return sum;
}

guint64
growing_dir_measure (const char *path)
{
  int fd = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd >= 0 ? allocated_bytes (fd, 0) : 0;
}

/* One that has no blocks does not tell: as much as one wants, until it is full. */
static guint64
free_bytes (const struct statvfs *info)
{
  guint64 bytes;
  gboolean is_unknown = info->f_blocks == 0 && info->f_bavail == 0;
  return is_unknown || __builtin_mul_overflow (info->f_bavail, info->f_frsize, &bytes) ? G_MAXUINT64 : bytes;
}

static gboolean
measure (GrowingDir *self, guint64 total_bytes, guint64 *out_missing_bytes, guint64 *out_free_bytes, GError **error)
{
  struct statvfs info;
  int fd = open (self->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstatvfs (fd, &info) < 0)
    {
      am_fail_errno (error, errno, "cannot use %s", self->path);
      if (fd >= 0)
        close (fd);
      return FALSE;
    }
  guint64 present = allocated_bytes (fd, 0);
  *out_missing_bytes = total_bytes > present ? total_bytes - present : 0;
  *out_free_bytes = free_bytes (&info);
  return TRUE;
}

gboolean
growing_dir_check_space (GrowingDir *self, guint64 total_bytes, GError **error)
{
  guint64 missing, available;
  if (!measure (self, total_bytes, &missing, &available, error))
    return FALSE;
  if (missing == 0 || (available > SPARE_BYTES && missing <= available - SPARE_BYTES) || missing <= available / 2)
    return TRUE;
  g_autofree char *wanted = text_bytes (missing), *free_text = text_bytes (available);
  return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage",
                  "%s needs %s more, but only %s are free there", self->shown, wanted, free_text);
}

void
growing_dir_tell_space (GrowingDir *self, guint64 total_bytes, GError *full)
{
  guint64 missing, available;
  g_autoptr (GError) problem = NULL;
  gboolean is_measured = measure (self, total_bytes, &missing, &available, &problem);
  am_ignore (&problem, "how much room there is, is only for the message");
  if (!is_measured || available == G_MAXUINT64)
    return;
  g_autofree char *wanted = text_bytes (missing), *free_text = text_bytes (available), *message = full->message;
  full->message = g_strdup_printf ("%s needs %s more and has %s free: %s", self->shown, wanted, free_text, message);
}

/* Opens the folder that holds `path`, creating what is missing, one segment after the other without following
 * a link. `*out_name` is the last segment. */
static int
open_folder (GrowingDir *self, const char *path, const char **out_name, GError **error)
{
  am_autofd int fd = open (self->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const char *rest = path, *slash;
  while (fd >= 0 && (slash = strchr (rest, '/')) != NULL)
    {
      g_autofree char *segment = g_strndup (rest, (gsize) (slash - rest));
      int created = mkdirat (fd, segment, 0755);
      int next = created == 0 || errno == EEXIST
                   ? openat (fd, segment, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                   : -1;
      if (next >= 0 && created == 0 && !file_set_mode (next, 0755))
        am_log_debug (NULL, "cannot set a folder's mode", "path", path, NULL);
      int saved_errno = errno;
      close (fd);
      fd = next;
      errno = saved_errno;
      rest = slash + 1;
    }
  if (fd < 0)
    {
      am_fail_errno (error, errno, "cannot create the folder of %s in %s", path, self->path);
      return -1;
    }
  *out_name = rest;
  return am_steal_fd (&fd);
}

int
growing_dir_open_file (GrowingDir *self, const char *path, GError **error)
{
  const char *name = NULL;
  g_assert (path_is_safe (path));
  am_autofd int folder = open_folder (self, path, &name, error);
  if (folder < 0)
    return -1;
  am_autofd int fd = openat (folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  struct stat info;
  if (fd < 0 || fstat (fd, &info) < 0 || !file_set_mode (fd, 0644))
    {
      am_fail_errno (error, errno, "cannot create %s in %s", path, self->path);
      return -1;
    }
  if (!S_ISREG (info.st_mode))
    {
      am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s in %s is not a file: remove it", path, self->path);
      return -1;
    }
  return am_steal_fd (&fd);
}

static gboolean keep_only_below (GrowingDir *self, const char *folder, GHashTable *paths, int depth, GError **error);

/* Removes what lies at `path`, or what is unwanted below it. */
static gboolean
keep_only_wanted (GrowingDir *self, const char *path, GHashTable *paths, int depth, GError **error)
{
  struct stat info;
  g_autofree char *place = g_build_filename (self->path, path, NULL);
  if (lstat (place, &info) < 0)
    return errno == ENOENT || am_fail_errno (error, errno, "cannot look at %s", place);
  gboolean is_wanted = g_hash_table_contains (paths, path);
  g_autofree char *name = g_path_get_basename (path);
  if (S_ISREG (info.st_mode) && (is_wanted || file_name_is_nfs_remnant (name)))
    return TRUE;
  if (!S_ISDIR (info.st_mode) || depth >= MAX_FOLDER_DEPTH || is_wanted)
    return file_remove_tree (place, error);
  /* A folder goes only when nothing in it was wanted. */
  return keep_only_below (self, path, paths, depth + 1, error)
         && (rmdir (place) == 0 || errno == ENOTEMPTY || errno == EEXIST
             || am_fail_errno (error, errno, "cannot remove %s", place));
}

/* `folder` is relative, "" at the top. */
static gboolean
keep_only_below (GrowingDir *self, const char *folder, GHashTable *paths, int depth, GError **error)
{
  g_autofree char *full = g_build_filename (self->path, folder, NULL);
  g_autoptr (GPtrArray) names = file_list_dir (full, error);
  for (guint i = 0; names != NULL && i < names->len; i++)
    {
      const char *name = names->pdata[i];
      g_autofree char *path = *folder == '\0' ? g_strdup (name) : g_strdup_printf ("%s/%s", folder, name);
      if (!keep_only_wanted (self, path, paths, depth, error))
        return FALSE;
    }
  return names != NULL;
}

gboolean
growing_dir_keep_only (GrowingDir *self, GHashTable *paths, GError **error)
{
  return keep_only_below (self, "", paths, 0, error);
}

static gboolean
sync_folders (const char *path, int depth, GError **error)
{
  struct stat info;
  g_autoptr (GPtrArray) names = file_list_dir (path, error);
  if (names == NULL)
    return FALSE;
  for (guint i = 0; i < names->len && depth < MAX_FOLDER_DEPTH; i++)
    {
      g_autofree char *child = g_build_filename (path, names->pdata[i], NULL);
      if (lstat (child, &info) < 0)
        return am_fail_errno (error, errno, "cannot look at %s", child);
      if (S_ISDIR (info.st_mode) && !sync_folders (child, depth + 1, error))
        return FALSE;
    }
  return file_sync_dir (path, error);
}

gboolean
growing_dir_sync (GrowingDir *self, GError **error)
{
  return sync_folders (self->path, 0, error);
}
