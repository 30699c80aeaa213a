/* Preloaded: operations of a program on one folder fail as those of a volume do. Environment:
 *
 *   VOLUME_FAULTS_FOLDER  the folder; what lies elsewhere is left alone
 *   VOLUME_FAULTS_STRUCK  a file that gets a byte for each operation that was made to fail
 *   VOLUME_FAULTS_COUNTS  a file that gets "KIND N" lines at the end: how many operations there were
 *   VOLUME_FAULT          KIND:N:WHAT[:on]: the N-th operation of a kind (below; "any") fails, with ":on" all later ones of it, too.
 *                         WHAT is an errno, "short" (half the bytes are read or written) or "die" (SIGKILL in its place)
 *   VOLUME_IS_NFS         set: no locks, no holes, no rename over a directory or with flags, and a file that is removed while it is
 *                         open stays as .nfsN until it is closed
 *
 * After a sync that failed the file holds zeros where it held bytes: a system forgets what it could not write. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN, LIST, MAKE, READ, WRITE, TRUNCATE, SYNC, RENAME, REMOVE, STAT, MODE, LOCK, TIME, SEEK, CLOSE, SPACE, N_KINDS };
static const char *const kinds[] = { "open", "list", "make", "read", "write", "truncate", "sync", "rename",
                                     "remove", "stat", "mode", "lock", "time", "seek", "close", "space" };

#define SHORT 1
#define DIE (-2)
#define MAX_SILLY 64

static struct {
  const char *folder, *struck;
  int kind, nth, what, goes_on; /* kind N_KINDS: any */
  int is_nfs, n_silly;
} plan;
static struct {
  int fd;
  char path[PATH_MAX];
} silly[MAX_SILLY];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counts[N_KINDS + 1];

#define REAL(name) ((__typeof__ (&name)) dlsym (RTLD_NEXT, #name))

__attribute__ ((constructor)) static void
read_plan (void)
{
  char kind[16] = "", what[16] = "", on[4] = "";
  const char *text = getenv ("VOLUME_FAULT");
  plan.folder = getenv ("VOLUME_FAULTS_FOLDER");
  plan.struck = getenv ("VOLUME_FAULTS_STRUCK");
  plan.is_nfs = getenv ("VOLUME_IS_NFS") != NULL;
  plan.kind = -1;
  if (text == NULL || sscanf (text, "%15[a-z]:%d:%15[a-z0-9]:%3s", kind, &plan.nth, what, on) < 3)
    return;
  plan.goes_on = strcmp (on, "on") == 0;
  plan.what = strcmp (what, "short") == 0 ? SHORT : strcmp (what, "die") == 0 ? DIE : atoi (what);
  for (plan.kind = 0; plan.kind < N_KINDS && strcmp (kinds[plan.kind], kind) != 0; plan.kind++)
    continue;
}

__attribute__ ((destructor)) static void
write_counts (void)
{
  const char *path = getenv ("VOLUME_FAULTS_COUNTS");
  FILE *file = path != NULL ? fopen (path, "w") : NULL;
  if (file == NULL)
    return;
  for (int i = 0; i < N_KINDS; i++)
    fprintf (file, "%s %d\n", kinds[i], counts[i]);
  fclose (file);
}

static void
note_strike (void)
{
  long file = syscall (SYS_openat, AT_FDCWD, plan.struck, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  syscall (SYS_write, file, "x", 1);
  syscall (SYS_close, file);
}

/* "" for what is no file. */
static void
path_of (int fd, const char *name, char out[PATH_MAX])
{
  char link[64], folder[PATH_MAX] = "";
  if (name != NULL && (fd == AT_FDCWD || *name == '/'))
    {
      snprintf (out, PATH_MAX, "%s", name);
      return;
    }
  snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
  long size = syscall (SYS_readlinkat, AT_FDCWD, link, folder, sizeof folder - 1);
  folder[size > 0 ? size : 0] = '\0';
  snprintf (out, PATH_MAX, "%.*s%s%s", PATH_MAX / 2, folder, name != NULL ? "/" : "", name != NULL ? name : "");
}

static int
is_below (const char *path)
{
  return plan.folder != NULL && strncmp (path, plan.folder, strlen (plan.folder)) == 0;
}

/* 0: go on; -1: fail, errno is set; SHORT. */
static int
strikes (int kind, int fd, const char *name)
{
  char path[PATH_MAX];
  int saved_errno = errno;
  path_of (fd, name, path);
  errno = saved_errno;
  if (!is_below (path))
    return 0;
  pthread_mutex_lock (&lock);
  int n = ++counts[kind], n_all = ++counts[N_KINDS];
  pthread_mutex_unlock (&lock);
  if (plan.kind != kind && plan.kind != N_KINDS)
    return 0;
  if (plan.kind == N_KINDS)
    n = n_all;
  if (n != plan.nth && !(plan.goes_on && n > plan.nth))
    return 0;
  if (plan.what == SHORT && kind != READ && kind != WRITE)
    return 0;
  note_strike ();
  if (plan.what == DIE)
    raise (SIGKILL);
  if (plan.what == SHORT)
    return SHORT;
  errno = plan.what;
  return -1;
}

#define STRUCK(kind, fd, name) (strikes (kind, fd, name) != 0)

static size_t
less (int how, size_t size)
{
  return how == SHORT && size > 1 ? size / 2 : size;
}

/* Files */

#define DEFINE_OPEN(name, head, fd, path)                                     \
  int name head                                                               \
  {                                                                           \
    va_list args;                                                             \
    va_start (args, flags);                                                   \
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg (args, mode_t) : 0; \
    va_end (args);                                                            \
    return STRUCK (OPEN, fd, path) ? -1 : (int) syscall (SYS_openat, fd, path, flags, mode); \
  }
DEFINE_OPEN (open, (const char *path, int flags, ...), AT_FDCWD, path)
DEFINE_OPEN (open64, (const char *path, int flags, ...), AT_FDCWD, path)
DEFINE_OPEN (openat, (int fd, const char *path, int flags, ...), fd, path)
DEFINE_OPEN (openat64, (int fd, const char *path, int flags, ...), fd, path)

#define DEFINE_CHECKED_OPEN(name, head, fd, path) \
  int name head;                                  \
  int name head                                   \
  {                                               \
    return STRUCK (OPEN, fd, path) ? -1 : (int) syscall (SYS_openat, fd, path, flags, 0); \
  }
DEFINE_CHECKED_OPEN (__open_2, (const char *path, int flags), AT_FDCWD, path)
DEFINE_CHECKED_OPEN (__open64_2, (const char *path, int flags), AT_FDCWD, path)
DEFINE_CHECKED_OPEN (__openat_2, (int fd, const char *path, int flags), fd, path)
DEFINE_CHECKED_OPEN (__openat64_2, (int fd, const char *path, int flags), fd, path)

#define DEFINE_READ(name, head, call, ...)                                 \
  ssize_t name head;                                                       \
  ssize_t name head                                                        \
  {                                                                        \
    int how = strikes (READ, fd, NULL);                                    \
    return how == -1 ? -1 : syscall (call, fd, buffer, less (how, size), ##__VA_ARGS__); \
  }
DEFINE_READ (read, (int fd, void *buffer, size_t size), SYS_read)
DEFINE_READ (__read_chk, (int fd, void *buffer, size_t size, size_t room), SYS_read)
DEFINE_READ (pread, (int fd, void *buffer, size_t size, off_t offset), SYS_pread64, offset)
DEFINE_READ (pread64, (int fd, void *buffer, size_t size, off64_t offset), SYS_pread64, offset)
DEFINE_READ (__pread_chk, (int fd, void *buffer, size_t size, off_t offset, size_t room), SYS_pread64, offset)
DEFINE_READ (__pread64_chk, (int fd, void *buffer, size_t size, off64_t offset, size_t room), SYS_pread64, offset)

#define DEFINE_WRITE(name, head, call, ...)                                \
  ssize_t name head                                                        \
  {                                                                        \
    int how = strikes (WRITE, fd, NULL);                                   \
    return how == -1 ? -1 : syscall (call, fd, buffer, less (how, size), ##__VA_ARGS__); \
  }
DEFINE_WRITE (write, (int fd, const void *buffer, size_t size), SYS_write)
DEFINE_WRITE (pwrite, (int fd, const void *buffer, size_t size, off_t offset), SYS_pwrite64, offset)
DEFINE_WRITE (pwrite64, (int fd, const void *buffer, size_t size, off64_t offset), SYS_pwrite64, offset)

#define DEFINE(result, name, head, kind, fd, path, call)       \
  result name head                                             \
  {                                                            \
    return STRUCK (kind, fd, path) ? -1 : (result) syscall call; \
  }
DEFINE (int, ftruncate, (int fd, off_t size), TRUNCATE, fd, NULL, (SYS_ftruncate, fd, size))
DEFINE (int, ftruncate64, (int fd, off64_t size), TRUNCATE, fd, NULL, (SYS_ftruncate, fd, size))

static void
forget (int fd)
{
  struct stat info;
  char zeros[4096] = { 0 };
  if (syscall (SYS_fstat, fd, &info) < 0 || !S_ISREG (info.st_mode))
    return;
  for (off_t at = 0; at < info.st_size; at += sizeof zeros)
    {
      size_t size = info.st_size - at < (off_t) sizeof zeros ? (size_t) (info.st_size - at) : sizeof zeros;
      syscall (SYS_pwrite64, fd, zeros, size, at);
    }
}

#define DEFINE_SYNC(name, call)        \
  int name (int fd)                    \
  {                                    \
    if (!STRUCK (SYNC, fd, NULL))      \
      return (int) syscall (call, fd); \
    forget (fd);                       \
    errno = plan.what;                 \
    return -1;                         \
  }
DEFINE_SYNC (fsync, SYS_fsync)
DEFINE_SYNC (fdatasync, SYS_fdatasync)

#define DEFINE_SEEK(name, type)                                \
  type name (int fd, type offset, int from)                    \
  {                                                            \
    if (STRUCK (SEEK, fd, NULL))                               \
      return -1;                                               \
    if (!plan.is_nfs || (from != SEEK_DATA && from != SEEK_HOLE)) \
      return (type) syscall (SYS_lseek, fd, offset, from);     \
    errno = EINVAL;                                            \
    return -1;                                                 \
  }
DEFINE_SEEK (lseek, off_t)
DEFINE_SEEK (lseek64, off64_t)

int
close (int fd)
{
  char path[PATH_MAX] = "";
  int struck = STRUCK (CLOSE, fd, NULL), number = errno;
  pthread_mutex_lock (&lock);
  for (int i = 0; i < plan.n_silly; i++)
    if (silly[i].fd == fd)
      {
        memcpy (path, silly[i].path, sizeof path);
        silly[i].fd = -1;
      }
  pthread_mutex_unlock (&lock);
  int result = (int) syscall (SYS_close, fd);
  if (*path != '\0')
    syscall (SYS_unlinkat, AT_FDCWD, path, 0);
  if (!struck)
    return result;
  errno = number;
  return -1;
}

int
flock (int fd, int operation)
{
  if (STRUCK (LOCK, fd, NULL))
    return -1;
  if (!plan.is_nfs)
    return (int) syscall (SYS_flock, fd, operation);
  errno = ENOLCK;
  return -1;
}

/* Names */

DEFINE (int, mkdir, (const char *path, mode_t mode), MAKE, AT_FDCWD, path, (SYS_mkdirat, AT_FDCWD, path, mode))
DEFINE (int, mkdirat, (int fd, const char *path, mode_t mode), MAKE, fd, path, (SYS_mkdirat, fd, path, mode))
DEFINE (int, chmod, (const char *path, mode_t mode), MODE, AT_FDCWD, path, (SYS_fchmodat, AT_FDCWD, path, mode))
DEFINE (int, fchmod, (int fd, mode_t mode), MODE, fd, NULL, (SYS_fchmod, fd, mode))
DEFINE (int, utimensat, (int fd, const char *path, const struct timespec times[2], int flags), TIME, fd, path,
        (SYS_utimensat, fd, path, times, flags))
DEFINE (int, link, (const char *from, const char *to), RENAME, AT_FDCWD, from, (SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0))

int
renameat2 (int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
  struct stat info;
  if (STRUCK (RENAME, from_fd, from))
    return -1;
  if (plan.is_nfs && flags == 0 && syscall (SYS_newfstatat, to_fd, to, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR (info.st_mode))
    errno = EEXIST;
  else if (plan.is_nfs && flags != 0)
    errno = EINVAL;
  else
    return (int) syscall (SYS_renameat2, from_fd, from, to_fd, to, flags);
  return -1;
}

int
rename (const char *from, const char *to)
{
  return renameat2 (AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* An open file of ours: -1 if it is none. */
static int
opened_as (int fd, const char *name)
{
  struct stat wanted, info;
  if (syscall (SYS_newfstatat, fd, name, &wanted, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG (wanted.st_mode))
    return -1;
  for (int each = 3; each < 256; each++)
    if (syscall (SYS_fstat, each, &info) == 0 && info.st_ino == wanted.st_ino && info.st_dev == wanted.st_dev)
      return each;
  return -1;
}

static int
remove_silly (int fd, const char *name, int open_fd)
{
  char path[PATH_MAX], hidden[PATH_MAX];
  path_of (fd, name, path);
  char *slash = strrchr (path, '/');
  pthread_mutex_lock (&lock);
  int n = plan.n_silly < MAX_SILLY ? plan.n_silly++ : -1;
  pthread_mutex_unlock (&lock);
  if (n < 0 || slash == NULL)
    abort ();
  snprintf (hidden, sizeof hidden, "%.*s/.nfs%024d", (int) (slash - path), path, n);
  silly[n].fd = open_fd;
  memcpy (silly[n].path, hidden, sizeof hidden);
  return (int) syscall (SYS_renameat2, AT_FDCWD, path, AT_FDCWD, hidden, 0);
}

int
unlinkat (int fd, const char *path, int flags)
{
  char whole[PATH_MAX];
  if (STRUCK (REMOVE, fd, path))
    return -1;
  path_of (fd, path, whole);
  int open_fd = plan.is_nfs && (flags & AT_REMOVEDIR) == 0 && is_below (whole) ? opened_as (fd, path) : -1;
  return open_fd >= 0 ? remove_silly (fd, path, open_fd) : (int) syscall (SYS_unlinkat, fd, path, flags);
}

int
unlink (const char *path)
{
  return unlinkat (AT_FDCWD, path, 0);
}

int
rmdir (const char *path)
{
  return unlinkat (AT_FDCWD, path, AT_REMOVEDIR);
}

/* Looking */

#define DEFINE_STAT(name, type)                                                                        \
  int name (const char *path, struct type *out)                                                        \
  {                                                                                                    \
    return STRUCK (STAT, AT_FDCWD, path) ? -1 : (int) syscall (SYS_newfstatat, AT_FDCWD, path, out, 0); \
  }                                                                                                    \
  int l##name (const char *path, struct type *out)                                                     \
  {                                                                                                    \
    return STRUCK (STAT, AT_FDCWD, path)                                                               \
             ? -1                                                                                      \
             : (int) syscall (SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);               \
  }                                                                                                    \
  int f##name (int fd, struct type *out)                                                               \
  {                                                                                                    \
    return STRUCK (STAT, fd, NULL) ? -1 : (int) syscall (SYS_fstat, fd, out);                          \
  }
DEFINE_STAT (stat, stat)
DEFINE_STAT (stat64, stat64)
DEFINE (int, fstatat, (int fd, const char *path, struct stat *out, int flags), STAT, fd, path,
        (SYS_newfstatat, fd, path, out, flags))
DEFINE (int, fstatat64, (int fd, const char *path, struct stat64 *out, int flags), STAT, fd, path,
        (SYS_newfstatat, fd, path, out, flags))
DEFINE (int, access, (const char *path, int mode), STAT, AT_FDCWD, path, (SYS_faccessat, AT_FDCWD, path, mode))

int
fstatvfs (int fd, struct statvfs *out)
{
  return STRUCK (SPACE, fd, NULL) ? -1 : REAL (fstatvfs) (fd, out);
}

int
fstatvfs64 (int fd, struct statvfs64 *out)
{
  return STRUCK (SPACE, fd, NULL) ? -1 : REAL (fstatvfs64) (fd, out);
}

DIR *
opendir (const char *path)
{
  return STRUCK (LIST, AT_FDCWD, path) ? NULL : REAL (opendir) (path);
}

DIR *
fdopendir (int fd)
{
  return STRUCK (LIST, fd, NULL) ? NULL : REAL (fdopendir) (fd);
}

struct dirent *
readdir (DIR *dir)
{
  return STRUCK (LIST, dirfd (dir), NULL) ? NULL : REAL (readdir) (dir);
}

struct dirent64 *
readdir64 (DIR *dir)
{
  return STRUCK (LIST, dirfd (dir), NULL) ? NULL : REAL (readdir64) (dir);
}
