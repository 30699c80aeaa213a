#include "base/recent.h"

#include <string.h>

/* What an entry takes beside its name and value. */
#define ENTRY_BYTES 128

typedef struct {
  GBytes *value;
  gint64 put_us;
} Entry;

struct Recent {
  gsize max_bytes, n_bytes;
  gint64 max_age_ms;
  GMutex lock;
  GHashTable *entries; /* name -> Entry */
};

static void
entry_free (gpointer data)
{
  Entry *self = data;
  g_bytes_unref (self->value);
  g_free (self);
}

Recent *
recent_new (gsize max_bytes, gint64 max_age_ms)
{
  Recent *self = g_new0 (Recent, 1);
  self->max_bytes = max_bytes;
  self->max_age_ms = max_age_ms;
  g_mutex_init (&self->lock);
  self->entries = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, entry_free);
  return self;
}

void
recent_free (Recent *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->entries);
  g_mutex_clear (&self->lock);
  g_free (self);
}

GBytes *
recent_get (Recent *self, const char *name)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const Entry *entry = g_hash_table_lookup (self->entries, name);
  if (entry == NULL || (self->max_age_ms >= 0 && g_get_monotonic_time () - entry->put_us > self->max_age_ms * 1000))
    return NULL;
  return g_bytes_ref (entry->value);
}

static gsize
cost (const char *name, GBytes *value)
{
  return ENTRY_BYTES + strlen (name) + g_bytes_get_size (value);
}

void
recent_put (Recent *self, const char *name, GBytes *value)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const Entry *old = g_hash_table_lookup (self->entries, name);
  gsize n_bytes = cost (name, value);
  if (old != NULL)
    self->n_bytes -= cost (name, old->value);
  if (n_bytes > self->max_bytes - self->n_bytes)
    {
      g_hash_table_remove_all (self->entries);
      self->n_bytes = 0;
    }
  if (n_bytes > self->max_bytes)
    return;
  Entry *entry = g_new0 (Entry, 1);
  *entry = (Entry){ g_bytes_ref (value), g_get_monotonic_time () };
  g_hash_table_replace (self->entries, g_strdup (name), entry);
  self->n_bytes += n_bytes;
}

void
recent_clear (Recent *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_remove_all (self->entries);
  self->n_bytes = 0;
}
