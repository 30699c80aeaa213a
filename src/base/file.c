#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

#define MAX_TREE_DEPTH 64
#define MAKE_ATTEMPTS 1000
#define NFS_PREFIX ".nfs"

struct TempFile {
  int fd;
  char *path;
  gboolean published;
};

TempFile *
temp_file_new (const char *dir_path, GError **error)
{
  char uuid[37];
  text_uuid (uuid);
  g_autofree char *path = g_strdup_printf ("%s/.tmp-%s", dir_path, uuid);
  int fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    {
      am_fail_errno (error, errno, "cannot create a file in %s", dir_path);
      return NULL;
    }
  TempFile *self = g_new0 (TempFile, 1);
  self->fd = fd;
  self->path = g_steal_pointer (&path);
  return self;
}

int
temp_file_fd (TempFile *self)
{
  return self->fd;
}

const char *
temp_file_path (TempFile *self)
{
  return self->path;
}

gboolean
temp_file_write (TempFile *self, gconstpointer data, gsize size, GError **error)
{
  if (file_write_all (self->fd, data, size, error))
    return TRUE;
  g_prefix_error (error, "%s: ", self->path);
  return FALSE;
}

gboolean
temp_file_write_at (TempFile *self, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  if (file_pwrite_all (self->fd, offset_bytes, data, size, error))
    return TRUE;
  g_prefix_error (error, "%s: ", self->path);
  return FALSE;
}

gboolean
temp_file_sync (TempFile *self, GError **error)
{
  if (fdatasync (self->fd) < 0)
    return am_fail_errno (error, errno, "cannot sync %s", self->path);
  return TRUE;
}

gboolean
temp_file_publish (TempFile *self, const char *path, gboolean exclusive, GError **error)
{
  int result = exclusive ? renameat2 (AT_FDCWD, self->path, AT_FDCWD, path, RENAME_NOREPLACE)
                         : rename (self->path, path);
  if (result < 0 && exclusive && (errno == EINVAL || errno == ENOSYS))
    result = link (self->path, path); /* file systems without RENAME_NOREPLACE, NFS among them */
  else if (result == 0)
    self->published = TRUE;
  if (result < 0)
    return am_fail_errno (error, errno, "cannot put %s in place", path);
  return TRUE;
}

void
temp_file_free (TempFile *self)
{
  if (self == NULL)
    return;
  if (!self->published)
    unlink (self->path);
  close (self->fd);
  g_free (self->path);
  g_free (self);
}

gboolean
file_replace (const char *path, gconstpointer data, gsize size, GError **error)
{
  g_autofree char *dir = g_path_get_dirname (path);
  g_autoptr (TempFile) temp = temp_file_new (dir, error);
  return temp != NULL && temp_file_write (temp, data, size, error) && temp_file_sync (temp, error)
         && temp_file_publish (temp, path, FALSE, error) && file_sync_dir (dir, error);
}

GBytes *
file_read (const char *path, gsize limit_bytes, GError **error)
{
  am_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (fd < 0 || fstat (fd, &info) < 0)
    {
      am_fail_errno (error, errno, "cannot read %s", path);
      return NULL;
    }
  if (!S_ISREG (info.st_mode))
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s is not a regular file", path);
  if ((guint64) info.st_size > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                         "%s is larger than the limit of %" G_GSIZE_FORMAT " bytes", path, limit_bytes);
  gsize size = (gsize) info.st_size;
  g_autofree guint8 *data = g_malloc (size + 1);
  if (!file_pread_all (fd, 0, data, size, path, error))
    return NULL;
  return g_bytes_new_take (g_steal_pointer (&data), size);
}

gboolean
file_set_mode (int fd, mode_t mode)
{
  struct stat info;
  if (fstat (fd, &info) < 0)
    return FALSE;
  if ((info.st_mode & 0777) == mode || fchmod (fd, mode) == 0)
    return TRUE;
  mode_t needed = mode & 0555;
  return (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) && (info.st_mode & needed) == needed;
}

gboolean
file_sync_dir (const char *path, GError **error)
{
  am_autofd int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return am_fail_errno (error, errno, "cannot open directory %s", path);
  if (fsync (fd) < 0 && errno != EINVAL)
    return am_fail_errno (error, errno, "cannot sync directory %s", path);
  return TRUE;
}

typedef enum { DIR_IS_THERE, DIR_LACKS_PARENT, DIR_FAILED } DirResult;

static DirResult
make_level (const char *path, GPtrArray *made, GError **error)
{
  struct stat info;
  if (mkdir (path, 0755) == 0)
    {
      g_ptr_array_add (made, g_strdup (path));
      return DIR_IS_THERE;
    }
  int problem = errno;
  if (problem == EEXIST && stat (path, &info) < 0)
    problem = errno; /* ENOENT: removed in between, as if it had not been there */
  else if (problem == EEXIST && S_ISDIR (info.st_mode))
    return DIR_IS_THERE;
  if (problem == ENOENT)
    return DIR_LACKS_PARENT;
  if (problem == EEXIST || problem == ENOTDIR)
    am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s: something that is not a directory is in the way", path);
  else
    am_fail_errno (error, problem, "cannot create directory %s", path);
  return DIR_FAILED;
}

/* Makes what is missing above `path`, and then `path`. */
static DirResult
make_levels (const char *path, GPtrArray *made, GError **error)
{
  DirResult result = make_level (path, made, error);
  g_autofree char *parent = g_path_get_dirname (path);
  if (result != DIR_LACKS_PARENT || strcmp (parent, path) == 0)
    return result;
  result = make_levels (parent, made, error);
  return result == DIR_IS_THERE ? make_level (path, made, error) : result;
}

/* A new level lasts when its parent was synced. One whose parent is gone was removed by somebody. */
static gboolean
sync_parents (GPtrArray *made, GError **error)
{
  for (guint i = 0; i < made->len; i++)
    {
      g_autofree char *parent = g_path_get_dirname (g_ptr_array_index (made, i));
      g_autoptr (GError) problem = NULL;
      if (file_sync_dir (parent, &problem) || am_error_is (problem, AM_ERROR_NOT_FOUND))
        continue;
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return TRUE;
}

static void
list_parents (const GPtrArray *made, GPtrArray *out_parents)
{
  for (guint i = 0; i < made->len; i++)
    g_ptr_array_add (out_parents, g_path_get_dirname (g_ptr_array_index (made, i)));
}

gboolean
file_make_dirs (const char *path, GPtrArray *out_unsynced, GError **error)
{
  g_autoptr (GPtrArray) made = g_ptr_array_new_with_free_func (g_free);
  /* Others may remove empty directories at the same time, as object stores do. */
  for (guint attempt = 0; attempt < MAKE_ATTEMPTS; attempt++)
    {
      DirResult result = make_levels (path, made, error);
      if (result == DIR_FAILED)
        return FALSE;
      if (result == DIR_IS_THERE && out_unsynced != NULL)
        list_parents (made, out_unsynced);
      if (result == DIR_IS_THERE)
        return out_unsynced != NULL || sync_parents (made, error);
    }
  return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "cannot create directory %s: what it lies in is missing", path);
}

static gboolean
is_self_or_parent (const char *name)
{
  return strcmp (name, ".") == 0 || strcmp (name, "..") == 0;
}

gboolean
file_name_is_nfs_remnant (const char *name)
{
  const char *rest = g_str_has_prefix (name, NFS_PREFIX) ? name + strlen (NFS_PREFIX) : "";
  return *rest != '\0' && rest[strspn (rest, "0123456789abcdef")] == '\0';
}

GPtrArray *
file_list_dir (const char *path, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  DIR *dir = opendir (path);
  if (dir == NULL)
    {
      am_fail_errno (error, errno, "cannot list %s", path);
      return NULL;
    }
  struct dirent *entry;
  while ((errno = 0, entry = readdir (dir)) != NULL)
    if (!is_self_or_parent (entry->d_name))
      g_ptr_array_add (names, g_strdup (entry->d_name));
  int saved_errno = errno;
  closedir (dir);
  if (saved_errno == 0)
    return g_steal_pointer (&names);
  am_fail_errno (error, saved_errno, "cannot list %s", path);
  return NULL;
}

static gboolean remove_at (int parent_fd, const char *name, int depth, GError **error);

static gboolean
remove_children (int dir_fd, const char *name, int depth, GError **error)
{
  DIR *dir = fdopendir (dir_fd);
  if (dir == NULL)
    {
      int saved_errno = errno;
      close (dir_fd);
      return am_fail_errno (error, saved_errno, "cannot list %s", name);
    }
  gboolean ok = TRUE;
  struct dirent *entry;
  while (ok && (errno = 0, entry = readdir (dir)) != NULL)
    if (!is_self_or_parent (entry->d_name))
      ok = remove_at (dirfd (dir), entry->d_name, depth + 1, error);
  if (ok && errno != 0)
    ok = am_fail_errno (error, errno, "cannot list %s", name);
  closedir (dir);
  return ok;
}

static gboolean
remove_at (int parent_fd, const char *name, int depth, GError **error)
{
  if (unlinkat (parent_fd, name, 0) == 0 || errno == ENOENT)
    return TRUE;
  if (errno != EISDIR && errno != EPERM)
    return am_fail_errno (error, errno, "cannot remove %s", name);
  if (depth > MAX_TREE_DEPTH)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s is nested too deeply", name);
  int fd = openat (parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return am_fail_errno (error, errno, "cannot open directory %s", name);
  if (!remove_children (fd, name, depth, error))
    return FALSE;
  if (unlinkat (parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
    return am_fail_errno (error, errno, "cannot remove directory %s", name);
  return TRUE;
}

gboolean
file_remove_tree (const char *path, GError **error)
{
  return remove_at (AT_FDCWD, path, 0, error);
}

gboolean
file_write_all (int fd, gconstpointer data, gsize size, GError **error)
{
  for (const guint8 *next = data; size > 0;)
    {
      gssize n = write (fd, next, size);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return am_fail_errno (error, errno, "cannot write");
      next += n;
      size -= (gsize) n;
    }
  return TRUE;
}

gboolean
file_pwrite_all (int fd, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  for (const guint8 *next = data; size > 0;)
    {
      gssize n = pwrite (fd, next, size, (off_t) offset_bytes);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return am_fail_errno (error, errno, "cannot write");
      next += n;
      offset_bytes += (guint64) n;
      size -= (gsize) n;
    }
  return TRUE;
}

gboolean
file_pread_all (int fd, guint64 offset_bytes, gpointer buffer, gsize size, const char *name, GError **error)
{
  for (guint8 *next = buffer; size > 0;)
    {
      gssize n = pread (fd, next, size, (off_t) offset_bytes);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return am_fail_errno (error, errno, "cannot read %s", name);
      if (n == 0)
        return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "%s ends before byte %" G_GUINT64_FORMAT, name,
                        offset_bytes + size);
      next += n;
      offset_bytes += (guint64) n;
      size -= (gsize) n;
    }
  return TRUE;
}

static gboolean
segment_is_safe (const char *segment, gsize n)
{
  if (n == 0 || n > 255 || (n == 1 && segment[0] == '.') || (n == 2 && segment[0] == '.' && segment[1] == '.'))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    if ((guchar) segment[i] < 0x20 || segment[i] == 0x7f || segment[i] == '\\')
      return FALSE;
  return TRUE;
}

gboolean
path_is_safe (const char *path)
{
  if (path == NULL || strlen (path) > 1024 || !g_utf8_validate (path, -1, NULL))
    return FALSE;
  for (;;)
    {
      const char *slash = strchrnul (path, '/');
      if (!segment_is_safe (path, (gsize) (slash - path)))
        return FALSE;
      if (*slash == '\0')
        return TRUE;
      path = slash + 1;
    }
}
