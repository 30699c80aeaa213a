#include "storage/chunk_hint.h"

#include <string.h>

#include "storage/blob_store.h"
#include "storage/chunk_frame.h"

#define N_PAGES_AT_ONCE 2
/* A listing is believed for so long, and longer the more it costs. */
#define MIN_AGE_US (60 * G_USEC_PER_SEC)
#define AGE_PER_PAGE_US (5 * G_USEC_PER_SEC)
#define MIN_SLOTS 1024u
#define MAX_SLOTS (1u << 23) /* 32 MiB, about 4 million chunks: 32 TiB */

/* Open addressing; 0 is an empty slot. */
typedef struct {
  guint32 *slots;
  guint n_slots, n_used;
} Set;

struct ChunkHint {
  GMutex lock;
  Set set;
  gboolean is_complete; /* the store was listed once to the end */
  gboolean is_listing;  /* by some thread, now */
  gboolean is_full;
  char *cursor; /* of the listing under way; NULL: none is */
  guint n_pages;
  gint64 listed_us; /* when it ended */
};

ChunkHint *
chunk_hint_new (void)
{
  ChunkHint *self = g_new0 (ChunkHint, 1);
  g_mutex_init (&self->lock);
  self->set = (Set){ g_new0 (guint32, MIN_SLOTS), MIN_SLOTS, 0 };
  return self;
}

void
chunk_hint_free (ChunkHint *self)
{
  if (self == NULL)
    return;
  g_mutex_clear (&self->lock);
  g_free (self->set.slots);
  g_free (self->cursor);
  g_free (self);
}

static guint32
short_form (const guint8 digest[32])
{
  guint32 value;
  memcpy (&value, digest, sizeof value);
  return value != 0 ? value : 1;
}

/* Where it is, or where it belongs. */
static guint32 *
find_slot (const Set *self, guint32 value)
{
  guint at = value & (self->n_slots - 1);
  while (self->slots[at] != 0 && self->slots[at] != value)
    at = (at + 1) & (self->n_slots - 1);
  return &self->slots[at];
}

static void
grow (Set *self)
{
  Set larger = { g_new0 (guint32, 2 * self->n_slots), 2 * self->n_slots, self->n_used };
  for (guint i = 0; i < self->n_slots; i++)
    if (self->slots[i] != 0)
      *find_slot (&larger, self->slots[i]) = self->slots[i];
  g_free (self->slots);
  *self = larger;
}

/* Under the lock. */
static void
add (ChunkHint *self, const guint8 digest[32])
{
  Set *set = &self->set;
  guint32 value = short_form (digest);
  guint32 *slot = find_slot (set, value);
  if (self->is_full || *slot == value)
    return;
  if (2 * set->n_used >= set->n_slots && set->n_slots == MAX_SLOTS)
    {
      self->is_full = TRUE;
      return;
    }
  *slot = value;
  if (2 * ++set->n_used > set->n_slots && set->n_slots < MAX_SLOTS)
    grow (set);
}

void
chunk_hint_add (ChunkHint *self, const guint8 digest[32])
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  add (self, digest);
}

gboolean
chunk_hint_surely_lacks (ChunkHint *self, const guint8 digest[32])
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return self->is_complete && !self->is_full && *find_slot (&self->set, short_form (digest)) == 0;
}

/* Whether a listing has to go on, and takes it. */
static gboolean
take_listing (ChunkHint *self, char **out_cursor)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gint64 age_us = g_get_monotonic_time () - self->listed_us;
  gboolean is_due = self->cursor != NULL || !self->is_complete
                    || age_us > MIN_AGE_US + self->n_pages * AGE_PER_PAGE_US;
  if (self->is_listing || self->is_full || !is_due)
    return FALSE;
  if (self->cursor == NULL)
    self->n_pages = 0;
  self->is_listing = TRUE;
  *out_cursor = g_steal_pointer (&self->cursor);
  return TRUE;
}

static void
take_page (ChunkHint *self, const GPtrArray *page)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  for (guint i = 0; i < page->len; i++)
    {
      guint8 digest[CHUNK_DIGEST_SIZE];
      const char *key = ((const ObjectInfo *) g_ptr_array_index (page, i))->key;
      if (chunk_digest_parse_hex (strrchr (key, '/') + 1, digest))
        add (self, digest);
    }
  self->n_pages++;
}

/* Gives the listing back where it stands. A failed one begins anew: its cursor may be what is wrong. */
static void
end_listing (ChunkHint *self, char *cursor, gboolean done)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->is_listing = FALSE;
  if (done && cursor == NULL)
    {
      self->is_complete = TRUE;
      self->listed_us = g_get_monotonic_time ();
    }
  if (done)
    self->cursor = cursor;
  else
    g_free (cursor);
}

gboolean
chunk_hint_refresh (Ctx *ctx, ChunkHint *self, ObjectStore *objects, GError **error)
{
  char *cursor = NULL;
  gboolean done = TRUE;
  if (!take_listing (self, &cursor))
    return TRUE;
  for (guint i = 0; done && i < N_PAGES_AT_ONCE && (i == 0 || cursor != NULL); i++)
    {
      g_autoptr (GPtrArray) page = object_store_list_any (ctx, objects, CHUNKS_PREFIX, &cursor, error);
      done = page != NULL;
      if (done)
        take_page (self, page);
    }
  end_listing (self, cursor, done);
  return done;
}
