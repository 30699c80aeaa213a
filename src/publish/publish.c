#include "publish/publish.h"

#include <string.h>

#include "base/text.h"
#include "base/workers.h"
#include "domain/model_task.h"
#include "publish/source_reader.h"

#define LOADED_FILE_LIMIT_BYTES (256u << 20) /* a shard index; formats-safetensors-diffusers.md 2 */
/* Files on their way at once: so many, and as many small ones, which are little more than round trips. */
#define N_PARALLEL_FILES 2
#define SMALL_FILE_BYTES (1u << 20)
#define MAX_READS_OF_DAMAGED 2u

typedef struct {
  Ctx *ctx;
  ModelSource *source;
} Loader;

static GBytes *
load_file (const char *path, gpointer data, GError **error)
{
  const Loader *loader = data;
  g_autoptr (Reader) reader = model_source_open (loader->source, path, error);
  if (reader == NULL)
    return NULL;
  if (reader->size_bytes > LOADED_FILE_LIMIT_BYTES)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, "FormatLimitExceeded", "%s is too large for what it is",
                         path);
  GBytes *bytes = reader_read_all (loader->ctx, reader, error);
  if (bytes == NULL)
    g_prefix_error (error, "%s: ", path);
  return bytes;
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
  return model_source_prepare (ctx, self->source, wanted, error);
}

/* All that the source says, NULL-terminated; the strings stay the source's. */
static GPtrArray *
provider_tasks (const ModelSource *source)
{
  GPtrArray *tasks = g_ptr_array_new ();
  if (source->task != NULL)
    g_ptr_array_add (tasks, source->task);
  for (char **each = source->index_tasks; each != NULL && *each != NULL; each++)
    g_ptr_array_add (tasks, *each);
  g_ptr_array_add (tasks, NULL);
  return tasks;
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
      g_autoptr (Reader) reader = model_source_open (self->source, file->path, error);
      if (reader == NULL || !model_inspector_add_file (ctx, inspector, file->target, reader, error))
        return FALSE;
    }
  g_autoptr (ModelFacts) facts = model_inspector_finish (inspector, error);
  if (facts == NULL)
    return FALSE;
  g_autoptr (GPtrArray) tasks = provider_tasks (self->source);
  ModelDeclaration declaration = {
    .provider_tasks = (const char *const *) tasks->pdata,
    .declared_task = task_declared ((const char *const *) self->source->index_tasks, self->source->task),
    .family = self->source->family,
    .parameter_text = self->source->parameter_text,
    .quantization = self->source->quantization,
    .context_tokens = self->source->context_tokens,
  };
  self->profile = model_profile_new (facts, &declaration);
  self->own_profile = model_profile_new (facts, NULL);
  self->total_bytes = file_selection_kept_bytes (self->selection);
  self->n_files = file_selection_n_kept (self->selection);
  return TRUE;
}

PublishPlan *
publish_plan_new (Ctx *ctx, ModelSource *source, const SelectionWish *wish, GError **error)
{
  g_autoptr (PublishPlan) self = g_new0 (PublishPlan, 1);
  Loader loader = { ctx, source };
  SelectionWish meant = wish != NULL ? *wish : (SelectionWish){ 0 };
  if (meant.within == NULL)
    meant.within = source->within;
  self->source = source;
  self->selection = file_selection_new ((const SourceFile *) source->files->data, source->files->len, &meant, error);
  if (self->selection == NULL || !prepare_files (ctx, self, error)
      || !file_selection_refine (self->selection, load_file, &loader, error) || !inspect_files (ctx, self, error))
    {
      g_prefix_error (error, "%s: ", source->display);
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
  model_profile_free (self->own_profile);
  file_selection_free (self->selection);
  model_source_free (self->source);
  g_free (self);
}

/* One file on its way. */
typedef struct {
  const SelectedFile *file;
  Digest digest;
} Moving;

typedef struct {
  const PublishPlan *plan;
  Repository *repository;
  const TransferEvents *events;
  GArray *moving; /* Moving */
  GMutex lock;
  guint n_workers;     /* that have begun; the first ones take the largest files, the others the smallest */
  guint first, last;   /* of `moving`, which nobody has taken yet: [first, last) */
  guint64 moved_bytes; /* atomic */
} Run;

/* How far one file is; told by the thread that pushes it. */
typedef struct {
  Run *run;
  guint64 position_bytes, reported_bytes;
} FileProgress;

/* What is pushed for a second time was counted already. */
static void
on_progress (guint64 logical_bytes, guint64 moved_bytes, gpointer data)
{
  FileProgress *self = data;
  guint64 before = self->reported_bytes;
  self->position_bytes += logical_bytes;
  self->reported_bytes = MAX (before, self->position_bytes);
  __atomic_add_fetch (&self->run->moved_bytes, moved_bytes, __ATOMIC_RELAXED);
  transfer_bytes (self->run->events, self->reported_bytes - before, moved_bytes);
}

/* What interrupted pushes of the same content have in common. */
static char *
resume_key_of (const Moving *moving, const Digest *expected)
{
  char text[DIGEST_STRING_SIZE] = "";
  return g_strdup_printf ("%s %" G_GUINT64_FORMAT "%s%s", moving->file->target, moving->file->size_bytes,
                          expected != NULL ? " " : "", expected != NULL ? digest_format (expected, text) : "");
}

/* What the source is to blame for is said of the source. Takes `failure` over. */
static gboolean
fail_file (const Run *run, const Reader *reader, GError *failure, GError **error)
{
  const GError *problem = source_reader_problem (reader);
  if (problem == NULL)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }
  g_propagate_prefixed_error (error, g_error_copy (problem), "%s: ", run->plan->source->display);
  g_error_free (failure);
  return FALSE;
}

static gboolean
push_file (Ctx *ctx, FileProgress *progress, Moving *moving, const Digest *expected, GError **error)
{
  const Run *run = progress->run;
  g_autoptr (Reader) reader = source_reader_new (model_source_open (run->plan->source, moving->file->path, error));
  g_autofree char *resume_key = resume_key_of (moving, expected);
  GError *failure = NULL;
  progress->position_bytes = 0;
  if (reader == NULL)
    return FALSE;
  if (reader->size_bytes != moving->file->size_bytes)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "its size changed while it was being published");
  return repository_push_blob (ctx, run->repository, reader, expected, resume_key, on_progress, progress,
                               &moving->digest, &failure)
         || fail_file (run, reader, failure, error);
}

/* Bytes that do not match what their source states may have been damaged on the way: they are read once more, from the
 * start. */
static gboolean
move_file (Ctx *ctx, Run *run, Moving *moving, GError **error)
{
  const char *target = moving->file->target;
  FileProgress progress = { .run = run };
  Digest stated;
  gboolean done = FALSE, is_damaged = TRUE;
  const Digest *expected = model_source_digest (run->plan->source, moving->file->path, &stated) ? &stated : NULL;
  transfer_file (run->events, target);
  for (guint i = 0; i < MAX_READS_OF_DAMAGED && is_damaged && !done; i++)
    {
      g_autoptr (GError) failure = NULL;
      done = push_file (ctx, &progress, moving, expected, &failure);
      is_damaged = expected != NULL && am_error_has_reason (failure, "DIGEST_INVALID");
      if (!done && !is_damaged)
        g_propagate_error (error, g_steal_pointer (&failure));
    }
  if (done)
    transfer_file_done (run->events, target);
  else if (is_damaged)
    am_fail (error, AM_ERROR_DATA_LOSS, "SourceCorrupt",
             "%s: its bytes do not match the SHA-256 that its source states", run->plan->source->display);
  return done;
}

/* The next file for a worker; NULL when there is none for it. */
static Moving *
take_file (Run *run, gboolean takes_large)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&run->lock);
  if (run->first == run->last)
    return NULL;
  Moving *moving = &g_array_index (run->moving, Moving, takes_large ? run->first : run->last - 1);
  if (!takes_large && moving->file->size_bytes > SMALL_FILE_BYTES)
    return NULL;
  run->first += takes_large ? 1 : 0;
  run->last -= takes_large ? 0 : 1;
  return moving;
}

static gboolean
move_some (Ctx *ctx, gpointer data, GError **error)
{
  Run *run = data;
  g_mutex_lock (&run->lock);
  gboolean takes_large = run->n_workers++ < N_PARALLEL_FILES;
  g_mutex_unlock (&run->lock);
  for (Moving *moving = take_file (run, takes_large); moving != NULL; moving = take_file (run, takes_large))
    if (!ctx_check (ctx, error) || !move_file (ctx, run, moving, error))
      {
        g_prefix_error (error, "%s: ", moving->file->target);
        return FALSE;
      }
  return TRUE;
}

static gint
compare_size (gconstpointer a, gconstpointer b)
{
  guint64 size_a = ((const Moving *) a)->file->size_bytes, size_b = ((const Moving *) b)->file->size_bytes;
  return size_a < size_b ? 1 : size_a > size_b ? -1 : 0;
}

/* What the manifest's config says: only what follows from the files themselves. */
static void
fill_facts (const PublishPlan *plan, ModelpackFacts *facts)
{
  const ModelProfile *profile = plan->own_profile;
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
put_manifest (Ctx *ctx, Run *run, const char *tag, Digest *out_digest, GError **error)
{
  g_auto (ModelpackFacts) facts = { 0 };
  g_autoptr (GArray) files = g_array_new (FALSE, FALSE, sizeof (ModelpackFile));
  g_autoptr (GBytes) config = NULL, manifest = NULL;
  for (guint i = 0; i < run->moving->len; i++)
    {
      const Moving *each = &g_array_index (run->moving, Moving, i);
      ModelpackFile file = { each->file->target, each->digest, each->file->size_bytes };
      g_array_append_val (files, file);
    }
  fill_facts (run->plan, &facts);
  if (!modelpack_build ((const ModelpackFile *) files->data, files->len, &facts, &config, &manifest, error))
    return FALSE;
  Digest config_digest;
  digest_of (DIGEST_SHA256, g_bytes_get_data (config, NULL), g_bytes_get_size (config), &config_digest);
  g_autoptr (Reader) reader = reader_new_bytes (config);
  return repository_push_blob (ctx, run->repository, reader, &config_digest, NULL, NULL, NULL, NULL, error)
         && repository_put_manifest (ctx, run->repository, tag, OCI_MANIFEST, manifest, out_digest, error);
}

void
publish_result_clear (PublishResult *self)
{
  g_clear_pointer (&self->digests, g_hash_table_unref);
}

gboolean
publish_run (Ctx *ctx, const PublishPlan *plan, Repository *repository, const char *tag, const TransferEvents *events,
             PublishResult *out_result, GError **error)
{
  g_autoptr (GArray) moving = g_array_new (FALSE, TRUE, sizeof (Moving));
  Run run = { .plan = plan, .repository = repository, .events = events, .moving = moving };
  for (guint i = 0; i < plan->selection->files->len; i++)
    {
      Moving each = { .file = &g_array_index (plan->selection->files, SelectedFile, i) };
      if (selected_file_is_kept (each.file))
        g_array_append_val (moving, each);
    }
  gboolean is_sequential = plan->source->is_sequential;
  /* Largest first, so that the end is not one thread with one large file. */
  if (!is_sequential)
    g_array_sort (moving, compare_size);
  PublishResult result = { .logical_bytes = plan->total_bytes };
  transfer_plan (events, plan->total_bytes, plan->n_files);
  run.last = moving->len;
  g_mutex_init (&run.lock);
  gboolean done = workers_run (ctx, is_sequential ? 1 : 2 * N_PARALLEL_FILES, move_some, &run, error)
                  && put_manifest (ctx, &run, tag, &result.digest, error);
  g_mutex_clear (&run.lock);
  if (!done)
    return FALSE;
  result.moved_bytes = run.moved_bytes;
  result.digests = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  for (guint i = 0; i < moving->len; i++)
    {
      const Moving *each = &g_array_index (moving, Moving, i);
      g_hash_table_insert (result.digests, each->file->target, g_memdup2 (&each->digest, sizeof each->digest));
    }
  *out_result = result;
  return TRUE;
}
