#include "sources/range_ahead.h"

#include <string.h>

/* So often whoever waits looks whether he still should. */
#define CHECK_US (100 * G_TIME_SPAN_MILLISECOND)

typedef struct {
  FetchGate *gate;
  guint64 offset_bytes;
  gsize size, n_arrived;
  guint8 *bytes;
  GError *error;
} Window;

struct RangeAhead {
  Ctx *ctx; /* own child */
  RemoteFile *file;
  FetchGate *gate;
  guint64 size_bytes; /* of the file */
  gsize n_used;       /* of the first window; the consumer's */
  /* Under the gate's lock. */
  GPtrArray *fetchers; /* GThread */
  guint n_idle;        /* of them */
  GQueue windows;      /* Window, in order: the first is being consumed */
  guint64 next_offset; /* of the window to fetch next */
  gboolean stopped;
};

static gboolean
may_claim_locked (const RangeAhead *self)
{
  return !self->stopped && self->next_offset < self->size_bytes
         && fetch_gate_is_open_locked (self->gate, self->windows.length);
}

static Window *
claim_locked (RangeAhead *self)
{
  Window *window = g_new0 (Window, 1);
  window->gate = self->gate;
  window->offset_bytes = self->next_offset;
  window->size = (gsize) MIN (fetch_tuning_window_bytes (&self->gate->tuning), self->size_bytes - self->next_offset);
  self->gate->n_windows++;
  self->gate->windows_bytes += window->size;
  self->gate->n_active++;
  self->next_offset += window->size;
  g_queue_push_tail (&self->windows, window);
  return window;
}

static void
drop_locked (RangeAhead *self, Window *window)
{
  self->gate->n_windows--;
  self->gate->windows_bytes -= window->size;
  buffer_pool_give (self->gate->buffers, window->bytes, window->size);
  g_clear_error (&window->error);
  g_free (window);
}

static gpointer run_fetcher (gpointer data);

/* One more thread where there is work for it. */
static void
grow_locked (RangeAhead *self)
{
  if (self->n_idle == 0 && self->fetchers->len < FETCH_MAX_CONNECTIONS && may_claim_locked (self))
    g_ptr_array_add (self->fetchers, g_thread_new ("fetch", run_fetcher, self));
}

/* The last byte counts when the fetcher is through with the window, which may then go. */
static void
on_arrived (gpointer data, gsize n_bytes)
{
  Window *window = data;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&window->gate->lock);
  window->n_arrived = MIN (n_bytes, window->size - 1);
  g_cond_broadcast (&window->gate->changed);
}

static gpointer
run_fetcher (gpointer data)
{
  RangeAhead *self = data;
  FetchGate *gate = self->gate;
  g_mutex_lock (&gate->lock);
  while (!self->stopped && self->next_offset < self->size_bytes)
    {
      if (!may_claim_locked (self))
        {
          self->n_idle++;
          g_cond_wait (&gate->changed, &gate->lock);
          self->n_idle--;
          continue;
        }
      Window *window = claim_locked (self);
      grow_locked (self);
      g_mutex_unlock (&gate->lock);
      window->bytes = buffer_pool_take (gate->buffers, window->size);
      GError *problem = NULL;
      gboolean done = remote_file_stream (self->ctx, self->file, window->offset_bytes, window->bytes, window->size,
                                          on_arrived, window, &problem);
      g_mutex_lock (&gate->lock);
      window->n_arrived = done ? window->size : window->n_arrived;
      window->error = problem;
      self->stopped = self->stopped || !done;
      gate->n_active--;
      g_cond_broadcast (&gate->changed);
    }
  g_mutex_unlock (&gate->lock);
  return NULL;
}

RangeAhead *
range_ahead_new (Ctx *ctx, RemoteFile *file, FetchGate *gate, guint64 offset_bytes)
{
  RangeAhead *self = g_new0 (RangeAhead, 1);
  self->ctx = ctx_new_child (ctx, -1);
  self->file = file;
  self->gate = gate;
  self->size_bytes = remote_file_size (file);
  self->next_offset = offset_bytes;
  self->fetchers = g_ptr_array_new ();
  g_queue_init (&self->windows);
  return self;
}

/* How much of the first window is there to be used; 0 with its error, or the context's. */
static gsize
wait_first (Ctx *ctx, RangeAhead *self, const Window **out_first, GError **error)
{
  FetchGate *gate = self->gate;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&gate->lock);
  for (;;)
    {
      Window *window = g_queue_peek_head (&self->windows);
      if (!ctx_check (ctx, error))
        return 0;
      if (window != NULL && window->n_arrived > self->n_used)
        {
          *out_first = window;
          return window->n_arrived - self->n_used;
        }
      if (window != NULL && window->error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&window->error));
          return 0;
        }
      gint64 from_us = g_get_monotonic_time ();
      grow_locked (self);
      g_cond_wait_until (&gate->changed, &gate->lock, from_us + CHECK_US);
      fetch_gate_waited_locked (gate, g_get_monotonic_time () - from_us);
    }
}

static void
drop_first (RangeAhead *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->gate->lock);
  drop_locked (self, g_queue_pop_head (&self->windows));
  self->n_used = 0;
  fetch_gate_waited_locked (self->gate, 0);
  grow_locked (self);
  g_cond_broadcast (&self->gate->changed);
}

gboolean
range_ahead_read (Ctx *ctx, RangeAhead *self, guint8 *buffer, gsize size, GError **error)
{
  while (size > 0)
    {
      const Window *first = NULL;
      gsize n = wait_first (ctx, self, &first, error);
      n = MIN (n, size);
      if (n == 0)
        return FALSE;
      memcpy (buffer, first->bytes + self->n_used, n);
      self->n_used += n;
      buffer += n;
      size -= n;
      if (self->n_used == first->size)
        drop_first (self);
    }
  return TRUE;
}

void
range_ahead_free (RangeAhead *self)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->gate->lock);
  self->stopped = TRUE;
  g_cond_broadcast (&self->gate->changed);
  g_mutex_unlock (&self->gate->lock);
  ctx_cancel (self->ctx);
  for (guint i = 0; i < self->fetchers->len; i++)
    g_thread_join (g_ptr_array_index (self->fetchers, i));
  g_mutex_lock (&self->gate->lock);
  for (Window *window = g_queue_pop_head (&self->windows); window != NULL; window = g_queue_pop_head (&self->windows))
    drop_locked (self, window);
  g_cond_broadcast (&self->gate->changed);
  g_mutex_unlock (&self->gate->lock);
  g_ptr_array_unref (self->fetchers);
  ctx_unref (self->ctx);
  g_free (self);
}
