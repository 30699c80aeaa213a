#include "delivery/pull.h"

#include <stdatomic.h>

#include "base/file.h"
#include "base/workers.h"
#include "delivery/archive_unpack.h"
#include "delivery/directory_check.h"
#include "delivery/file_fetch.h"
#include "delivery/staging.h"

#define N_FILES_AT_ONCE 3
#define MAX_UNPACKED_BYTES (64ull << 40)

typedef struct {
  Repository *repository;
  const Artifact *artifact;
  const PullOptions *options;
  Staging *staging;
  FetchSource source;
  FetchCounts counts;
  GPtrArray *order;   /* ModelpackLayer, the small ones first */
  atomic_uint next;   /* of `order` */
  GHashTable *wanted; /* paths that may stay in the staging directory */
} Pull;

void
pull_result_clear (PullResult *self)
{
  g_clear_pointer (&self->directory, g_free);
}

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
fetch_layer (Ctx *ctx, Pull *self, const ModelpackLayer *layer, GError **error)
{
  g_autofree char *name = layer_file_name (layer);
  const char *shown = layer->path != NULL ? layer->path : name;
  am_autofd int fd = staging_open_file (self->staging, name, error);
  if (fd < 0)
    return FALSE;
  transfer_file (self->options->events, shown);
  FetchCounts counts = { 0 };
  gboolean good = file_fetch (ctx, &self->source, &layer->descriptor->digest, layer->descriptor->size_bytes, fd,
                              shown, &counts, error);
  __atomic_add_fetch (&self->counts.kept_bytes, counts.kept_bytes, __ATOMIC_RELAXED);
  __atomic_add_fetch (&self->counts.local_bytes, counts.local_bytes, __ATOMIC_RELAXED);
  __atomic_add_fetch (&self->counts.moved_bytes, counts.moved_bytes, __ATOMIC_RELAXED);
  if (good)
    transfer_file_done (self->options->events, shown);
  return good;
}

/* A worker. */
static gboolean
fetch_layers (Ctx *ctx, gpointer data, GError **error)
{
  Pull *self = data;
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

/* What may be in the staging directory before it is published. */
static void
list_wanted_files (Pull *self)
{
  self->wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->order = g_ptr_array_new ();
  for (guint i = 0; i < self->artifact->model->layers->len; i++)
    {
      ModelpackLayer *layer = &g_array_index (self->artifact->model->layers, ModelpackLayer, i);
      g_ptr_array_add (self->order, layer);
      if (layer->codec == MODELPACK_RAW)
        g_hash_table_add (self->wanted, g_strdup (layer->path));
    }
  g_ptr_array_sort (self->order, by_size);
}

static gboolean
unpack_layer (Ctx *ctx, Pull *self, const ModelpackLayer *layer, PathSet *paths, GError **error)
{
  g_autofree char *name = spool_name (layer);
  int fd = staging_open_file (self->staging, name, error);
  if (fd < 0)
    return FALSE;
  g_autoptr (Reader) reader = reader_new_fd (fd, name, error);
  return reader != NULL
         && archive_unpack (ctx, reader, layer->codec, MAX_UNPACKED_BYTES, self->staging, paths, self->wanted, error);
}

static gboolean
unpack_archives (Ctx *ctx, Pull *self, GError **error)
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
fill_staging (Ctx *ctx, Pull *self, GError **error)
{
  if (!staging_begin (self->staging, error)
      || !staging_check_space (self->staging, self->artifact->total_bytes, error))
    return FALSE;
  transfer_plan (self->options->events, self->artifact->total_bytes, self->order->len);
  return workers_run (ctx, N_FILES_AT_ONCE, fetch_layers, self, error) && unpack_archives (ctx, self, error)
         && staging_keep_only (self->staging, self->wanted, error) && ctx_check (ctx, error)
         && staging_publish (self->staging, error);
}

/* TRUE with *out_done when the directory holds the artifact already; FALSE when it holds something else and
 * must be kept. */
static gboolean
judge_target (Ctx *ctx, Pull *self, gboolean *out_done, GError **error)
{
  const char *target = staging_target (self->staging);
  *out_done = FALSE;
  if (staging_target_state (self->staging) != TARGET_FULL)
    return TRUE;
  if (!directory_holds_artifact (ctx, target, self->artifact, self->options->events, out_done, error))
    return FALSE;
  if (*out_done || self->options->force)
    return TRUE;
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "DirectoryInUse", "%s holds something else already", target);
}

static gboolean
run (Ctx *ctx, Pull *self, PullResult *out_result, GError **error)
{
  gboolean was_there = FALSE;
  list_wanted_files (self);
  if (!judge_target (ctx, self, &was_there, error) || (!was_there && !fill_staging (ctx, self, error)))
    return FALSE;
  *out_result = (PullResult){
    .directory = g_strdup (staging_target (self->staging)),
    .was_there = was_there,
    .n_files = g_hash_table_size (self->wanted),
    .logical_bytes = self->artifact->total_bytes,
    .kept_bytes = was_there ? self->artifact->total_bytes : self->counts.kept_bytes,
    .local_bytes = self->counts.local_bytes,
    .moved_bytes = self->counts.moved_bytes,
  };
  return TRUE;
}

gboolean
pull_artifact (Ctx *ctx, Repository *repository, const Artifact *artifact, const PullOptions *options,
               PullResult *out_result, GError **error)
{
  g_autoptr (Staging) staging = staging_new (options->directory, &artifact->digest, error);
  GMutex heavy;
  if (staging == NULL)
    return FALSE;
  g_mutex_init (&heavy);
  Pull self = {
    .repository = repository,
    .artifact = artifact,
    .options = options,
    .staging = staging,
    .source = { repository, repository->is_local ? NULL : options->local, options->events, &heavy },
  };
  atomic_init (&self.next, 0);
  gboolean good = run (ctx, &self, out_result, error);
  g_mutex_clear (&heavy);
  g_clear_pointer (&self.order, g_ptr_array_unref);
  g_clear_pointer (&self.wanted, g_hash_table_unref);
  return good;
}
