#include "sources/remote_reader.h"

#include <string.h>

#define BLOCK_BYTES REMOTE_HEAD_BYTES
#define WINDOW_BYTES (8u << 20)
#define N_WINDOWS 4u
#define N_FETCHERS 3u
/* So much, read one piece behind the other, is a transfer and no look into a header. */
#define SEQUENTIAL_BYTES (1u << 20)

typedef enum { WINDOW_EMPTY, WINDOW_LOADING, WINDOW_READY } WindowState;

typedef struct {
  WindowState state;
  guint64 offset_bytes;
  gsize size;
  guint8 *bytes;
  GError *error;
} Window;

typedef struct {
  Reader base;
  RemoteFile *file;

  guint8 *block;
  guint64 block_offset;
  gsize block_size;
  guint64 expected_offset; /* where a reader in order goes on */
  guint64 n_in_order;      /* bytes read so, one behind the other */

  /* Fetching ahead; its fields are under the lock. */
  Ctx *ctx; /* NULL: no fetcher runs */
  GThread *fetchers[N_FETCHERS];
  GMutex lock;
  GCond changed;
  Window windows[N_WINDOWS];
  guint64 next_offset; /* of the window to fetch next */
  gboolean stopped;
} RemoteReader;

/* A free window for what comes next; NULL when all are in use or the file's end is reached. */
static Window *
claim_window_locked (RemoteReader *self)
{
  for (guint i = 0; i < N_WINDOWS && self->next_offset < self->base.size_bytes; i++)
    if (self->windows[i].state == WINDOW_EMPTY)
      {
        Window *window = &self->windows[i];
        window->state = WINDOW_LOADING;
        window->offset_bytes = self->next_offset;
        window->size = (gsize) MIN (WINDOW_BYTES, self->base.size_bytes - self->next_offset);
        self->next_offset += window->size;
        return window;
      }
  return NULL;
}

static gpointer
run_fetcher (gpointer data)
{
  RemoteReader *self = data;
  g_mutex_lock (&self->lock);
  while (!self->stopped)
    {
      Window *window = claim_window_locked (self);
      if (window == NULL)
        {
          g_cond_wait (&self->changed, &self->lock);
          continue;
        }
      g_mutex_unlock (&self->lock);
      if (window->bytes == NULL)
        window->bytes = g_malloc (MIN (WINDOW_BYTES, self->base.size_bytes));
      remote_file_read (self->ctx, self->file, window->offset_bytes, window->bytes, window->size, &window->error);
      g_mutex_lock (&self->lock);
      window->state = WINDOW_READY;
      g_cond_broadcast (&self->changed);
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

static void
stop_fetchers (RemoteReader *self)
{
  if (self->ctx == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->stopped = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  ctx_cancel (self->ctx);
  for (guint i = 0; i < N_FETCHERS; i++)
    g_thread_join (self->fetchers[i]);
  for (guint i = 0; i < N_WINDOWS; i++)
    {
      g_clear_error (&self->windows[i].error);
      self->windows[i].state = WINDOW_EMPTY;
    }
  g_clear_pointer (&self->ctx, ctx_unref);
}

static void
start_fetchers (Ctx *ctx, RemoteReader *self, guint64 offset_bytes)
{
  stop_fetchers (self);
  self->ctx = ctx_new_child (ctx, -1);
  self->next_offset = offset_bytes;
  self->stopped = FALSE;
  for (guint i = 0; i < N_FETCHERS; i++)
    self->fetchers[i] = g_thread_new ("hub-fetch", run_fetcher, self);
}

static Window *
find_window_locked (RemoteReader *self, guint64 offset_bytes)
{
  for (guint i = 0; i < N_WINDOWS; i++)
    {
      Window *window = &self->windows[i];
      if (window->state != WINDOW_EMPTY && offset_bytes >= window->offset_bytes
          && offset_bytes - window->offset_bytes < window->size)
        return window;
    }
  return NULL;
}

/* The window that holds `offset_bytes`, when it is there or has failed; NULL with the context's end. */
static Window *
wait_window (Ctx *ctx, RemoteReader *self, guint64 offset_bytes, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  for (;;)
    {
      Window *window = find_window_locked (self, offset_bytes);
      if (!ctx_check (ctx, error))
        return NULL;
      if (window != NULL && window->state == WINDOW_READY)
        return window;
      g_cond_wait_until (&self->changed, &self->lock, g_get_monotonic_time () + 100 * G_TIME_SPAN_MILLISECOND);
    }
}

static void
release_window (RemoteReader *self, Window *window)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  window->state = WINDOW_EMPTY;
  g_cond_broadcast (&self->changed);
}

static gboolean
read_ahead (Ctx *ctx, RemoteReader *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error)
{
  while (size > 0)
    {
      Window *window = wait_window (ctx, self, offset_bytes, error);
      if (window == NULL)
        return FALSE;
      if (window->error != NULL)
        {
          g_propagate_error (error, g_error_copy (window->error));
          stop_fetchers (self);
          return FALSE;
        }
      gsize skip = (gsize) (offset_bytes - window->offset_bytes);
      gsize n = MIN (size, window->size - skip);
      memcpy (buffer, window->bytes + skip, n);
      if (skip + n == window->size)
        release_window (self, window);
      offset_bytes += n;
      buffer += n;
      size -= n;
    }
  return TRUE;
}

static gboolean
read_block (Ctx *ctx, RemoteReader *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error)
{
  gboolean is_inside = offset_bytes >= self->block_offset && offset_bytes - self->block_offset <= self->block_size
                       && size <= self->block_size - (offset_bytes - self->block_offset);
  if (size >= BLOCK_BYTES)
    return remote_file_read (ctx, self->file, offset_bytes, buffer, size, error);
  if (!is_inside)
    {
      self->block_size = 0;
      if (self->block == NULL)
        self->block = g_malloc (BLOCK_BYTES);
      gsize n = (gsize) MIN (BLOCK_BYTES, self->base.size_bytes - offset_bytes);
      if (!remote_file_read (ctx, self->file, offset_bytes, self->block, n, error))
        return FALSE;
      self->block_offset = offset_bytes;
      self->block_size = n;
    }
  memcpy (buffer, self->block + (offset_bytes - self->block_offset), size);
  return TRUE;
}

static gboolean
remote_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  RemoteReader *self = (RemoteReader *) base;
  gboolean is_next = offset_bytes == self->expected_offset;
  self->expected_offset = offset_bytes + size;
  self->n_in_order = (is_next ? self->n_in_order : 0) + size;
  if (self->ctx != NULL && !is_next)
    stop_fetchers (self);
  else if (self->ctx == NULL && self->n_in_order - size >= SEQUENTIAL_BYTES)
    start_fetchers (ctx, self, offset_bytes);
  return self->ctx != NULL ? read_ahead (ctx, self, offset_bytes, buffer, size, error)
                           : read_block (ctx, self, offset_bytes, buffer, size, error);
}

static void
remote_reader_free (Reader *base)
{
  RemoteReader *self = (RemoteReader *) base;
  stop_fetchers (self);
  for (guint i = 0; i < N_WINDOWS; i++)
    g_free (self->windows[i].bytes);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  remote_file_free (self->file);
  g_free (self->block);
  g_free (self);
}

static void
take_head (RemoteReader *self, GBytes *head)
{
  self->block = g_malloc (BLOCK_BYTES);
  self->block_size = g_bytes_get_size (head);
  g_assert (self->block_size <= BLOCK_BYTES);
  if (self->block_size > 0)
    memcpy (self->block, g_bytes_get_data (head, NULL), self->block_size);
}

Reader *
remote_reader_new (RemoteFile *file, GBytes *head)
{
  static const ReaderClass klass = { remote_read_at, remote_reader_free };
  RemoteReader *self = g_new0 (RemoteReader, 1);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->base.klass = &klass;
  self->base.size_bytes = remote_file_size (file);
  self->file = file;
  if (head != NULL)
    take_head (self, head);
  return &self->base;
}

GBytes *
remote_reader_head (Ctx *ctx, RemoteFile *file, GError **error)
{
  gsize size = (gsize) MIN (remote_file_size (file), REMOTE_HEAD_BYTES);
  g_autofree guint8 *bytes = g_malloc (size + 1);
  return remote_file_read (ctx, file, 0, bytes, size, error) ? g_bytes_new_take (g_steal_pointer (&bytes), size)
                                                             : NULL;
}
