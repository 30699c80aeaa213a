#include "publish/publish.h"

#include <string.h>

#include "base/text.h"

#define LOADED_FILE_LIMIT_BYTES (256u << 20) /* a shard index; formats-safetensors-diffusers.md 2 */
#define N_PARALLEL_FILES 2

typedef struct {
  Ctx *ctx;
  LocalSource *source;
} Loader;

static GBytes *
load_file (const char *path, gpointer data, GError **error)
{
  const Loader *loader = data;
  g_autoptr (Reader) reader = local_source_reader (loader->source, path, error);
  if (reader == NULL)
    return NULL;
  if (reader->size_bytes > LOADED_FILE_LIMIT_BYTES)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, "FormatLimitExceeded", "%s is too large for what it is",
                         path);
  return reader_read_all (loader->ctx, reader, error);
}

/* An archive is unpacked once it is known what of it is wanted. */
static gboolean
prepare_files (Ctx *ctx, PublishPlan *self, GError **error)
{
  g_autoptr (GHashTable) wanted = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < self->selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->selection->files, SelectedFile, i);
      if (selected_file_is_kept (file))
        g_hash_table_add (wanted, file->path);
    }
  return local_source_prepare (ctx, self->source, wanted, error);
}

static gboolean
inspect_files (Ctx *ctx, PublishPlan *self, GError **error)
{
  g_autoptr (ModelInspector) inspector = model_inspector_new (self->selection->format);
  for (guint i = 0; i < self->selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->selection->files, SelectedFile, i);
      if (!selected_file_is_kept (file))
        continue;
      g_autoptr (Reader) reader = local_source_reader (self->source, file->path, error);
      if (reader == NULL || !model_inspector_add_file (ctx, inspector, file->target, reader, error))
        return FALSE;
    }
  g_autoptr (ModelFacts) facts = model_inspector_finish (inspector, error);
  if (facts == NULL)
    return FALSE;
  self->profile = model_profile_new (facts, NULL);
  self->total_bytes = file_selection_kept_bytes (self->selection);
  self->n_files = file_selection_n_kept (self->selection);
  return TRUE;
}

PublishPlan *
publish_plan_new (Ctx *ctx, const char *path, const SelectionWish *wish, GError **error)
{
  g_autoptr (PublishPlan) self = g_new0 (PublishPlan, 1);
  gsize n_files;
  self->source = local_source_open (ctx, path, error);
  if (self->source == NULL)
    return NULL;
  const SourceFile *files = local_source_files (self->source, &n_files);
  Loader loader = { ctx, self->source };
  self->selection = file_selection_new (files, n_files, wish, error);
  if (self->selection == NULL || !prepare_files (ctx, self, error)
      || !file_selection_refine (self->selection, load_file, &loader, error) || !inspect_files (ctx, self, error))
    {
      g_prefix_error (error, "%s: ", path);
      return NULL;
    }
  return g_steal_pointer (&self);
}

void
publish_plan_free (PublishPlan *self)
{
  if (self == NULL)
    return;
  model_profile_free (self->profile);
  file_selection_free (self->selection);
  local_source_free (self->source);
  g_free (self);
}

/* One file on its way. */
typedef struct {
  const SelectedFile *file;
  Digest digest;
} Moving;

typedef struct {
  Ctx *ctx; /* cancelled when one file fails, so that the others stop */
  const PublishPlan *plan;
  Repository *repository;
  const TransferEvents *events;
  GMutex lock;
  GError *error; /* the first */
  guint64 moved_bytes;
} Run;

static void
on_progress (guint64 logical_bytes, guint64 moved_bytes, gpointer data)
{
  Run *run = data;
  g_mutex_lock (&run->lock);
  run->moved_bytes += moved_bytes;
  g_mutex_unlock (&run->lock);
  transfer_bytes (run->events, logical_bytes, moved_bytes);
}

static void
move_file (gpointer data, gpointer user_data)
{
  Moving *moving = data;
  Run *run = user_data;
  const char *target = moving->file->target;
  g_autoptr (GError) problem = NULL;
  transfer_file (run->events, target);
  g_autoptr (Reader) reader = local_source_reader (run->plan->source, moving->file->path, &problem);
  g_autofree char *resume_key = g_strdup_printf ("%s %" G_GUINT64_FORMAT, target, moving->file->size_bytes);
  if (reader != NULL && reader->size_bytes != moving->file->size_bytes)
    am_fail (&problem, AM_ERROR_DATA_LOSS, NULL, "its size changed while it was being published");
  if (problem == NULL
      && repository_push_blob (run->ctx, run->repository, reader, NULL, resume_key, on_progress, run, &moving->digest,
                               &problem))
    {
      transfer_file_done (run->events, target);
      return;
    }
  g_prefix_error (&problem, "%s: ", target);
  g_mutex_lock (&run->lock);
  if (run->error == NULL)
    run->error = g_steal_pointer (&problem);
  g_mutex_unlock (&run->lock);
  ctx_cancel (run->ctx);
}

static gint
compare_size (gconstpointer a, gconstpointer b)
{
  guint64 size_a = ((const Moving *) a)->file->size_bytes, size_b = ((const Moving *) b)->file->size_bytes;
  return size_a < size_b ? 1 : size_a > size_b ? -1 : 0;
}

/* Largest first, so that the end is not one thread with one large file. */
static gboolean
move_files (Run *run, GArray *moving, GError **error)
{
  GThreadPool *pool = g_thread_pool_new (move_file, run, N_PARALLEL_FILES, FALSE, NULL);
  for (guint i = 0; i < moving->len; i++)
    g_thread_pool_push (pool, &g_array_index (moving, Moving, i), NULL);
  g_thread_pool_free (pool, FALSE, TRUE);
  if (run->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&run->error));
  return FALSE;
}

/* What the manifest's config says: only what follows from the files themselves. */
static void
fill_facts (const PublishPlan *plan, ModelpackFacts *facts)
{
  const ModelProfile *profile = plan->profile;
  facts->format = g_strdup (model_format_lower_name (profile->format));
  if (confidence_is_public (profile->architecture_confidence))
    facts->architecture = g_strdup (profile->architecture);
  if (confidence_is_public (profile->family_confidence))
    facts->family = g_strdup (profile->family);
  if (confidence_is_public (profile->quantization_confidence))
    facts->quantization = g_strdup (profile->quantization);
  if (confidence_is_public (profile->parameter_confidence) && profile->parameter_count > 0)
    facts->param_size = text_count (profile->parameter_count);
  facts->precision = g_strdup (profile->precision);
}

static gboolean
put_manifest (Run *run, GArray *moving, const char *tag, Digest *out_digest, GError **error)
{
  g_auto (ModelpackFacts) facts = { 0 };
  g_autoptr (GArray) files = g_array_new (FALSE, FALSE, sizeof (ModelpackFile));
  g_autoptr (GBytes) config = NULL, manifest = NULL;
  for (guint i = 0; i < moving->len; i++)
    {
      const Moving *each = &g_array_index (moving, Moving, i);
      ModelpackFile file = { each->file->target, each->digest, each->file->size_bytes };
      g_array_append_val (files, file);
    }
  fill_facts (run->plan, &facts);
  if (!modelpack_build ((const ModelpackFile *) files->data, files->len, &facts, &config, &manifest, error))
    return FALSE;
  Digest config_digest;
  digest_of (DIGEST_SHA256, g_bytes_get_data (config, NULL), g_bytes_get_size (config), &config_digest);
  g_autoptr (Reader) reader = reader_new_bytes (config);
  return repository_push_blob (run->ctx, run->repository, reader, &config_digest, NULL, NULL, NULL, NULL, error)
         && repository_put_manifest (run->ctx, run->repository, tag, OCI_MANIFEST, manifest, out_digest, error);
}

gboolean
publish_run (Ctx *ctx, const PublishPlan *plan, Repository *repository, const char *tag, const TransferEvents *events,
             PublishResult *out_result, GError **error)
{
  g_autoptr (Ctx) own = ctx_new_child (ctx, -1);
  Run run = { .ctx = own, .plan = plan, .repository = repository, .events = events };
  g_autoptr (GArray) moving = g_array_new (FALSE, TRUE, sizeof (Moving));
  for (guint i = 0; i < plan->selection->files->len; i++)
    {
      Moving each = { .file = &g_array_index (plan->selection->files, SelectedFile, i) };
      if (selected_file_is_kept (each.file))
        g_array_append_val (moving, each);
    }
  g_array_sort (moving, compare_size);
  g_mutex_init (&run.lock);
  PublishResult result = { .logical_bytes = plan->total_bytes };
  transfer_plan (events, plan->total_bytes, plan->n_files);
  gboolean ok = move_files (&run, moving, error) && put_manifest (&run, moving, tag, &result.digest, error);
  g_mutex_clear (&run.lock);
  result.moved_bytes = run.moved_bytes;
  if (ok)
    *out_result = result;
  return ok;
}
