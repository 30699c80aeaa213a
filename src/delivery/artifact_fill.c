#include "delivery/artifact_fill.h"

#include <stdatomic.h>

#include "base/file.h"
#include "base/workers.h"
#include "delivery/archive_unpack.h"

#define N_FILES_AT_ONCE 3
#define MAX_UNPACKED_BYTES (64ull << 40)

typedef struct {
  const Artifact *artifact;
  GrowingDir *dir;
  FetchSource source;
  FetchCounts counts;
  GPtrArray *order;   /* ModelpackLayer, the small ones first */
  atomic_uint next;   /* of `order` */
  GHashTable *wanted; /* paths that may stay in the directory */
} Fill;

/* Name under which an archive layer waits to be unpacked. */
static char *
spool_name (const ModelpackLayer *layer)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  return g_strdup_printf (".layer-%.32s", digest_hex (&layer->descriptor->digest, hex));
}

static char *
layer_file_name (const ModelpackLayer *layer)
{
  return layer->codec == MODELPACK_RAW ? g_strdup (layer->path) : spool_name (layer);
}

static gboolean
fetch_layer (Ctx *ctx, Fill *self, const ModelpackLayer *layer, GError **error)
{
  g_autofree char *name = layer_file_name (layer);
  const char *shown = layer->path != NULL ? layer->path : name;
  am_autofd int fd = growing_dir_open_file (self->dir, name, error);
  if (fd < 0)
    return FALSE;
  transfer_file (self->source.events, shown);
  FetchCounts counts = { 0 };
  gboolean good = file_fetch (ctx, &self->source, &layer->descriptor->digest, layer->descriptor->size_bytes, fd,
                              shown, &counts, error);
  __atomic_add_fetch (&self->counts.kept_bytes, counts.kept_bytes, __ATOMIC_RELAXED);
  __atomic_add_fetch (&self->counts.local_bytes, counts.local_bytes, __ATOMIC_RELAXED);
  __atomic_add_fetch (&self->counts.moved_bytes, counts.moved_bytes, __ATOMIC_RELAXED);
  if (good)
    transfer_file_done (self->source.events, shown);
  return good;
}

/* A worker. */
static gboolean
fetch_layers (Ctx *ctx, gpointer data, GError **error)
{
  Fill *self = data;
  guint index;
  while ((index = atomic_fetch_add (&self->next, 1)) < self->order->len)
    if (!ctx_check (ctx, error) || !fetch_layer (ctx, self, self->order->pdata[index], error))
      return FALSE;
  return TRUE;
}

static int
by_size (gconstpointer a, gconstpointer b)
{
  const ModelpackLayer *x = *(ModelpackLayer *const *) a, *y = *(ModelpackLayer *const *) b;
  guint64 x_size = x->descriptor->size_bytes, y_size = y->descriptor->size_bytes;
  return x_size < y_size ? -1 : x_size > y_size;
}

/* What the directory may hold: in the end, and before that the archives as well. */
static void
list_wanted_files (Fill *self)
{
  self->wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->order = g_ptr_array_new ();
  for (guint i = 0; i < self->artifact->model->layers->len; i++)
    {
      ModelpackLayer *layer = &g_array_index (self->artifact->model->layers, ModelpackLayer, i);
      g_ptr_array_add (self->order, layer);
      g_hash_table_add (self->wanted, layer_file_name (layer));
    }
  g_ptr_array_sort (self->order, by_size);
}

static void
forget_archives (Fill *self)
{
  for (guint i = 0; i < self->order->len; i++)
    {
      const ModelpackLayer *layer = self->order->pdata[i];
      g_autofree char *name = spool_name (layer);
      if (layer->codec != MODELPACK_RAW)
        g_hash_table_remove (self->wanted, name);
    }
}

static gboolean
unpack_layer (Ctx *ctx, Fill *self, const ModelpackLayer *layer, PathSet *paths, GError **error)
{
  g_autofree char *name = spool_name (layer);
  int fd = growing_dir_open_file (self->dir, name, error);
  if (fd < 0)
    return FALSE;
  g_autoptr (Reader) reader = reader_new_fd (fd, name, error);
  return reader != NULL
         && archive_unpack (ctx, reader, layer->codec, MAX_UNPACKED_BYTES, self->dir, paths, self->wanted, error);
}

static gboolean
unpack_archives (Ctx *ctx, Fill *self, GError **error)
{
  GArray *layers = self->artifact->model->layers;
  g_autoptr (PathSet) paths = path_set_new ();
  for (guint i = 0; i < layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (layers, ModelpackLayer, i);
      if (layer->codec == MODELPACK_RAW && !path_set_add (paths, layer->path, FALSE, error))
        return FALSE;
    }
  for (guint i = 0; i < layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (layers, ModelpackLayer, i);
      if (layer->codec != MODELPACK_RAW && !unpack_layer (ctx, self, layer, paths, error))
        {
          g_prefix_error (error, "layer %s: ", layer->path != NULL ? layer->path : layer->descriptor->media_type);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
run (Ctx *ctx, Fill *self, GError **error)
{
  list_wanted_files (self);
  transfer_plan (self->source.events, self->artifact->total_bytes, self->order->len);
  if (!growing_dir_keep_only (self->dir, self->wanted, error)
      || !workers_run (ctx, N_FILES_AT_ONCE, fetch_layers, self, error) || !unpack_archives (ctx, self, error))
    return FALSE;
  forget_archives (self);
  return growing_dir_keep_only (self->dir, self->wanted, error) && ctx_check (ctx, error)
         && growing_dir_sync (self->dir, error);
}

gboolean
artifact_fill (Ctx *ctx, const Artifact *artifact, const FetchSource *source, GrowingDir *dir, FetchCounts *counts,
               guint *out_n_files, GError **error)
{
  GMutex heavy;
  g_mutex_init (&heavy);
  Fill self = { .artifact = artifact, .dir = dir, .source = *source };
  self.source.heavy = &heavy;
  atomic_init (&self.next, 0);
  gboolean good = run (ctx, &self, error);
  if (good)
    *out_n_files = g_hash_table_size (self.wanted);
  counts->kept_bytes += self.counts.kept_bytes;
  counts->local_bytes += self.counts.local_bytes;
  counts->moved_bytes += self.counts.moved_bytes;
  g_mutex_clear (&heavy);
  g_clear_pointer (&self.order, g_ptr_array_unref);
  g_clear_pointer (&self.wanted, g_hash_table_unref);
  return good;
}
