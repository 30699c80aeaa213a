#include "kube/work_queue.h"

#define BASE_DELAY_MS 100
#define MAX_DELAY_MS (5 * 60 * 1000)
#define FIRST_IN_A_ROW 32u
#define POLL_MS (60 * 1000) /* unless the queue is shut down: how late a context's cancellation may be noticed */

typedef struct {
  char *key;
  gboolean queued, working, again; /* waits for a worker; one has it; was added meanwhile */
  gboolean is_first;               /* comes before others, or will then */
  GSequenceIter *later;            /* in `delayed`, or NULL */
  gint64 due_us;
  guint n_failures;
} Entry;

struct WorkQueue {
  GMutex lock;
  GCond changed;
  WorkQueueConfig config;
  GHashTable *entries; /* key -> Entry: what waits, is worked on, is due later, or has failed */
  GQueue first, ready; /* Entry */
  guint n_in_a_row;    /* of `first` */
  GSequence *delayed;  /* Entry, the earliest first */
  gboolean is_shut_down;
};

static void
entry_free (gpointer data)
{
  Entry *entry = data;
  g_free (entry->key);
  g_free (entry);
}

WorkQueue *
work_queue_new (const WorkQueueConfig *config)
{
  WorkQueue *self = g_new0 (WorkQueue, 1);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->config.base_delay_ms = config != NULL && config->base_delay_ms > 0 ? config->base_delay_ms : BASE_DELAY_MS;
  self->config.max_delay_ms = config != NULL && config->max_delay_ms > 0 ? config->max_delay_ms : MAX_DELAY_MS;
  self->entries = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, entry_free);
  self->delayed = g_sequence_new (NULL);
  return self;
}

void
work_queue_free (WorkQueue *self)
{
  if (self == NULL)
    return;
  g_queue_clear (&self->first);
  g_queue_clear (&self->ready);
  g_sequence_free (self->delayed);
  g_hash_table_unref (self->entries);
  g_cond_clear (&self->changed);
  g_mutex_clear (&self->lock);
  g_free (self);
}

static Entry *
get_entry_locked (WorkQueue *self, const char *key)
{
  Entry *entry = g_hash_table_lookup (self->entries, key);
  if (entry != NULL)
    return entry;
  entry = g_new0 (Entry, 1);
  entry->key = g_strdup (key);
  g_hash_table_insert (self->entries, entry->key, entry);
  return entry;
}

static void
drop_if_idle_locked (WorkQueue *self, Entry *entry)
{
  if (!entry->queued && !entry->working && entry->later == NULL && entry->n_failures == 0)
    g_hash_table_remove (self->entries, entry->key);
}

static void
cancel_delay_locked (Entry *entry)
{
  if (entry->later != NULL)
    g_sequence_remove (entry->later);
  entry->later = NULL;
}

static void
enqueue_locked (WorkQueue *self, Entry *entry)
{
  cancel_delay_locked (entry);
  if (entry->working)
    entry->again = TRUE;
  else if (!entry->queued)
    {
      entry->queued = TRUE;
      g_queue_push_tail (entry->is_first ? &self->first : &self->ready, entry);
    }
  g_cond_signal (&self->changed);
}

static int
compare_due (gconstpointer a, gconstpointer b, gpointer data)
{
  const Entry *one = a, *other = b;
  return one->due_us < other->due_us ? -1 : one->due_us > other->due_us;
}

static void
delay_locked (WorkQueue *self, Entry *entry, gint64 delay_ms)
{
  gint64 due_us = g_get_monotonic_time () + delay_ms * 1000;
  if (delay_ms <= 0)
    {
      enqueue_locked (self, entry);
      return;
    }
  if (entry->queued || entry->again || (entry->later != NULL && entry->due_us <= due_us))
    return;
  cancel_delay_locked (entry);
  entry->due_us = due_us;
  entry->later = g_sequence_insert_sorted (self->delayed, entry, compare_due, NULL);
  g_cond_signal (&self->changed); /* someone may sleep for too long now */
}

void
work_queue_add (WorkQueue *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  enqueue_locked (self, get_entry_locked (self, key));
}

void
work_queue_add_first (WorkQueue *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Entry *entry = get_entry_locked (self, key);
  if (entry->queued && !entry->is_first)
    {
      g_queue_remove (&self->ready, entry);
      entry->queued = FALSE;
    }
  entry->is_first = TRUE;
  enqueue_locked (self, entry);
}

void
work_queue_add_after (WorkQueue *self, const char *key, gint64 delay_ms)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  delay_locked (self, get_entry_locked (self, key), delay_ms);
}

void
work_queue_add_failed (WorkQueue *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Entry *entry = get_entry_locked (self, key);
  gint64 delay_ms = self->config.base_delay_ms << MIN (entry->n_failures, 20);
  entry->n_failures++;
  delay_locked (self, entry, MIN (delay_ms, self->config.max_delay_ms));
}

void
work_queue_forget (WorkQueue *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Entry *entry = g_hash_table_lookup (self->entries, key);
  if (entry == NULL)
    return;
  entry->n_failures = 0;
  drop_if_idle_locked (self, entry);
}

/* Queues what is due; when the next will be, or G_MAXINT64. */
static gint64
take_due_locked (WorkQueue *self)
{
  gint64 now_us = g_get_monotonic_time ();
  while (!g_sequence_is_empty (self->delayed))
    {
      Entry *entry = g_sequence_get (g_sequence_get_begin_iter (self->delayed));
      if (entry->due_us > now_us)
        return entry->due_us;
      enqueue_locked (self, entry);
    }
  return G_MAXINT64;
}

static Entry *
take_ready_locked (WorkQueue *self)
{
  gboolean is_first = self->ready.length == 0 || (self->first.length > 0 && self->n_in_a_row < FIRST_IN_A_ROW);
  Entry *entry = g_queue_pop_head (is_first ? &self->first : &self->ready);
  self->n_in_a_row = is_first ? self->n_in_a_row + 1 : 0;
  if (entry == NULL)
    return NULL;
  entry->queued = entry->is_first = FALSE;
  entry->working = TRUE;
  return entry;
}

char *
work_queue_get (WorkQueue *self, Ctx *ctx)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  while (!self->is_shut_down && ctx_check (ctx, NULL))
    {
      gint64 next_us = take_due_locked (self);
      Entry *entry = take_ready_locked (self);
      if (entry != NULL)
        return g_strdup (entry->key);
      gint64 wait_ms = MIN (POLL_MS, ctx_remaining_ms (ctx));
      g_cond_wait_until (&self->changed, &self->lock, MIN (next_us, g_get_monotonic_time () + wait_ms * 1000));
    }
  return NULL;
}

void
work_queue_done (WorkQueue *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Entry *entry = g_hash_table_lookup (self->entries, key);
  g_return_if_fail (entry != NULL && entry->working);
  gboolean again = entry->again;
  entry->working = entry->again = FALSE;
  if (again)
    enqueue_locked (self, entry);
  else
    drop_if_idle_locked (self, entry);
}

void
work_queue_shut_down (WorkQueue *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->is_shut_down = TRUE;
  g_cond_broadcast (&self->changed);
}

guint
work_queue_length (WorkQueue *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  take_due_locked (self);
  return self->first.length + self->ready.length;
}
