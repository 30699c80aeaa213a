#include "storage/object_store_fs_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define BYTE_OPEN 0
#define BYTE_COMMITS 1
#define WAIT_MS 120000
#define POLL_MS 2

typedef enum { LOCK_TAKEN, LOCK_BUSY, LOCK_UNSUPPORTED } LockResult;

static LockResult
set_lock (int fd, short type, off_t byte)
{
  struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
  if (fcntl (fd, F_OFD_SETLK, &lock) == 0)
    return LOCK_TAKEN;
  return errno == EAGAIN || errno == EACCES ? LOCK_BUSY : LOCK_UNSUPPORTED;
}

/* Locks to write need a descriptor to write; a store on a read-only medium is only ever shared. */
static int
open_marker (const char *marker_path, GError **error)
{
  int fd = open (marker_path, O_RDWR | O_CLOEXEC);
  if (fd < 0 && (errno == EROFS || errno == EACCES || errno == EPERM))
    fd = open (marker_path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    am_fail_errno (error, errno, "cannot open %s", marker_path);
  return fd;
}

static gboolean
fail_busy (GError **error, const char *format, const char *who)
{
  g_autofree char *message = g_strdup_printf (format, who);
  return am_fail (error, AM_ERROR_UNAVAILABLE, "StoreBusy", "%s", message);
}

/* Whether a process has the file open; whatever cannot be seen counts as no. */
static gboolean
has_open (const char *pid, const struct stat *file)
{
  g_autofree char *path = g_strdup_printf ("/proc/%s/fd", pid);
  gboolean found = FALSE;
  DIR *dir = opendir (path);
  for (struct dirent *entry = dir != NULL ? readdir (dir) : NULL; entry != NULL && !found; entry = readdir (dir))
    {
      struct stat info;
      found = fstatat (dirfd (dir), entry->d_name, &info, 0) == 0 && info.st_dev == file->st_dev
              && info.st_ino == file->st_ino;
    }
  if (dir != NULL)
    closedir (dir);
  return found;
}

/* "process 4711 (ai-models)": the first other process that has the marker open, as far as one may see. */
static char *
name_holder (const char *marker_path)
{
  struct stat file;
  char *name = NULL;
  DIR *dir = stat (marker_path, &file) == 0 ? opendir ("/proc") : NULL;
  for (struct dirent *entry = dir != NULL ? readdir (dir) : NULL; entry != NULL && name == NULL;
       entry = readdir (dir))
    {
      guint64 pid;
      if (!text_parse_u64 (entry->d_name, &pid) || pid == (guint64) getpid () || !has_open (entry->d_name, &file))
        continue;
      g_autofree char *path = g_strdup_printf ("/proc/%s/comm", entry->d_name);
      g_autofree char *command = NULL;
      name = g_file_get_contents (path, &command, NULL, NULL)
               ? g_strdup_printf ("process %s (%s)", entry->d_name, g_strchomp (command))
               : g_strdup_printf ("process %s", entry->d_name);
    }
  if (dir != NULL)
    closedir (dir);
  return name != NULL ? name : g_strdup ("another process");
}

/* Asks again and again until the lock is had, somebody cancels, or nobody can be expected to wait longer. */
static gboolean
wait_for (Ctx *ctx, int fd, short type, off_t byte, const char *marker_path, gboolean *out_supported, GError **error)
{
  gint64 until = g_get_monotonic_time () + WAIT_MS * 1000ll;
  LockResult result;
  while ((result = set_lock (fd, type, byte)) == LOCK_BUSY)
    {
      if (g_get_monotonic_time () > until)
        {
          g_autofree char *who = name_holder (marker_path);
          return fail_busy (error, "the store is being cleaned up by %s", who);
        }
      if (!ctx_sleep_ms (ctx, POLL_MS, error))
        return FALSE;
    }
  *out_supported = result == LOCK_TAKEN;
  return TRUE;
}

gboolean
fs_lock_share (const char *marker_path, int *out_fd, GError **error)
{
  gboolean supported;
  am_autofd int fd = open_marker (marker_path, error);
  if (fd < 0 || !wait_for (NULL, fd, F_RDLCK, BYTE_OPEN, marker_path, &supported, error))
    return FALSE;
  *out_fd = am_steal_fd (&fd);
  return TRUE;
}

typedef struct {
  ObjectLock base;
  int fd;
} FsLock;

static void
alone_free (ObjectLock *base)
{
  FsLock *self = (FsLock *) base;
  set_lock (self->fd, F_RDLCK, BYTE_OPEN);
  g_free (self);
}

ObjectLock *
fs_lock_alone (int shared_fd, const char *marker_path, GError **error)
{
  LockResult result = set_lock (shared_fd, F_WRLCK, BYTE_OPEN);
  if (result == LOCK_UNSUPPORTED)
    return am_fail_null (error, AM_ERROR_UNIMPLEMENTED, NULL,
                         "the store is read-only, or its file system has no locks: %s", g_strerror (errno));
  if (result == LOCK_BUSY)
    {
      g_autofree char *who = name_holder (marker_path);
      fail_busy (error, "%s has the store open", who);
      return NULL;
    }
  FsLock *self = g_new0 (FsLock, 1);
  self->base.free = alone_free;
  self->fd = shared_fd;
  return &self->base;
}

static void
commits_free (ObjectLock *base)
{
  FsLock *self = (FsLock *) base;
  am_autofd_cleanup (&self->fd);
  g_free (self);
}

ObjectLock *
fs_lock_commits (Ctx *ctx, const char *marker_path, GError **error)
{
  gboolean supported;
  am_autofd int fd = open_marker (marker_path, error);
  if (fd < 0 || !wait_for (ctx, fd, F_WRLCK, BYTE_COMMITS, marker_path, &supported, error))
    return NULL;
  if (!supported)
    return am_fail_null (error, AM_ERROR_UNIMPLEMENTED, NULL,
                         "the store is read-only, or its file system has no locks");
  FsLock *self = g_new0 (FsLock, 1);
  self->base.free = commits_free;
  self->fd = am_steal_fd (&fd);
  return &self->base;
}

gboolean
fs_lock_enter_commit (Ctx *ctx, const char *marker_path, int *out_fd, GError **error)
{
  gboolean supported;
  /* A description of its own: what one thread holds, another must not release. */
  am_autofd int fd = open (marker_path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return am_fail_errno (error, errno, "cannot open %s", marker_path);
  if (!wait_for (ctx, fd, F_RDLCK, BYTE_COMMITS, marker_path, &supported, error))
    return FALSE;
  *out_fd = am_steal_fd (&fd);
  return TRUE;
}
