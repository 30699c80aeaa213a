#include "publish/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/archive.h"
#include "formats/sniff.h"
#include "publish/archive_source.h"

typedef struct {
  ModelSource base;
  char *name;
  char *root; /* files are `root`/path; for one file its directory */
  GStringChunk *strings;
} LocalSource;

static gboolean
add_file (LocalSource *self, const char *path, guint64 size_bytes, gboolean is_gguf, GError **error)
{
  if (!path_is_safe (path))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "FileRejected",
                    "\"%.200s\" cannot be a file of a model: its name "
                    "is not plain UTF-8, or too long",
                    path);
  if (self->base.files->len >= LOCAL_SOURCE_MAX_FILES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s holds more than %u files", self->name,
                    LOCAL_SOURCE_MAX_FILES);
  SourceFile file = { g_string_chunk_insert (self->strings, path), size_bytes, is_gguf };
  g_array_append_val (self->base.files, file);
  return TRUE;
}

/* Files without an extension may be GGUF all the same. */
static gboolean
begins_as_gguf (int dir_fd, const char *name)
{
  char magic[4];
  if (strchr (name, '.') != NULL)
    return FALSE;
  am_autofd int fd = openat (dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return fd >= 0 && pread (fd, magic, sizeof magic, 0) == sizeof magic && memcmp (magic, "GGUF", 4) == 0;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static GPtrArray *
directory_names (int dir_fd, const char *shown, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  DIR *dir = fdopendir (dup (dir_fd));
  if (dir == NULL)
    {
      am_fail_errno (error, errno, "cannot list %s", shown);
      return NULL;
    }
  rewinddir (dir);
  for (struct dirent *entry = readdir (dir); entry != NULL; entry = readdir (dir))
    if (strcmp (entry->d_name, ".") != 0 && strcmp (entry->d_name, "..") != 0)
      g_ptr_array_add (names, g_strdup (entry->d_name));
  closedir (dir);
  g_ptr_array_sort (names, compare_names);
  return g_steal_pointer (&names);
}

static gboolean list_directory (Ctx *ctx, LocalSource *self, int dir_fd, const char *prefix, guint depth,
                                GError **error);

static gboolean
list_entry (Ctx *ctx, LocalSource *self, int dir_fd, const char *name, const char *path, guint depth, GError **error)
{
  struct stat info;
  if (fstatat (dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
    return am_fail_errno (error, errno, "cannot look at %s", path);
  gboolean is_link = S_ISLNK (info.st_mode);
  if (is_link && fstatat (dir_fd, name, &info, 0) < 0)
    return am_fail_errno (error, errno, "%s is a link that leads nowhere", path);
  if (S_ISREG (info.st_mode))
    return add_file (self, path, (guint64) info.st_size, begins_as_gguf (dir_fd, name), error);
  if (!S_ISDIR (info.st_mode))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "FileRejected",
                    "%s is neither a file nor a directory: remove it, or push a single file", path);
  if (is_link)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "FileRejected",
                    "%s is a link to a directory, which is not "
                    "followed: push the directory itself",
                    path);
  am_autofd int child = openat (dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (child < 0)
    return am_fail_errno (error, errno, "cannot open %s", path);
  return list_directory (ctx, self, child, path, depth + 1, error);
}

static gboolean
list_directory (Ctx *ctx, LocalSource *self, int dir_fd, const char *prefix, guint depth, GError **error)
{
  if (depth > LOCAL_SOURCE_MAX_DEPTH)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s is nested deeper than %u folders", prefix,
                    LOCAL_SOURCE_MAX_DEPTH);
  g_autoptr (GPtrArray) names = directory_names (dir_fd, *prefix != '\0' ? prefix : self->root, error);
  for (guint i = 0; names != NULL && i < names->len; i++)
    {
      const char *name = g_ptr_array_index (names, i);
      g_autofree char *path = *prefix != '\0' ? g_strconcat (prefix, "/", name, NULL) : g_strdup (name);
      /* Hidden files are never part of a model; what they hold (.git) may be huge. */
      if (name[0] == '.')
        continue;
      if (!ctx_check (ctx, error) || !list_entry (ctx, self, dir_fd, name, path, depth, error))
        return FALSE;
    }
  return names != NULL;
}

/* A single file. `*out_archive` is its reader when it holds others. */
static gboolean
open_file (Ctx *ctx, LocalSource *self, const char *path, Reader **out_archive, GError **error)
{
  guint8 head[SNIFF_BYTES];
  ArchiveKind kind;
  g_autofree char *base = g_path_get_basename (path);
  g_autoptr (Reader) reader = reader_new_file (path, error);
  gsize n = reader != NULL ? (gsize) MIN (reader->size_bytes, sizeof head) : 0;
  if (reader == NULL || !reader_read_at (ctx, reader, 0, head, n, error))
    return FALSE;
  if (archive_detect (head, n, &kind))
    {
      *out_archive = g_steal_pointer (&reader);
      return TRUE;
    }
  return add_file (self, base, reader->size_bytes, n >= 4 && memcmp (head, "GGUF", 4) == 0, error);
}

static Reader *
local_open (ModelSource *base, const char *path, GError **error)
{
  LocalSource *self = (LocalSource *) base;
  g_autofree char *full = g_build_filename (self->root, path, NULL);
  return reader_new_file (full, error);
}

static void
local_free (ModelSource *base)
{
  LocalSource *self = (LocalSource *) base;
  g_string_chunk_free (self->strings);
  g_free (self->name);
  g_free (self->root);
  g_free (self);
}

ModelSource *
local_source_open (Ctx *ctx, const char *path, GError **error)
{
  static const ModelSourceClass klass = { NULL, local_open, NULL, local_free };
  LocalSource *self = g_new0 (LocalSource, 1);
  g_autoptr (ModelSource) base = &self->base;
  g_autofree char *absolute = g_canonicalize_filename (path, NULL);
  base->klass = &klass;
  base->display = g_strdup (path);
  base->files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  self->strings = g_string_chunk_new (4096);
  self->name = g_path_get_basename (absolute);
  am_autofd int fd = open (absolute, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (fd < 0 || fstat (fd, &info) < 0)
    {
      am_fail_errno (error, errno, "cannot open %s", path);
      return NULL;
    }
  gboolean ok;
  if (S_ISDIR (info.st_mode))
    {
      self->root = g_steal_pointer (&absolute);
      ok = list_directory (ctx, self, fd, "", 0, error);
    }
  else
    {
      self->root = g_path_get_dirname (absolute);
      Reader *archive = NULL;
      ok = open_file (ctx, self, absolute, &archive, error);
      if (archive != NULL)
        return archive_source_open (ctx, archive, path, error);
    }
  return ok ? g_steal_pointer (&base) : NULL;
}
