#include "delivery/range_reader.h"

#include <string.h>

#include "base/log.h"
#include "storage/chunk_frame.h"

#define HEADER_BLOCK_BYTES (256u << 10)
#define HEADER_SLOTS 8
#define COPY_BLOCK_BYTES (8u << 20)
#define WINDOW_CHUNKS 4

/* By ranges. */

typedef struct {
  guint8 *bytes; /* NULL: empty */
  guint64 start_bytes;
  gsize size;
  guint64 used; /* the larger, the later */
} Slot;

typedef struct {
  Reader base;
  Repository *repository;
  Digest digest;
  gsize block_bytes;
  guint n_slots;
  Slot slots[HEADER_SLOTS];
  guint64 clock;
} RangeReader;

static gboolean
fill_slot (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Slot *slot = data;
  memcpy (slot->bytes + slot->size, bytes, size);
  slot->size += size;
  return TRUE;
}

static Slot *
load_block (Ctx *ctx, RangeReader *self, guint64 start_bytes, GError **error)
{
  Slot *slot = &self->slots[0];
  for (guint i = 0; i < self->n_slots; i++)
    {
      if (self->slots[i].size > 0 && self->slots[i].start_bytes == start_bytes)
        {
          self->slots[i].used = ++self->clock;
          return &self->slots[i];
        }
      if (self->slots[i].used < slot->used)
        slot = &self->slots[i];
    }
  gsize size = (gsize) MIN ((guint64) self->block_bytes, self->base.size_bytes - start_bytes);
  if (slot->bytes == NULL)
    slot->bytes = g_malloc (self->block_bytes);
  slot->size = 0;
  slot->start_bytes = start_bytes;
  slot->used = ++self->clock;
  if (repository_read_blob (ctx, self->repository, &self->digest, start_bytes, size, fill_slot, slot, error))
    return slot;
  slot->size = 0;
  return NULL;
}

static gboolean
range_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  RangeReader *self = (RangeReader *) base;
  for (guint8 *out = buffer; size > 0;)
    {
      guint64 start = offset_bytes - offset_bytes % self->block_bytes;
      Slot *slot = load_block (ctx, self, start, error);
      if (slot == NULL)
        return FALSE;
      gsize skip = (gsize) (offset_bytes - start), n = MIN (size, slot->size - skip);
      memcpy (out, slot->bytes + skip, n);
      out += n;
      offset_bytes += n;
      size -= n;
    }
  return TRUE;
}

static void
range_free (Reader *base)
{
  RangeReader *self = (RangeReader *) base;
  for (guint i = 0; i < self->n_slots; i++)
    g_free (self->slots[i].bytes);
  g_free (self);
}

static const ReaderClass range_class = { range_read_at, range_free };

static Reader *
new_range (Repository *repository, const Digest *digest, guint64 size_bytes, gsize block_bytes, guint n_slots)
{
  RangeReader *self = g_new0 (RangeReader, 1);
  self->base = (Reader){ &range_class, size_bytes };
  self->repository = repository;
  self->digest = *digest;
  self->block_bytes = block_bytes;
  self->n_slots = n_slots;
  return &self->base;
}

Reader *
range_reader_new (Repository *repository, const Digest *digest, guint64 size_bytes)
{
  return new_range (repository, digest, size_bytes, HEADER_BLOCK_BYTES, HEADER_SLOTS);
}

/* By chunks: a window of neighbouring ones is fetched at once, those of the local store copied. */

typedef struct {
  Reader base;
  Repository *repository;
  BlobStore *local;
  Recipe *recipe;
  guint first, n_chunks; /* of the recipe, in the window */
  guint8 *buffers[WINDOW_CHUNKS];
} ChunkReader;

static gboolean
take_chunk (Ctx *ctx, gpointer data, guint64 offset_bytes, const guint8 *bytes, gsize size, GError **error)
{
  ChunkReader *self = data;
  guint index = recipe_find (self->recipe, offset_bytes);
  g_assert (index >= self->first && index < self->first + WINDOW_CHUNKS && size <= CHUNK_MAX_BYTES);
  memcpy (self->buffers[index - self->first], bytes, size);
  return TRUE;
}

static gboolean
copy_from_local (Ctx *ctx, ChunkReader *self, guint index)
{
  g_autoptr (GError) damage = NULL;
  gboolean has = FALSE;
  const RecipeEntry *entry = &g_array_index (self->recipe->entries, RecipeEntry, index);
  gssize n = -1;
  if (self->local != NULL && blob_store_has_chunk (ctx, self->local, entry->digest, &has, &damage) && has)
    n = blob_store_read_chunk (ctx, self->local, entry->digest, self->buffers[index - self->first], &damage);
  am_ignore (&damage, "the chunk is fetched instead");
  return n == (gssize) entry->decoded_size;
}

static gboolean
load_window (Ctx *ctx, ChunkReader *self, guint first, GError **error)
{
  g_autofree guint8 *wanted = g_malloc0 (self->recipe->entries->len + 1);
  guint n_wanted = 0;
  self->first = first;
  self->n_chunks = 0; /* until the window is whole */
  for (guint i = 0; i < WINDOW_CHUNKS && first + i < self->recipe->entries->len; i++)
    {
      if (self->buffers[i] == NULL)
        self->buffers[i] = g_malloc (CHUNK_MAX_BYTES);
      wanted[first + i] = !copy_from_local (ctx, self, first + i);
      n_wanted += wanted[first + i];
    }
  if (n_wanted > 0
      && !repository_read_chunks (ctx, self->repository, self->recipe, wanted, take_chunk, NULL, self, error))
    return FALSE;
  self->n_chunks = MIN (WINDOW_CHUNKS, self->recipe->entries->len - first);
  return TRUE;
}

static gboolean
chunk_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  ChunkReader *self = (ChunkReader *) base;
  for (guint8 *out = buffer; size > 0;)
    {
      guint index = recipe_find (self->recipe, offset_bytes);
      if ((index < self->first || index >= self->first + self->n_chunks) && !load_window (ctx, self, index, error))
        return FALSE;
      guint64 skip = offset_bytes - self->recipe->starts[index];
      gsize n = (gsize) MIN ((guint64) size, self->recipe->starts[index + 1] - offset_bytes);
      memcpy (out, self->buffers[index - self->first] + skip, n);
      out += n;
      offset_bytes += n;
      size -= n;
    }
  return TRUE;
}

static void
chunk_free (Reader *base)
{
  ChunkReader *self = (ChunkReader *) base;
  for (guint i = 0; i < WINDOW_CHUNKS; i++)
    g_free (self->buffers[i]);
  recipe_free (self->recipe);
  g_free (self);
}

static const ReaderClass chunk_class = { chunk_read_at, chunk_free };

Reader *
copy_reader_new (Ctx *ctx, Repository *repository, const Digest *digest, guint64 size_bytes, BlobStore *local,
                 GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (Recipe) recipe = repository_get_recipe (ctx, repository, digest, &problem);
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  if (recipe == NULL)
    return new_range (repository, digest, size_bytes, COPY_BLOCK_BYTES, 1);
  if (recipe->blob_size != size_bytes)
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "SIZE_INVALID",
                         "the manifest says %" G_GUINT64_FORMAT " bytes, the store has %" G_GUINT64_FORMAT,
                         size_bytes, recipe->blob_size);
  ChunkReader *self = g_new0 (ChunkReader, 1);
  self->base = (Reader){ &chunk_class, size_bytes };
  self->repository = repository;
  self->local = repository->is_local ? NULL : local;
  self->recipe = g_steal_pointer (&recipe);
  return &self->base;
}
