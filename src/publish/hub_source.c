#include "publish/hub_source.h"

#include <string.h>

#include "base/workers.h"
#include "sources/hf_variant.h"

#define N_HEADS_AT_ONCE 8u
#define MAX_HEADS 256u /* 64 MiB of memory */

typedef struct {
  ModelSource base;
  HfHub *hub;
  HfInfo *info;
  GHashTable *by_path; /* borrowed path -> HfFile of `info` */
  GHashTable *heads;   /* borrowed path -> GBytes: what is looked at before the model is taken */
} HubSource;

typedef struct {
  HubSource *source;
  GPtrArray *files; /* HfFile */
  guint next;       /* of them, atomic */
  GMutex lock;      /* for the source's heads */
} HeadReading;

static gboolean
read_heads (Ctx *ctx, gpointer data, GError **error)
{
  HeadReading *reading = data;
  guint i;
  while ((i = (guint) g_atomic_int_add (&reading->next, 1)) < reading->files->len)
    {
      HfFile *file = g_ptr_array_index (reading->files, i);
      GBytes *head = hf_hub_head (ctx, reading->source->hub, reading->source->info, file, error);
      if (head == NULL)
        {
          g_prefix_error (error, "%s: ", file->path);
          return FALSE;
        }
      g_mutex_lock (&reading->lock);
      g_hash_table_insert (reading->source->heads, file->path, head);
      g_mutex_unlock (&reading->lock);
    }
  return TRUE;
}

/* The beginnings of the files come several at once: there may be hundreds, each a few round trips away. */
static gboolean
hub_prepare (Ctx *ctx, ModelSource *base, GHashTable *wanted, GError **error)
{
  HubSource *self = (HubSource *) base;
  g_autoptr (GPtrArray) files = g_ptr_array_new ();
  for (guint i = 0; i < self->info->files->len && files->len < MAX_HEADS; i++)
    {
      HfFile *file = &g_array_index (self->info->files, HfFile, i);
      if (g_hash_table_contains (wanted, file->path)
          && (file->sha256 != NULL || file->size_bytes <= REMOTE_HEAD_BYTES))
        g_ptr_array_add (files, file);
    }
  HeadReading reading = { .source = self, .files = files };
  g_mutex_init (&reading.lock);
  gboolean done = workers_run (ctx, N_HEADS_AT_ONCE, read_heads, &reading, error);
  g_mutex_clear (&reading.lock);
  return done;
}

static Reader *
hub_open (ModelSource *base, const char *path, GError **error)
{
  HubSource *self = (HubSource *) base;
  const HfFile *file = g_hash_table_lookup (self->by_path, path);
  if (file == NULL)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "%s is not among the repository's files", path);
  return hf_hub_open (self->hub, self->info, file, g_hash_table_lookup (self->heads, path));
}

static gboolean
hub_digest (const ModelSource *base, const char *path, Digest *out_digest)
{
  const HubSource *self = (const HubSource *) base;
  const HfFile *file = g_hash_table_lookup (self->by_path, path);
  if (file == NULL || file->sha256 == NULL)
    return FALSE;
  g_autofree char *text = g_strconcat ("sha256:", file->sha256, NULL);
  return digest_parse (text, out_digest, NULL);
}

static void
hub_free (ModelSource *base)
{
  HubSource *self = (HubSource *) base;
  g_clear_pointer (&self->by_path, g_hash_table_unref);
  g_clear_pointer (&self->heads, g_hash_table_unref);
  hf_info_free (self->info);
  hf_hub_free (self->hub);
  g_free (self);
}

static void
take_info (HubSource *self, const HfHubConfig *config, const char *path)
{
  const char *endpoint = config->endpoint != NULL ? config->endpoint : HF_ENDPOINT;
  gsize size = strlen (endpoint);
  while (size > 0 && endpoint[size - 1] == '/')
    size--;
  self->base.display = g_strdup_printf ("%.*s/%s", (int) size, endpoint, self->info->id);
  self->base.revision = g_strdup (self->info->commit);
  self->base.within = g_strdup (path);
  self->base.task = g_strdup (self->info->task);
  self->base.license = g_strdup (self->info->license);
  self->base.index_tasks = g_strdupv (self->info->index_tasks);
  for (guint i = 0; i < self->info->files->len; i++)
    {
      HfFile *file = &g_array_index (self->info->files, HfFile, i);
      SourceFile listed = { file->path, file->size_bytes, FALSE };
      /* Hidden files are never part of a model; what is listed twice the selection refuses. */
      if (file->path[0] == '.' || strstr (file->path, "/.") != NULL)
        continue;
      g_array_append_val (self->base.files, listed);
      g_hash_table_insert (self->by_path, file->path, file);
    }
}

static gboolean
has_path (const HfInfo *info, const char *path)
{
  gsize size = strlen (path);
  for (guint i = 0; i < info->files->len; i++)
    {
      const char *each = g_array_index (info->files, HfFile, i).path;
      if (strncmp (each, path, size) == 0 && (each[size] == '\0' || each[size] == '/'))
        return TRUE;
    }
  return FALSE;
}

/* Asks for the commit `revision` in place of what the address names. Where that ended and the path began is told by the
 * files of the commit. */
static HfInfo *
find_pinned (Ctx *ctx, HfHub *hub, HfUrl *url, const char *revision, GError **error)
{
  g_auto (HfUrl) pinned = { .repository = g_strdup (url->repository), .revision = g_strdup (revision) };
  HfInfo *info = hf_hub_find (ctx, hub, &pinned, error);
  while (info != NULL && url->path != NULL && !has_path (info, url->path) && hf_url_widen (url))
    continue;
  return info;
}

ModelSource *
hub_source_open (Ctx *ctx, const HfHubConfig *config, const char *text, const char *revision, GError **error)
{
  static const ModelSourceClass klass = { hub_prepare, hub_open, hub_digest, hub_free };
  g_auto (HfUrl) url = { 0 };
  if (!hf_url_parse (text, config->endpoint, &url, error))
    return NULL;
  HubSource *self = g_new0 (HubSource, 1);
  g_autoptr (ModelSource) base = &self->base;
  base->klass = &klass;
  base->files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  self->by_path = g_hash_table_new (g_str_hash, g_str_equal);
  self->heads = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) g_bytes_unref);
  self->hub = hf_hub_new (config, error);
  if (self->hub != NULL)
    self->info = revision != NULL ? find_pinned (ctx, self->hub, &url, revision, error)
                                  : hf_hub_find (ctx, self->hub, &url, error);
  if (self->info == NULL)
    return NULL;
  const char *path = url.variant != NULL ? hf_variant_find (self->info->files, url.variant, error) : url.path;
  if (path == NULL && url.variant != NULL)
    {
      g_prefix_error (error, "%s: ", self->info->id);
      return NULL;
    }
  take_info (self, config, path);
  return g_steal_pointer (&base);
}
