#include "delivery/chunk_file.h"

#include <fcntl.h>

#include "base/file.h"

#define HASH_BLOCK_BYTES (1u << 20)
#define WRITE_BACK_BYTES (32u << 20) /* the disk starts on this much while more arrives */
/* Who writes so far ahead of the hash waits for it: hashing is what takes longest, and must not be left for the end
 * by writers that take its CPU. */
#define AHEAD_BYTES (64u << 20)

struct ChunkFile {
  Ctx *ctx;
  int fd;
  const Recipe *recipe;
  const char *name;
  GMutex writing; /* held while bytes are written: the file system lets one in at a time, and waiting there spins */
  GMutex lock;    /* the rest */
  GCond changed;
  guint8 *is_right; /* of each chunk */
  gboolean stopping;
  guint n_hashed;        /* chunks */
  gboolean is_hash_idle; /* it waits for a chunk, or ended: nobody waits for it */
  Hasher *hasher;
  guint8 *block;
  guint64 written_back;
  GThread *thread;
  GError *error; /* of the thread; read after it ended */
};

static gboolean
wait_for (ChunkFile *self, guint index)
{
  g_mutex_lock (&self->lock);
  self->n_hashed = index;
  self->is_hash_idle = !self->is_right[index];
  g_cond_broadcast (&self->changed);
  while (!self->is_right[index] && !self->stopping)
    g_cond_wait (&self->changed, &self->lock);
  self->is_hash_idle = FALSE;
  gboolean go_on = !self->stopping;
  g_mutex_unlock (&self->lock);
  return go_on;
}

/* A writer's; it never waits while the hash waits for a chunk, which this one may have to bring. */
static void
wait_for_hash (ChunkFile *self, guint64 offset_bytes)
{
  g_mutex_lock (&self->lock);
  while (!self->is_hash_idle && !self->stopping && offset_bytes > self->recipe->starts[self->n_hashed] + AHEAD_BYTES)
    g_cond_wait (&self->changed, &self->lock);
  g_mutex_unlock (&self->lock);
}

static gboolean
hash_range (ChunkFile *self, guint64 offset_bytes, guint64 end_bytes, GError **error)
{
  while (offset_bytes < end_bytes)
    {
      gsize n = (gsize) MIN ((guint64) HASH_BLOCK_BYTES, end_bytes - offset_bytes);
      if (!ctx_check (self->ctx, error)
          || !file_pread_all (self->fd, offset_bytes, self->block, n, self->name, error))
        return FALSE;
      hasher_update (self->hasher, self->block, n);
      offset_bytes += n;
    }
  if (end_bytes - self->written_back >= WRITE_BACK_BYTES)
    {
      /* Only an early start: the file is synced whole at its end, where errors show. */
      sync_file_range (self->fd, (off_t) self->written_back, (off_t) (end_bytes - self->written_back),
                       SYNC_FILE_RANGE_WRITE);
      self->written_back = end_bytes;
    }
  return TRUE;
}

static gpointer
hash_thread (gpointer data)
{
  ChunkFile *self = data;
  const Recipe *recipe = self->recipe;
  for (guint i = 0; i < recipe->entries->len; i++)
    if (!wait_for (self, i) || !hash_range (self, recipe->starts[i], recipe->starts[i + 1], &self->error))
      break;
  g_mutex_lock (&self->lock);
  self->is_hash_idle = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return NULL;
}

ChunkFile *
chunk_file_new (Ctx *ctx, int fd, const Recipe *recipe, const char *name)
{
  ChunkFile *self = g_new0 (ChunkFile, 1);
  self->ctx = ctx;
  self->fd = fd;
  self->recipe = recipe;
  self->name = name;
  self->is_right = g_new0 (guint8, MAX (recipe->entries->len, 1));
  self->block = g_malloc (HASH_BLOCK_BYTES);
  self->hasher = hasher_new (recipe->blob_digest.algorithm);
  g_mutex_init (&self->writing);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->thread = g_thread_new ("file-hash", hash_thread, self);
  return self;
}

static void
stop (ChunkFile *self)
{
  g_mutex_lock (&self->lock);
  self->stopping = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

void
chunk_file_free (ChunkFile *self)
{
  if (self == NULL)
    return;
  if (self->thread != NULL)
    {
      stop (self);
      g_thread_join (self->thread);
    }
  g_mutex_clear (&self->writing);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  hasher_free (self->hasher);
  g_clear_error (&self->error);
  g_free (self->block);
  g_free (self->is_right);
  g_free (self);
}

void
chunk_file_mark (ChunkFile *self, guint index)
{
  g_mutex_lock (&self->lock);
  self->is_right[index] = 1;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

gboolean
chunk_file_has (ChunkFile *self, guint index)
{
  g_mutex_lock (&self->lock);
  gboolean is_right = self->is_right[index];
  g_mutex_unlock (&self->lock);
  return is_right;
}

gboolean
chunk_file_write (ChunkFile *self, guint64 offset_bytes, const guint8 *bytes, gsize size, GError **error)
{
  guint index = recipe_find (self->recipe, offset_bytes);
  g_assert (self->recipe->starts[index] == offset_bytes && self->recipe->starts[index + 1] - offset_bytes == size);
  g_mutex_lock (&self->writing);
  gboolean written = file_pwrite_all (self->fd, offset_bytes, bytes, size, error);
  g_mutex_unlock (&self->writing);
  if (!written)
    {
      g_prefix_error (error, "%s: ", self->name);
      return FALSE;
    }
  chunk_file_mark (self, index);
  wait_for_hash (self, offset_bytes);
  return TRUE;
}

gboolean
chunk_file_finish (ChunkFile *self, Digest *out_digest, GError **error)
{
  g_thread_join (self->thread);
  self->thread = NULL;
  if (self->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&self->error));
      return FALSE;
    }
  hasher_finish (self->hasher, out_digest);
  return TRUE;
}
