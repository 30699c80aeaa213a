#include "storage/object_store_fs_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/workers.h"

#define MAX_THREADS 16u

typedef gboolean (*SyncOne) (const char *root, const char *path, GError **error);

typedef struct {
  const char *root;
  const char *const *paths;
  guint n_paths;
  SyncOne sync;
  atomic_uint next;
} Round;

/* A worker. */
static gboolean
sync_some (Ctx *ctx, gpointer task, GError **error)
{
  Round *self = task;
  guint index;
  while ((index = atomic_fetch_add (&self->next, 1)) < self->n_paths)
    if (!ctx_check (ctx, error) || !self->sync (self->root, self->paths[index], error))
      return FALSE;
  return TRUE;
}

static gboolean
sync_all (Ctx *ctx, const char *root, const char *const *paths, guint n_paths, SyncOne sync, GError **error)
{
  Round round = { .root = root, .paths = paths, .n_paths = n_paths, .sync = sync };
  atomic_init (&round.next, 0);
  return workers_run (ctx, MIN (n_paths, MAX_THREADS), sync_some, &round, error);
}

static gboolean
sync_file (const char *root, const char *path, GError **error)
{
  const char *key = path + strlen (root) + 1;
  am_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "there is no object %s", key);
  return (fd >= 0 && fdatasync (fd) == 0) || am_fail_errno (error, errno, "cannot sync object %s", key);
}

static gboolean
sync_directory (const char *root, const char *path, GError **error)
{
  return file_sync_dir (path, error);
}

/* The levels above may have been made by somebody who has not synced them yet. */
static GHashTable *
directories_of (const char *root, const char *const *paths, guint n_paths)
{
  GHashTable *dirs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gsize root_size = strlen (root);
  for (guint i = 0; i < n_paths; i++)
    {
      g_autofree char *path = g_strdup (paths[i]);
      for (char *slash = strrchr (path, '/'); slash != NULL && slash >= path + root_size; slash = strrchr (path, '/'))
        {
          *slash = '\0';
          if (!g_hash_table_add (dirs, g_strdup (path)))
            break;
        }
    }
  return dirs;
}

gboolean
fs_sync_paths (Ctx *ctx, const char *root, const char *const *paths, guint n_paths, GError **error)
{
  g_autoptr (GHashTable) dirs = directories_of (root, paths, n_paths);
  g_autofree gpointer *names = g_hash_table_get_keys_as_array (dirs, NULL);
  return sync_all (ctx, root, paths, n_paths, sync_file, error)
         && sync_all (ctx, root, (const char *const *) names, g_hash_table_size (dirs), sync_directory, error);
}
