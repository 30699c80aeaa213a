#include "domain/copy_pace.h"

typedef struct {
  guint64 n_bytes;
  gint64 since_us, last_us;
} Pace;

struct CopyPace {
  GHashTable *paces; /* id -> Pace */
};

CopyPace *
copy_pace_new (void)
{
  CopyPace *self = g_new0 (CopyPace, 1);
  self->paces = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return self;
}

void
copy_pace_free (CopyPace *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->paces);
  g_free (self);
}

void
copy_pace_note (CopyPace *self, const char *id, guint64 n_bytes, gint64 now_us)
{
  Pace *pace = g_hash_table_lookup (self->paces, id);
  if (pace == NULL)
    {
      pace = g_new0 (Pace, 1);
      pace->since_us = now_us;
      g_hash_table_insert (self->paces, g_strdup (id), pace);
    }
  if (pace->n_bytes != n_bytes) /* fewer, too: the registry has begun to count anew */
    pace->since_us = now_us;
  pace->n_bytes = n_bytes;
  pace->last_us = now_us;
}

gint64
copy_pace_still_s (const CopyPace *self, const char *id)
{
  const Pace *pace = g_hash_table_lookup (self->paces, id);
  return pace != NULL ? (pace->last_us - pace->since_us) / G_USEC_PER_SEC : 0;
}

void
copy_pace_forget (CopyPace *self, gint64 then_us)
{
  GHashTableIter iter;
  gpointer pace;
  g_hash_table_iter_init (&iter, self->paces);
  while (g_hash_table_iter_next (&iter, NULL, &pace))
    if (((Pace *) pace)->last_us < then_us)
      g_hash_table_iter_remove (&iter);
}
