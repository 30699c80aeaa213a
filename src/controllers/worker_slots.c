#include "controllers/worker_slots.h"

struct WorkerSlots {
  GMutex lock;
  guint max_workers;
  GHashTable *active; /* names of Pods */
  GQueue line;        /* char *, keys */
  GHashTable *places; /* key -> its GList in `line` */
  GHashTable *called; /* keys whose turn it is */
};

WorkerSlots *
worker_slots_new (guint max_workers)
{
  WorkerSlots *self = g_new0 (WorkerSlots, 1);
  g_mutex_init (&self->lock);
  self->max_workers = max_workers;
  self->active = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->places = g_hash_table_new (g_str_hash, g_str_equal);
  self->called = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  return self;
}

void
worker_slots_free (WorkerSlots *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->places);
  g_hash_table_unref (self->called);
  g_hash_table_unref (self->active);
  g_queue_clear_full (&self->line, g_free);
  g_mutex_clear (&self->lock);
  g_free (self);
}

gboolean
worker_slots_claim (WorkerSlots *self, const char *pod)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (g_hash_table_contains (self->active, pod))
    return TRUE;
  if (g_hash_table_size (self->active) >= self->max_workers)
    return FALSE;
  g_hash_table_add (self->active, g_strdup (pod));
  return TRUE;
}

void
worker_slots_set (WorkerSlots *self, const char *pod, gboolean is_active)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (is_active)
    g_hash_table_add (self->active, g_strdup (pod));
  else
    g_hash_table_remove (self->active, pod);
}

guint
worker_slots_active (WorkerSlots *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return g_hash_table_size (self->active);
}

void
worker_slots_wait (WorkerSlots *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_remove (self->called, key);
  if (g_hash_table_contains (self->places, key))
    return;
  g_queue_push_tail (&self->line, g_strdup (key));
  g_hash_table_insert (self->places, self->line.tail->data, self->line.tail);
}

static char *
take_locked (WorkerSlots *self, GList *place)
{
  char *key = place->data;
  g_hash_table_remove (self->places, key);
  g_queue_delete_link (&self->line, place);
  return key;
}

void
worker_slots_leave (WorkerSlots *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  GList *place = g_hash_table_lookup (self->places, key);
  g_hash_table_remove (self->called, key);
  if (place != NULL)
    g_free (take_locked (self, place));
}

char *
worker_slots_call (WorkerSlots *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  guint n_taken = g_hash_table_size (self->active) + g_hash_table_size (self->called);
  if (self->line.head == NULL || n_taken >= self->max_workers)
    return NULL;
  char *key = take_locked (self, self->line.head);
  g_hash_table_add (self->called, g_strdup (key));
  return key;
}
