#include "delivery/io_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEATH_STATUS 9

static struct {
  GMutex lock;
  char *folder; /* NULL: not armed */
  IoKind kind;
  guint nth, n_all;
  int number; /* 0: death */
  guint counts[N_IO_KINDS];
} faults;
static gint mount_traits; /* IoMount; atomic */

void
io_faults_mount (guint traits)
{
  g_atomic_int_set (&mount_traits, (gint) traits);
}

static gboolean
has_trait (IoMount trait)
{
  return ((guint) g_atomic_int_get (&mount_traits) & trait) != 0;
}

static void
arm (const char *folder, IoKind kind, guint nth, int number)
{
  g_mutex_lock (&faults.lock);
  g_free (faults.folder);
  faults.folder = g_strdup (folder);
  faults.kind = kind;
  faults.nth = nth;
  faults.number = number;
  faults.n_all = 0;
  memset (faults.counts, 0, sizeof faults.counts);
  g_mutex_unlock (&faults.lock);
}

void
io_faults_arm (const char *folder, IoKind kind, guint nth, int number)
{
  arm (folder, kind, nth, number);
}

void
io_faults_arm_death (const char *folder, guint nth)
{
  arm (folder, N_IO_KINDS, nth, 0);
}

void
io_faults_disarm (guint out_counts[N_IO_KINDS])
{
  g_mutex_lock (&faults.lock);
  memcpy (out_counts, faults.counts, sizeof faults.counts);
  g_clear_pointer (&faults.folder, g_free);
  g_mutex_unlock (&faults.lock);
}

/* TRUE with errno set when the operation is to fail. */
static gboolean
strikes (IoKind kind, const char *path)
{
  gboolean struck = FALSE;
  g_mutex_lock (&faults.lock);
  if (faults.folder != NULL && g_str_has_prefix (path, faults.folder))
    {
      guint n = ++faults.counts[kind], n_all = ++faults.n_all;
      struck = faults.kind == N_IO_KINDS ? n_all == faults.nth : faults.kind == kind && n == faults.nth;
    }
  int number = faults.number;
  g_mutex_unlock (&faults.lock);
  if (!struck)
    return FALSE;
  if (number == 0)
    _exit (DEATH_STATUS);
  errno = number;
  return TRUE;
}

/* `name` beside an open directory; "" for what is open itself. */
static gboolean
strikes_at (IoKind kind, int fd, const char *name)
{
  char link[64], path[4096] = "";
  if (fd == AT_FDCWD || *name == '/')
    return strikes (kind, name);
  g_snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink (link, path, sizeof path - 1) < 0)
    return FALSE;
  return strikes (kind, path);
}

int
openat (int fd, const char *path, int flags, ...)
{
  va_list args;
  va_start (args, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg (args, mode_t) : 0;
  va_end (args);
  return strikes_at (IO_OPEN, fd, path) ? -1 : (int) syscall (SYS_openat, fd, path, flags, mode);
}

int
open (const char *path, int flags, ...)
{
  va_list args;
  va_start (args, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg (args, mode_t) : 0;
  va_end (args);
  return strikes (IO_OPEN, path) ? -1 : (int) syscall (SYS_openat, AT_FDCWD, path, flags, mode);
}

static struct {
  const char *folder;
  void (*call) (gpointer data);
  gpointer data;
} before_mkdir;

void
io_faults_before_mkdir (const char *folder, void (*before) (gpointer data), gpointer data)
{
  before_mkdir.folder = folder;
  before_mkdir.call = before;
  before_mkdir.data = data;
}

int
mkdir (const char *path, mode_t mode)
{
  if (before_mkdir.folder != NULL && g_str_has_prefix (path, before_mkdir.folder))
    {
      before_mkdir.folder = NULL;
      before_mkdir.call (before_mkdir.data);
    }
  return strikes (IO_MKDIR, path) ? -1 : (int) syscall (SYS_mkdirat, AT_FDCWD, path, mode);
}

int
mkdirat (int fd, const char *path, mode_t mode)
{
  return strikes_at (IO_MKDIR, fd, path) ? -1 : (int) syscall (SYS_mkdirat, fd, path, mode);
}

ssize_t
pread (int fd, void *buffer, size_t size, off_t offset)
{
  return strikes_at (IO_READ, fd, "") ? -1 : syscall (SYS_pread64, fd, buffer, size, offset);
}

ssize_t
pwrite (int fd, const void *buffer, size_t size, off_t offset)
{
  return strikes_at (IO_WRITE, fd, "") ? -1 : syscall (SYS_pwrite64, fd, buffer, size, offset);
}

ssize_t
write (int fd, const void *buffer, size_t size)
{
  return strikes_at (IO_WRITE, fd, "") ? -1 : syscall (SYS_write, fd, buffer, size);
}

int
ftruncate (int fd, off_t size)
{
  return strikes_at (IO_TRUNCATE, fd, "") ? -1 : (int) syscall (SYS_ftruncate, fd, size);
}

int
fsync (int fd)
{
  return strikes_at (IO_SYNC, fd, "") ? -1 : (int) syscall (SYS_fsync, fd);
}

int
fdatasync (int fd)
{
  return strikes_at (IO_SYNC, fd, "") ? -1 : (int) syscall (SYS_fdatasync, fd);
}

/* Some file systems of networks have no rename over a directory, an empty one neither: nobody may rely on it. */
int
rename (const char *from, const char *to)
{
  struct stat info;
  if (strikes (IO_RENAME, from))
    return -1;
  if (lstat (to, &info) == 0 && S_ISDIR (info.st_mode))
    {
      errno = EEXIST;
      return -1;
    }
  return (int) syscall (SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int
unlink (const char *path)
{
  return strikes (IO_REMOVE, path) ? -1 : (int) syscall (SYS_unlinkat, AT_FDCWD, path, 0);
}

int
rmdir (const char *path)
{
  return strikes (IO_REMOVE, path) ? -1 : (int) syscall (SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

static int
shown_as_mounted (int result, struct stat *info)
{
  if (result == 0 && has_trait (IO_MOUNT_OWNS_MODES))
    info->st_mode |= 0777;
  return result;
}

int
fstat (int fd, struct stat *out)
{
  return shown_as_mounted ((int) syscall (SYS_fstat, fd, out), out);
}

int
stat (const char *path, struct stat *out)
{
  return shown_as_mounted ((int) syscall (SYS_newfstatat, AT_FDCWD, path, out, 0), out);
}

static gboolean
refuses_mode (void)
{
  if (!has_trait (IO_MOUNT_OWNS_MODES))
    return FALSE;
  errno = EPERM;
  return TRUE;
}

int
fchmod (int fd, mode_t mode)
{
  return refuses_mode () ? -1 : (int) syscall (SYS_fchmod, fd, mode);
}

int
chmod (const char *path, mode_t mode)
{
  return refuses_mode () ? -1 : (int) syscall (SYS_fchmodat, AT_FDCWD, path, mode);
}

int
fstatat (int fd, const char *path, struct stat *out, int flags)
{
  int result = (int) syscall (SYS_newfstatat, fd, path, out, flags);
  if (result == 0 && has_trait (IO_MOUNT_NO_BLOCKS))
    out->st_blocks = 0;
  return shown_as_mounted (result, out);
}

int
fstatvfs (int fd, struct statvfs *out)
{
  *out = (struct statvfs){ .f_bsize = 4096, .f_frsize = 4096 };
  if (has_trait (IO_MOUNT_NO_SPACE))
    return 0;
  out->f_blocks = out->f_bavail = out->f_bfree = has_trait (IO_MOUNT_VAST) ? (fsblkcnt_t) 1 << 52 : 1 << 20;
  if (has_trait (IO_MOUNT_NO_BLOCKS))
    out->f_bavail = out->f_bfree = 4;
  return 0;
}
