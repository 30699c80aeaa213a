#include "storage/chunk_ahead.h"

#include "storage/chunk_reader.h"

/* Of one chunk, repetitions included. */
#define FETCH_TIMEOUT_MS 120000
#define LOOK_EVERY_US 50000

typedef struct {
  ChunkAhead *ahead;
  guint entry;
  GThread *thread;
  gboolean is_done; /* under the lock, as what follows */
  Reader *frame;
  ChunkHeader header;
  GError *error;
} Fetch;

struct ChunkAhead {
  ObjectStore *objects;
  const GArray *entries;
  guint end, n_ahead;
  guint next;     /* the entry that continues what was read in order; G_MAXUINT: none does */
  GQueue fetches; /* Fetch, in the order of their entries, which are neighbours */
  Ctx *ctx;       /* of the fetches: they serve whichever request comes next */
  GMutex lock;
  GCond done;
};

ChunkAhead *
chunk_ahead_new (BlobStore *blobs, const Recipe *recipe, guint first, guint end, guint n_ahead)
{
  ChunkAhead *self = g_new0 (ChunkAhead, 1);
  self->objects = blob_store_objects (blobs);
  self->entries = recipe->entries;
  self->end = end;
  self->n_ahead = object_store_is_far (self->objects) ? n_ahead : 0;
  self->next = first;
  self->ctx = ctx_new ();
  g_queue_init (&self->fetches);
  g_mutex_init (&self->lock);
  g_cond_init (&self->done);
  return self;
}

static void
fetch_free (gpointer data)
{
  Fetch *self = data;
  g_thread_join (self->thread);
  reader_free (self->frame);
  g_clear_error (&self->error);
  g_free (self);
}

static void
drop_all (ChunkAhead *self)
{
  ctx_cancel (self->ctx);
  g_queue_clear_full (&self->fetches, fetch_free);
  ctx_unref (self->ctx);
  self->ctx = ctx_new ();
}

void
chunk_ahead_free (ChunkAhead *self)
{
  if (self == NULL)
    return;
  drop_all (self);
  ctx_unref (self->ctx);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->done);
  g_free (self);
}

static const RecipeEntry *
entry_at (const ChunkAhead *self, guint entry)
{
  return &g_array_index (self->entries, RecipeEntry, entry);
}

static gpointer
fetch_thread (gpointer data)
{
  Fetch *self = data;
  ChunkAhead *ahead = self->ahead;
  g_autoptr (Ctx) ctx = ctx_new_child (ahead->ctx, FETCH_TIMEOUT_MS);
  ChunkHeader header = { 0 };
  GError *error = NULL;
  Reader *frame = chunk_object_open (ctx, ahead->objects, entry_at (ahead, self->entry)->digest, &header, &error);
  g_mutex_lock (&ahead->lock);
  self->frame = frame;
  self->header = header;
  self->error = error;
  self->is_done = TRUE;
  g_cond_broadcast (&ahead->done);
  g_mutex_unlock (&ahead->lock);
  return NULL;
}

static void
fetch_ahead (ChunkAhead *self)
{
  const Fetch *last = g_queue_peek_tail (&self->fetches);
  guint entry = last != NULL ? last->entry + 1 : self->next;
  while (self->fetches.length < self->n_ahead && entry < self->end)
    {
      Fetch *fetch = g_new0 (Fetch, 1);
      *fetch = (Fetch){ .ahead = self, .entry = entry++ };
      g_queue_push_tail (&self->fetches, fetch);
      fetch->thread = g_thread_new ("chunk", fetch_thread, fetch);
    }
}

/* Waits for the first of the fetches and takes what it brought. */
static Reader *
take_fetched (Ctx *ctx, ChunkAhead *self, ChunkHeader *out_header, GError **error)
{
  Fetch *fetch = g_queue_peek_head (&self->fetches);
  gboolean goes_on = TRUE;
  g_mutex_lock (&self->lock);
  while (!fetch->is_done && (goes_on = ctx_check (ctx, error)))
    g_cond_wait_until (&self->done, &self->lock, g_get_monotonic_time () + LOOK_EVERY_US);
  g_mutex_unlock (&self->lock);
  if (!goes_on)
    return NULL;
  g_queue_pop_head (&self->fetches);
  Reader *frame = g_steal_pointer (&fetch->frame);
  *out_header = fetch->header;
  if (frame == NULL)
    g_propagate_error (error, g_steal_pointer (&fetch->error));
  fetch_free (fetch);
  return frame;
}

Reader *
chunk_ahead_open (Ctx *ctx, ChunkAhead *self, guint entry, ChunkHeader *out_header, GError **error)
{
  const Fetch *first = g_queue_peek_head (&self->fetches);
  gboolean is_fetched = first != NULL && first->entry == entry;
  gboolean in_order = entry == self->next;
  if (first != NULL && !is_fetched)
    drop_all (self);
  self->next = entry + 1;
  if (in_order && !is_fetched)
    fetch_ahead (self); /* beside the one that is wanted now */
  if (!is_fetched)
    return chunk_object_open (ctx, self->objects, entry_at (self, entry)->digest, out_header, error);
  Reader *frame = take_fetched (ctx, self, out_header, error);
  if (frame != NULL)
    fetch_ahead (self);
  return frame;
}
