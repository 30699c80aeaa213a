#include "storage/object_store_fs_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

#define MAX_THREADS 16u

typedef gboolean (*SyncOne) (const char *root, const char *path, GError **error);

typedef struct {
  Ctx *ctx;
  const char *root;
  const char *const *paths;
  guint n_paths;
  SyncOne sync;
  atomic_uint next;
  GMutex lock;
  GError *error; /* the first */
} Round;

static gpointer
work (gpointer data)
{
  Round *self = data;
  guint index;
  while ((index = atomic_fetch_add (&self->next, 1)) < self->n_paths)
    {
      GError *problem = NULL;
      if (ctx_check (self->ctx, &problem) && self->sync (self->root, self->paths[index], &problem))
        continue;
      g_mutex_lock (&self->lock);
      if (self->error == NULL)
        self->error = g_steal_pointer (&problem);
      g_mutex_unlock (&self->lock);
      g_clear_error (&problem);
      atomic_store (&self->next, self->n_paths); /* the others stop */
    }
  return NULL;
}

static gboolean
sync_all (Ctx *ctx, const char *root, const char *const *paths, guint n_paths, SyncOne sync, GError **error)
{
  Round round = { .ctx = ctx, .root = root, .paths = paths, .n_paths = n_paths, .sync = sync };
  GThread *threads[MAX_THREADS];
  guint n_threads = MIN (n_paths, MAX_THREADS);
  atomic_init (&round.next, 0);
  g_mutex_init (&round.lock);
  for (guint i = 1; i < n_threads; i++)
    threads[i] = g_thread_new ("sync", work, &round);
  work (&round);
  for (guint i = 1; i < n_threads; i++)
    g_thread_join (threads[i]);
  g_mutex_clear (&round.lock);
  if (round.error == NULL)
    return TRUE;
  g_propagate_error (error, round.error);
  return FALSE;
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
