/* Durable files: written beside their place, synced, then renamed or linked in. Thread-safe. */
#pragma once

#include <glib.h>
#include <sys/types.h>

static inline void
am_autofd_cleanup (int *fd)
{
  extern int close (int);
  if (*fd >= 0)
    close (*fd);
  *fd = -1;
}
#define am_autofd __attribute__ ((cleanup (am_autofd_cleanup)))

static inline int
am_steal_fd (int *fd)
{
  int stolen = *fd;
  *fd = -1;
  return stolen;
}

/* A file with a unique name in `dir_fd`'s directory, removed unless it is published. */
typedef struct TempFile TempFile;
/* `dir_path` must exist. Blocks. */
TempFile *temp_file_new (const char *dir_path, GError **error);
int temp_file_fd (TempFile *self);
const char *temp_file_path (TempFile *self);
gboolean temp_file_write (TempFile *self, gconstpointer data, gsize size, GError **error);
gboolean temp_file_write_at (TempFile *self, guint64 offset_bytes, gconstpointer data, gsize size, GError **error);
gboolean temp_file_sync (TempFile *self, GError **error);
/* Renames onto `path` (same file system). With `exclusive`, an existing target is left alone and the
 * answer is ALREADY_EXISTS. Does not sync the directory: see file_sync_dir. */
gboolean temp_file_publish (TempFile *self, const char *path, gboolean exclusive, GError **error);
void temp_file_free (TempFile *self); /* removes an unpublished file */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TempFile, temp_file_free)

/* Writes whole, synced, then visible, directory synced too. */
gboolean file_replace (const char *path, gconstpointer data, gsize size, GError **error);
/* Whole content of a regular file of at most `limit_bytes`: RESOURCE_EXHAUSTED when larger. */
GBytes *file_read (const char *path, gsize limit_bytes, GError **error);
/* mkdir -p, mode 0755; each new level's parent is synced, or added to `out_unsynced` (an array of strings that frees
 * them) where the caller gives one. Works beside others who remove empty levels.
 * FAILED_PRECONDITION when something else is in the way. */
gboolean file_make_dirs (const char *path, GPtrArray *out_unsynced, GError **error);
/* Sets the mode of an open file or folder, whatever the umask. Where it cannot be set, as the mount gives it or another owns it, it is
 * left when it lets everybody do what `mode` lets others do but write. FALSE: errno says why. */
gboolean file_set_mode (int fd, mode_t mode);
gboolean file_sync_dir (const char *path, GError **error);
/* ".nfs" and digits: a file that was removed while this machine has it open, as NFS keeps it. It goes by itself and cannot be removed. */
gboolean file_name_is_nfs_remnant (const char *name);
/* Names in a directory but "." and "..", in no order; caller frees. An error also when the listing broke off. */
GPtrArray *file_list_dir (const char *path, GError **error);
/* rm -r that never follows a symbolic link. Missing is fine. */
gboolean file_remove_tree (const char *path, GError **error);
/* Loops over short writes and EINTR. */
gboolean file_write_all (int fd, gconstpointer data, gsize size, GError **error);
gboolean file_pwrite_all (int fd, guint64 offset_bytes, gconstpointer data, gsize size, GError **error);
/* Reads exactly `size` or fails; `name` is for the message. DATA_LOSS when the file ends early. */
gboolean file_pread_all (int fd, guint64 offset_bytes, gpointer buffer, gsize size, const char *name, GError **error);

/* TRUE for a relative path of plain segments: no empty, ".", ".." segment, no leading or trailing
 * slash, backslash, control byte or NUL, valid UTF-8, each segment at most 255 bytes, 1024 in all
 * (modelpack.md, formats-oci-modelpack.md 6). */
gboolean path_is_safe (const char *path);
