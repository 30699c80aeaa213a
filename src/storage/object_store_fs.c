#include "storage/object_store_fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "storage/object_store_fs_lock.h"
#include "storage/object_store_fs_sync.h"
#include "storage/store_marker.h"

#define TEMP_DIR ".tmp"
#define STALE_TEMP_SECONDS (24 * 3600)
#define COMMIT_ATTEMPTS 100
#define MAX_DEPTH 32

typedef struct {
  ObjectStore base;
  char *root;
  char *temp_dir;
  char *marker;
  int lock_fd; /* says that this process has the store open */
  GMutex lock;
  /* Directories with a new level in them that nobody has synced, with a number of the newest; under the lock. */
  GHashTable *unsynced;
  gsize n_lazy_levels;
} FsStore;

typedef struct {
  ObjectWriter base;
  FsStore *store;
  TempFile *file;
} FsWriter;

static char *
key_path (FsStore *self, const char *key)
{
  return g_strdup_printf ("%s/%s", self->root, key);
}

/* A missing object gets its key as its name; the path of the root is the operator's business. */
static gboolean
fail_for_key (GError **error, int saved_errno, const char *key)
{
  if (saved_errno == ENOENT || saved_errno == ENOTDIR || saved_errno == EISDIR)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "there is no object %s", key);
  return am_fail_errno (error, saved_errno, "object %s", key);
}

/* What went wrong with a write, in the operator's words. A directory that is gone is no missing object. */
static gboolean
fail_write (FsStore *self, GError *problem, GError **error)
{
  g_autoptr (GError) owned = problem;
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "the store in %s is gone: %s", self->root, problem->message);
  if (am_error_has_reason (problem, "InsufficientStorage"))
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage",
                    "no space is left for the store in %s: remove models or give it more (%s)", self->root,
                    problem->message);
  if (am_error_is (problem, AM_ERROR_PERMISSION_DENIED))
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, "ReadOnlyStorage", "the store in %s cannot be written: %s",
                    self->root, problem->message);
  g_propagate_error (error, g_steal_pointer (&owned));
  return FALSE;
}

static Reader *
fs_open (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  g_autofree char *path = key_path ((FsStore *) base, key);
  am_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat info;
  if (fd < 0 || fstat (fd, &info) < 0)
    {
      fail_for_key (error, errno, key);
      return NULL;
    }
  if (!S_ISREG (info.st_mode))
    return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "there is no object %s", key);
  return reader_new_fd (am_steal_fd (&fd), key, error);
}

static gboolean
fs_stat (Ctx *ctx, ObjectStore *base, const char *key, ObjectInfo *out_info, GError **error)
{
  g_autofree char *path = key_path ((FsStore *) base, key);
  struct stat info;
  if (lstat (path, &info) < 0)
    return fail_for_key (error, errno, key);
  if (!S_ISREG (info.st_mode))
    return fail_for_key (error, ENOENT, key);
  out_info->size_bytes = (guint64) info.st_size;
  out_info->modified_ms = (gint64) info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
  return TRUE;
}

static gboolean
writer_append (Ctx *ctx, ObjectWriter *base, gconstpointer data, gsize size, GError **error)
{
  FsWriter *self = (FsWriter *) base;
  GError *problem = NULL;
  return temp_file_write (self->file, data, size, &problem) || fail_write (self->store, problem, error);
}

static gboolean
writer_patch (Ctx *ctx, ObjectWriter *base, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  FsWriter *self = (FsWriter *) base;
  GError *problem = NULL;
  return temp_file_write_at (self->file, offset_bytes, data, size, &problem)
         || fail_write (self->store, problem, error);
}

/* What is committed lazily is synced with all levels above it, or never. */
static gboolean
make_dirs (FsStore *self, const char *dir, gboolean lazy, GError **error)
{
  g_autoptr (GPtrArray) unsynced = g_ptr_array_new_with_free_func (g_free);
  if (!file_make_dirs (dir, lazy ? unsynced : NULL, error))
    return FALSE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  for (guint i = 0; i < unsynced->len; i++)
    g_hash_table_replace (self->unsynced, g_strdup (g_ptr_array_index (unsynced, i)),
                          GSIZE_TO_POINTER (++self->n_lazy_levels));
  return TRUE;
}

static gsize
newest_lazy_level (FsStore *self, const char *dir)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return GPOINTER_TO_SIZE (g_hash_table_lookup (self->unsynced, dir));
}

/* Syncs the levels above `dir` that lazy commits made. */
static gboolean
sync_lazy_levels (FsStore *self, const char *dir, GError **error)
{
  g_autofree char *level = g_path_get_dirname (dir);
  for (; strlen (level) >= strlen (self->root); *strrchr (level, '/') = '\0')
    {
      gsize newest = newest_lazy_level (self, level);
      if (newest == 0)
        continue;
      if (!file_sync_dir (level, error))
        return FALSE;
      g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
      if (GPOINTER_TO_SIZE (g_hash_table_lookup (self->unsynced, level)) == newest)
        g_hash_table_remove (self->unsynced, level);
    }
  return TRUE;
}

/* What is lazy only takes a free place unsynced: what lies there may have been synced, and is not to be lost. */
static gboolean
put_in_place (FsWriter *self, const char *path, ObjectCommitFlags flags, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (temp_file_publish (self->file, path, flags != OBJECT_COMMIT_DEFAULT, &problem))
    return TRUE;
  if (flags == OBJECT_COMMIT_LAZY && am_error_is (problem, AM_ERROR_ALREADY_EXISTS))
    return temp_file_sync (self->file, error) && temp_file_publish (self->file, path, FALSE, error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

/* Another process may remove an empty directory between making it and renaming into it: try again. */
static gboolean
publish_under (FsWriter *self, const char *path, const char *dir, ObjectCommitFlags flags, GError **error)
{
  for (guint attempt = 1;; attempt++)
    {
      g_autoptr (GError) problem = NULL;
      if (put_in_place (self, path, flags, &problem))
        return TRUE;
      if (!am_error_is (problem, AM_ERROR_NOT_FOUND) || attempt == COMMIT_ATTEMPTS)
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      if (!make_dirs (self->store, dir, (flags & OBJECT_COMMIT_LAZY) != 0, error))
        return FALSE;
    }
}

static gboolean
publish (Ctx *ctx, FsWriter *self, const char *key, ObjectCommitFlags flags, GError **error)
{
  g_autofree char *path = key_path (self->store, key);
  g_autofree char *dir = g_path_get_dirname (path);
  gboolean lazy = (flags & OBJECT_COMMIT_LAZY) != 0;
  am_autofd int gate = -1;
  g_autoptr (GError) problem = NULL;
  if (lazy)
    sync_file_range (temp_file_fd (self->file), 0, 0, SYNC_FILE_RANGE_WRITE); /* only starts it */
  else if (!temp_file_sync (self->file, error))
    return FALSE;
  if (!fs_lock_enter_commit (ctx, self->store->marker, &gate, error)
      || !publish_under (self, path, dir, flags, error))
    return FALSE;
  am_autofd_cleanup (&gate);
  if (lazy || (file_sync_dir (dir, &problem) && sync_lazy_levels (self->store, dir, &problem)))
    return TRUE;
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE; /* somebody removed the object again, and its empty directory */
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
writer_commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  FsWriter *self = (FsWriter *) base;
  GError *problem = NULL;
  if (publish (ctx, self, key, flags, &problem))
    return TRUE;
  g_prefix_error (&problem, "object %s: ", key);
  return fail_write (self->store, problem, error);
}

static void
writer_free (ObjectWriter *base)
{
  FsWriter *self = (FsWriter *) base;
  temp_file_free (self->file);
  g_free (self);
}

static ObjectWriter *
fs_create (Ctx *ctx, ObjectStore *base, GError **error)
{
  static const ObjectWriterClass klass = { writer_append, writer_patch, writer_commit, writer_free };
  FsStore *store = (FsStore *) base;
  g_autoptr (GError) problem = NULL;
  TempFile *file = temp_file_new (store->temp_dir, &problem);
  if (file == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND) && mkdir (store->temp_dir, 0755) == 0)
    {
      g_clear_error (&problem);
      file = temp_file_new (store->temp_dir, &problem);
    }
  if (file == NULL)
    {
      fail_write (store, g_steal_pointer (&problem), error);
      return NULL;
    }
  FsWriter *self = g_new0 (FsWriter, 1);
  self->base.klass = &klass;
  self->store = store;
  self->file = file;
  return &self->base;
}

static gboolean
fs_remove (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  FsStore *self = (FsStore *) base;
  g_autofree char *path = key_path (self, key);
  if (unlink (path) < 0)
    {
      GError *problem = NULL;
      if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR)
        return TRUE;
      am_fail_errno (&problem, errno, "cannot remove object %s", key);
      return fail_write (self, problem, error);
    }
  /* Empty directories go too, up to the root; a busy one stops it. */
  for (char *slash = strrchr (path, '/'); slash != NULL && slash > path + strlen (self->root);
       slash = strrchr (path, '/'))
    {
      *slash = '\0';
      if (rmdir (path) < 0)
        break;
    }
  return TRUE;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Symbolic links to directories count as directories, as they do on the way to an object. */
static gboolean
entry_is_dir (DIR *dir, const struct dirent *entry, gboolean *out_is_dir, GError **error)
{
  struct stat info;
  *out_is_dir = entry->d_type == DT_DIR;
  if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
    return TRUE;
  if (fstatat (dirfd (dir), entry->d_name, &info, 0) == 0)
    *out_is_dir = S_ISDIR (info.st_mode);
  else if (errno != ENOENT && errno != ELOOP)
    return am_fail_errno (error, errno, "cannot look at %s", entry->d_name);
  return TRUE;
}

/* In the root lie the adapter's own files, and folders of its own whose names begin with a dot. */
static gboolean
is_own (const struct dirent *entry, gboolean in_root, gboolean is_dir)
{
  return strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0
         || (in_root && (entry->d_name[0] == '.' || !is_dir));
}

static gboolean
read_names (DIR *dir, gboolean in_root, GPtrArray *names, GError **error)
{
  for (;;)
    {
      gboolean is_dir;
      /* A listing cut short by an error would pass for a whole one, and collection would act on it. */
      errno = 0;
      struct dirent *entry = readdir (dir);
      if (entry == NULL)
        return errno == 0 || am_fail_errno (error, errno, "cannot read it");
      if (!entry_is_dir (dir, entry, &is_dir, error))
        return FALSE;
      if (!is_own (entry, in_root, is_dir))
        g_ptr_array_add (names, g_strconcat (entry->d_name, is_dir ? "/" : "", NULL));
    }
}

/* Names of a directory, a directory's with a slash behind it, so that sorting them sorts whole keys. */
static GPtrArray *
sorted_names (const char *path, gboolean in_root, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  DIR *dir = opendir (path);
  if (dir == NULL && !in_root && (errno == ENOENT || errno == ENOTDIR))
    return g_steal_pointer (&names);
  if (dir == NULL)
    {
      am_fail_errno (error, errno, "cannot list %s", path);
      return NULL;
    }
  gboolean ok = read_names (dir, in_root, names, error);
  closedir (dir);
  if (!ok)
    {
      g_prefix_error (error, "cannot list %s: ", path);
      return NULL;
    }
  g_ptr_array_sort (names, compare_names);
  return g_steal_pointer (&names);
}

typedef struct {
  FsStore *store;
  const char *after;
  guint limit;
  GPtrArray *found;
} Listing;

/* Whether everything below `key` (a directory's ends with '/') comes before where the page starts. */
static gboolean
is_behind (const Listing *listing, const char *key)
{
  if (listing->after == NULL || g_str_has_prefix (listing->after, key))
    return listing->after != NULL && !g_str_has_suffix (key, "/") && strcmp (key, listing->after) <= 0;
  return strcmp (key, listing->after) <= 0;
}

static gboolean list_below (Ctx *ctx, Listing *listing, const char *prefix, guint depth, GError **error);

static gboolean
list_entry (Ctx *ctx, Listing *listing, const char *key, guint depth, GError **error)
{
  if (is_behind (listing, key))
    return TRUE;
  if (g_str_has_suffix (key, "/"))
    return list_below (ctx, listing, key, depth + 1, error);
  g_autoptr (GError) problem = NULL;
  ObjectInfo info = { 0 };
  if (!fs_stat (ctx, &listing->store->base, key, &info, &problem))
    {
      if (am_error_is (problem, AM_ERROR_NOT_FOUND))
        return TRUE; /* gone meanwhile */
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  info.key = g_strdup (key);
  g_ptr_array_add (listing->found, g_memdup2 (&info, sizeof info));
  return TRUE;
}

static gboolean
list_below (Ctx *ctx, Listing *listing, const char *prefix, guint depth, GError **error)
{
  if (depth > MAX_DEPTH)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "the store is nested too deeply at %s", prefix);
  g_autofree char *path = key_path (listing->store, prefix);
  g_autoptr (GPtrArray) names = sorted_names (path, *prefix == '\0', error);
  if (names == NULL || !ctx_check (ctx, error))
    return FALSE;
  for (guint i = 0; i < names->len && listing->found->len < listing->limit; i++)
    {
      g_autofree char *key = g_strconcat (prefix, g_ptr_array_index (names, i), NULL);
      if (!list_entry (ctx, listing, key, depth, error))
        return FALSE;
    }
  return TRUE;
}

static GPtrArray *
fs_list (Ctx *ctx, ObjectStore *base, const char *prefix, const char *after, guint limit, GError **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func ((GDestroyNotify) object_info_free);
  Listing listing = { (FsStore *) base, after, limit, found };
  if (!list_below (ctx, &listing, prefix, 0, error))
    return NULL;
  return g_steal_pointer (&found);
}

static gboolean
fs_sync (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  FsStore *self = (FsStore *) base;
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  for (gsize i = 0; i < n_keys; i++)
    g_ptr_array_add (paths, key_path (self, keys[i]));
  return fs_sync_paths (ctx, self->root, (const char *const *) paths->pdata, paths->len, error);
}

static ObjectLock *
fs_lock (Ctx *ctx, ObjectStore *base, ObjectLockKind kind, GError **error)
{
  FsStore *self = (FsStore *) base;
  return kind == OBJECT_LOCK_ALONE ? fs_lock_alone (self->lock_fd, self->marker, error)
                                   : fs_lock_commits (ctx, self->marker, error);
}

static void
fs_free (ObjectStore *base)
{
  FsStore *self = (FsStore *) base;
  am_autofd_cleanup (&self->lock_fd);
  g_hash_table_unref (self->unsynced);
  g_mutex_clear (&self->lock);
  g_free (self->root);
  g_free (self->temp_dir);
  g_free (self->marker);
  g_free (self);
}

static void
remove_stale_temps (FsStore *self)
{
  DIR *dir = opendir (self->temp_dir);
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  for (struct dirent *entry = dir != NULL ? readdir (dir) : NULL; entry != NULL; entry = readdir (dir))
    {
      struct stat info;
      if (fstatat (dirfd (dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG (info.st_mode)
          && now - info.st_mtim.tv_sec > STALE_TEMP_SECONDS)
        unlinkat (dirfd (dir), entry->d_name, 0);
    }
  if (dir != NULL)
    closedir (dir);
}

/* FALSE with NOT_FOUND when the directory has no marker. */
static gboolean
check_marker (FsStore *self, GError **error)
{
  g_autoptr (GBytes) text = file_read (self->marker, STORE_MARKER_LIMIT_BYTES, error);
  return text != NULL && store_marker_check (text, self->marker, self->root, error);
}

/* Whether nothing lies in the root that somebody else may have put there. */
static gboolean
root_is_empty (FsStore *self)
{
  g_autoptr (GDir) dir = g_dir_open (self->root, 0, NULL);
  for (const char *name = dir != NULL ? g_dir_read_name (dir) : NULL; name != NULL; name = g_dir_read_name (dir))
    if (strcmp (name, "lost+found") != 0 && strcmp (name, TEMP_DIR) != 0 && strcmp (name, STORE_MARKER) != 0
        && !g_str_has_prefix (name, ".tmp-"))
      return FALSE;
  return TRUE;
}

/* A store is known by its marker; an empty or new directory becomes one. */
static gboolean
claim_root (FsStore *self, gboolean create, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (check_marker (self, &problem))
    return TRUE;
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (!create)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "%s is not a model store", self->root);
  if (!file_make_dirs (self->root, NULL, error))
    return FALSE;
  if (root_is_empty (self))
    return file_replace (self->marker, STORE_MARKER_TEXT, strlen (STORE_MARKER_TEXT), error);
  /* Another process may have made it a store and begun to fill it just now. */
  if (check_marker (self, NULL))
    return TRUE;
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                  "%s is neither empty nor a model store (it has no %s): choose another directory", self->root,
                  STORE_MARKER);
}

ObjectStore *
object_store_fs_new (const char *root, gboolean create, GError **error)
{
  static const ObjectStoreClass klass = {
    fs_open, fs_stat, fs_create, fs_remove, fs_list, fs_sync, fs_lock, fs_free
  };
  FsStore *self = g_new0 (FsStore, 1);
  g_autoptr (ObjectStore) owner = &self->base;
  self->base.klass = &klass;
  self->lock_fd = -1;
  g_mutex_init (&self->lock);
  self->unsynced = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->root = g_canonicalize_filename (root, NULL);
  self->temp_dir = key_path (self, TEMP_DIR);
  self->marker = key_path (self, STORE_MARKER);
  if (!claim_root (self, create, error) || !fs_lock_share (self->marker, &self->lock_fd, error))
    return NULL;
  /* Not synced: it is made again whenever it is missing. */
  if (mkdir (self->temp_dir, 0755) < 0 && errno != EEXIST)
    {
      /* A store on a read-only medium can still be read: writing will say what is wrong. */
      g_autoptr (GError) problem = NULL;
      am_fail_errno (&problem, errno, "cannot create directory %s", self->temp_dir);
      am_ignore (&problem, "the store may be read-only");
    }
  remove_stale_temps (self);
  g_steal_pointer (&owner);
  return &self->base;
}
