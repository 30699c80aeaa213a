#include "publish/hub_source.h"

#include <string.h>

typedef struct {
  ModelSource base;
  HfHub *hub;
  HfInfo *info;
  GHashTable *by_path; /* borrowed path -> HfFile of `info` */
} HubSource;

static Reader *
hub_open (ModelSource *base, const char *path, GError **error)
{
  HubSource *self = (HubSource *) base;
  const HfFile *file = g_hash_table_lookup (self->by_path, path);
  if (file == NULL)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "%s is not among the repository's files", path);
  return hf_hub_open (self->hub, self->info, file);
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
  hf_info_free (self->info);
  hf_hub_free (self->hub);
  g_free (self);
}

static void
take_info (HubSource *self, const HfHubConfig *config, const HfUrl *url)
{
  const char *endpoint = config->endpoint != NULL ? config->endpoint : HF_ENDPOINT;
  gsize size = strlen (endpoint);
  while (size > 0 && endpoint[size - 1] == '/')
    size--;
  self->base.display = g_strdup_printf ("%.*s/%s", (int) size, endpoint, self->info->id);
  self->base.revision = g_strdup (self->info->commit);
  self->base.within = g_strdup (url->path);
  self->base.task = g_strdup (self->info->task);
  self->base.license = g_strdup (self->info->license);
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

ModelSource *
hub_source_open (Ctx *ctx, const HfHubConfig *config, const char *text, GError **error)
{
  static const ModelSourceClass klass = { NULL, hub_open, hub_digest, hub_free };
  g_auto (HfUrl) url = { 0 };
  if (!hf_url_parse (text, config->endpoint, &url, error))
    return NULL;
  HubSource *self = g_new0 (HubSource, 1);
  g_autoptr (ModelSource) base = &self->base;
  base->klass = &klass;
  base->files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  self->by_path = g_hash_table_new (g_str_hash, g_str_equal);
  self->hub = hf_hub_new (config, error);
  self->info = self->hub != NULL ? hf_hub_find (ctx, self->hub, &url, error) : NULL;
  if (self->info == NULL)
    return NULL;
  take_info (self, config, &url);
  return g_steal_pointer (&base);
}
