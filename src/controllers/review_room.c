#include "controllers/review_room.h"

struct ReviewRoom {
  gsize max_bytes, max_bytes_per_peer;
  GMutex lock; /* the rest */
  gsize n_bytes;
  GHashTable *peers; /* address -> its bytes; none is at 0 */
};

ReviewRoom *
review_room_new (gsize max_bytes, gsize max_bytes_per_peer)
{
  ReviewRoom *self = g_new0 (ReviewRoom, 1);
  self->max_bytes = max_bytes;
  self->max_bytes_per_peer = max_bytes_per_peer;
  g_mutex_init (&self->lock);
  self->peers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  return self;
}

void
review_room_free (ReviewRoom *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->peers);
  g_mutex_clear (&self->lock);
  g_free (self);
}

static gsize
bytes_of_locked (ReviewRoom *self, const char *peer)
{
  return GPOINTER_TO_SIZE (g_hash_table_lookup (self->peers, peer));
}

static void
set_bytes_locked (ReviewRoom *self, const char *peer, gsize n_bytes)
{
  if (n_bytes == 0)
    g_hash_table_remove (self->peers, peer);
  else
    g_hash_table_replace (self->peers, g_strdup (peer), GSIZE_TO_POINTER (n_bytes));
}

gboolean
review_room_take (ReviewRoom *self, const char *peer, gsize n_bytes, GError **error)
{
  if (n_bytes == 0)
    return TRUE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gsize of_peer = bytes_of_locked (self, peer);
  if (n_bytes > self->max_bytes - self->n_bytes)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "too many reviews at a time");
  if (n_bytes > self->max_bytes_per_peer - of_peer)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "too many reviews at a time from this address");
  self->n_bytes += n_bytes;
  set_bytes_locked (self, peer, of_peer + n_bytes);
  return TRUE;
}

void
review_room_give_back (ReviewRoom *self, const char *peer, gsize n_bytes)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gsize of_peer = bytes_of_locked (self, peer);
  g_assert (of_peer >= n_bytes);
  self->n_bytes -= n_bytes;
  set_bytes_locked (self, peer, of_peer - n_bytes);
}
