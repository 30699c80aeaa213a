#include "registry/read_ahead.h"

#define N_BLOCKS 4

typedef struct {
  guint8 *bytes;
  gsize size; /* 0: the end */
  GError *error;
} Block;

struct ReadAhead {
  Ctx *ctx;
  Reader *content;
  guint64 offset_bytes;
  Hasher *hasher;
  GThread *thread;
  GMutex lock;
  GCond changed;
  Block blocks[N_BLOCKS];
  guint n_filled; /* blocks ready for the consumer, from `first` on */
  guint first;
  gboolean in_use; /* the consumer looks at `first` */
  gboolean stopped;
};

static void
fill (ReadAhead *self, Block *block)
{
  guint64 left = self->content->size_bytes - self->offset_bytes;
  block->size = (gsize) MIN (left, READ_AHEAD_BLOCK_BYTES);
  if (block->size == 0 || !ctx_check (self->ctx, &block->error)
      || !reader_read_at (self->ctx, self->content, self->offset_bytes, block->bytes, block->size, &block->error))
    return;
  self->offset_bytes += block->size;
  if (self->hasher != NULL)
    hasher_update (self->hasher, block->bytes, block->size);
}

/* Ends after it handed over the end or an error. */
static gpointer
run (gpointer data)
{
  ReadAhead *self = data;
  guint at = 0;
  gboolean is_last = FALSE;
  while (!is_last)
    {
      g_mutex_lock (&self->lock);
      while (self->n_filled == N_BLOCKS && !self->stopped)
        g_cond_wait (&self->changed, &self->lock);
      gboolean stopped = self->stopped;
      g_mutex_unlock (&self->lock);
      if (stopped)
        break;
      Block *block = &self->blocks[at];
      fill (self, block);
      is_last = block->size == 0 || block->error != NULL;
      g_mutex_lock (&self->lock);
      self->n_filled++;
      g_cond_broadcast (&self->changed);
      g_mutex_unlock (&self->lock);
      at = (at + 1) % N_BLOCKS;
    }
  return NULL;
}

ReadAhead *
read_ahead_new (Ctx *ctx, Reader *content, guint64 offset_bytes, Hasher *hasher)
{
  ReadAhead *self = g_new0 (ReadAhead, 1);
  g_assert (offset_bytes <= content->size_bytes);
  self->ctx = ctx;
  self->content = content;
  self->offset_bytes = offset_bytes;
  self->hasher = hasher;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  gsize block_size = (gsize) MIN (MAX (content->size_bytes - offset_bytes, 1), READ_AHEAD_BLOCK_BYTES);
  for (guint i = 0; i < N_BLOCKS; i++)
    self->blocks[i].bytes = g_malloc (block_size);
  self->thread = g_thread_new ("read-ahead", run, self);
  return self;
}

gssize
read_ahead_next (ReadAhead *self, const guint8 **out_block, GError **error)
{
  g_mutex_lock (&self->lock);
  if (self->in_use)
    {
      self->first = (self->first + 1) % N_BLOCKS;
      self->n_filled--;
      g_cond_broadcast (&self->changed);
    }
  while (self->n_filled == 0)
    g_cond_wait (&self->changed, &self->lock);
  g_mutex_unlock (&self->lock);
  Block *block = &self->blocks[self->first];
  /* The end and an error stay: the thread is gone and a further call must not wait for it. */
  self->in_use = block->size > 0 && block->error == NULL;
  if (block->error != NULL)
    {
      g_propagate_error (error, g_error_copy (block->error));
      return -1;
    }
  *out_block = block->bytes;
  return (gssize) block->size;
}

void
read_ahead_free (ReadAhead *self)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->stopped = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  g_thread_join (self->thread);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      g_free (self->blocks[i].bytes);
      g_clear_error (&self->blocks[i].error);
    }
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}
