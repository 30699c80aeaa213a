#include "storage/object_store_fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define TEMP_DIR ".tmp"
#define MARKER "ai-models-store.json"
#define MARKER_TEXT "{\"format\":\"ai-models-store\",\"version\":1}\n"
#define STALE_TEMP_SECONDS (24 * 3600)
#define COMMIT_ATTEMPTS 4
#define MAX_DEPTH 32
#define LOCK_WAIT_US (120 * G_USEC_PER_SEC)
#define LOCK_POLL_US 20000

typedef struct {
  ObjectStore base;
  char *root;
  char *temp_dir;
  int lock_fd; /* of the marker: held shared by everybody who has the store open */
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

static Reader *
fs_open (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  g_autofree char *path = key_path ((FsStore *) base, key);
  am_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
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
  return temp_file_write (((FsWriter *) base)->file, data, size, error);
}

static gboolean
writer_patch (Ctx *ctx, ObjectWriter *base, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  return temp_file_write_at (((FsWriter *) base)->file, offset_bytes, data, size, error);
}

/* Another process may remove an empty directory between making it and renaming into it: try again. */
static gboolean
publish_under (FsWriter *self, const char *path, const char *dir, gboolean exclusive, GError **error)
{
  for (guint attempt = 1;; attempt++)
    {
      g_autoptr (GError) problem = NULL;
      if (temp_file_publish (self->file, path, exclusive, &problem))
        return TRUE;
      if (!am_error_is (problem, AM_ERROR_NOT_FOUND) || attempt == COMMIT_ATTEMPTS)
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      if (!file_make_dirs (dir, error))
        return FALSE;
    }
}

static gboolean
writer_commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  FsWriter *self = (FsWriter *) base;
  g_autofree char *path = key_path (self->store, key);
  g_autofree char *dir = g_path_get_dirname (path);
  gboolean lazy = (flags & OBJECT_COMMIT_LAZY) != 0;
  if (lazy)
    sync_file_range (temp_file_fd (self->file), 0, 0, SYNC_FILE_RANGE_WRITE); /* only starts it */
  else if (!temp_file_sync (self->file, error))
    return FALSE;
  if (!publish_under (self, path, dir, (flags & OBJECT_COMMIT_IF_ABSENT) != 0, error))
    {
      g_prefix_error (error, "object %s: ", key);
      return FALSE;
    }
  return lazy || file_sync_dir (dir, error);
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
  TempFile *file = temp_file_new (store->temp_dir, error);
  if (file == NULL)
    return NULL;
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
    return errno == ENOENT || errno == ENOTDIR ? TRUE : am_fail_errno (error, errno, "cannot remove object %s", key);
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

/* Names of a directory, a directory's with a slash behind it, so that sorting them sorts whole keys. */
static GPtrArray *
sorted_names (const char *path, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  DIR *dir = opendir (path);
  if (dir == NULL && (errno == ENOENT || errno == ENOTDIR))
    return g_steal_pointer (&names);
  if (dir == NULL)
    {
      am_fail_errno (error, errno, "cannot list %s", path);
      return NULL;
    }
  for (struct dirent *entry = readdir (dir); entry != NULL; entry = readdir (dir))
    {
      struct stat info;
      if (entry->d_name[0] == '.')
        continue;
      gboolean is_dir = entry->d_type == DT_DIR;
      if (entry->d_type == DT_UNKNOWN && fstatat (dirfd (dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        is_dir = S_ISDIR (info.st_mode);
      g_ptr_array_add (names, g_strconcat (entry->d_name, is_dir ? "/" : "", NULL));
    }
  closedir (dir);
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
  if (depth == 0 && strcmp (key, MARKER) == 0)
    return TRUE;
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
  g_autoptr (GPtrArray) names = sorted_names (path, error);
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
sync_key (FsStore *self, const char *key, GHashTable *dirs, GError **error)
{
  g_autofree char *path = key_path (self, key);
  am_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return fail_for_key (error, errno, key);
  if (fdatasync (fd) < 0)
    return am_fail_errno (error, errno, "cannot sync object %s", key);
  g_hash_table_add (dirs, g_path_get_dirname (path));
  return TRUE;
}

static gboolean
fs_sync (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  FsStore *self = (FsStore *) base;
  g_autoptr (GHashTable) dirs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (gsize i = 0; i < n_keys; i++)
    if (!ctx_check (ctx, error) || !sync_key (self, keys[i], dirs, error))
      return FALSE;
  GHashTableIter iter;
  gpointer dir;
  g_hash_table_iter_init (&iter, dirs);
  while (g_hash_table_iter_next (&iter, &dir, NULL))
    if (!file_sync_dir (dir, error))
      return FALSE;
  return TRUE;
}

static gboolean
fs_lock (ObjectStore *base, gboolean exclusive)
{
  FsStore *self = (FsStore *) base;
  if (self->lock_fd < 0)
    return FALSE;
  if (flock (self->lock_fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
    return TRUE;
  /* A conversion that fails gives up what was held: take it back. */
  flock (self->lock_fd, LOCK_SH);
  return FALSE;
}

static void
fs_free (ObjectStore *base)
{
  FsStore *self = (FsStore *) base;
  am_autofd_cleanup (&self->lock_fd);
  g_free (self->root);
  g_free (self->temp_dir);
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

/* Waits for somebody who has the store alone, which is never long. */
static gboolean
share_lock (FsStore *self, GError **error)
{
  g_autofree char *marker = key_path (self, MARKER);
  self->lock_fd = open (marker, O_RDONLY | O_CLOEXEC);
  if (self->lock_fd < 0)
    return am_fail_errno (error, errno, "cannot open %s", marker);
  for (gint64 until = g_get_monotonic_time () + LOCK_WAIT_US; flock (self->lock_fd, LOCK_SH | LOCK_NB) < 0;)
    {
      if (errno != EWOULDBLOCK)
        {
          /* A file system without locks: such a store can never be had alone, so nothing is collected there. */
          am_autofd_cleanup (&self->lock_fd);
          return TRUE;
        }
      if (g_get_monotonic_time () > until)
        return am_fail (error, AM_ERROR_UNAVAILABLE, "StoreBusy", "another process is cleaning up store %s", self->root);
      g_usleep (LOCK_POLL_US);
    }
  return TRUE;
}

/* A store is known by its marker; an empty or new directory becomes one. */
static gboolean
claim_root (FsStore *self, gboolean create, GError **error)
{
  g_autofree char *marker = key_path (self, MARKER);
  if (g_file_test (marker, G_FILE_TEST_IS_REGULAR))
    return TRUE;
  if (!create)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "%s is not a model store", self->root);
  if (!file_make_dirs (self->root, error))
    return FALSE;
  g_autoptr (GDir) dir = g_dir_open (self->root, 0, NULL);
  for (const char *name = dir != NULL ? g_dir_read_name (dir) : NULL; name != NULL; name = g_dir_read_name (dir))
    if (strcmp (name, "lost+found") != 0 && strcmp (name, TEMP_DIR) != 0 && strcmp (name, MARKER) != 0
        && !g_str_has_prefix (name, ".tmp-"))
      return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                      "%s is neither empty nor a model store (it has no %s): choose another directory", self->root,
                      MARKER);
  return file_replace (marker, MARKER_TEXT, strlen (MARKER_TEXT), error);
}

ObjectStore *
object_store_fs_new (const char *root, gboolean create, GError **error)
{
  static const ObjectStoreClass klass = { fs_open, fs_stat, fs_create, fs_remove, fs_list, fs_sync, fs_lock, fs_free };
  FsStore *self = g_new0 (FsStore, 1);
  g_autoptr (ObjectStore) owner = &self->base;
  self->base.klass = &klass;
  self->lock_fd = -1;
  self->root = g_canonicalize_filename (root, NULL);
  self->temp_dir = g_strdup_printf ("%s/%s", self->root, TEMP_DIR);
  if (!claim_root (self, create, error) || !share_lock (self, error))
    return NULL;
  if (!g_file_test (self->temp_dir, G_FILE_TEST_IS_DIR))
    {
      /* A store on a read-only medium can still be read: writing will say what is wrong. */
      g_autoptr (GError) problem = NULL;
      if (!file_make_dirs (self->temp_dir, &problem))
        am_ignore (&problem, "the store may be read-only");
    }
  remove_stale_temps (self);
  g_steal_pointer (&owner);
  return &self->base;
}
