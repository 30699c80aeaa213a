#include "delivery/artifact.h"

#define MAX_INDEX_DEPTH 4

void
artifact_free (Artifact *self)
{
  if (self == NULL)
    return;
  modelpack_free (self->model);
  manifest_free (self->manifest);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_free (self->media_type);
  g_free (self);
}

/* Follows indexes down to an image manifest. */
static gboolean
find_image (Ctx *ctx, Artifact *self, Repository *repository, const char *selector, GError **error)
{
  g_autofree char *next = g_strdup (selector);
  for (guint depth = 0; depth < MAX_INDEX_DEPTH; depth++)
    {
      g_clear_pointer (&self->bytes, g_bytes_unref);
      g_clear_pointer (&self->media_type, g_free);
      g_clear_pointer (&self->manifest, manifest_free);
      self->bytes = repository_get_manifest (ctx, repository, next, &self->media_type, &self->digest, error);
      if (self->bytes == NULL)
        return FALSE;
      self->manifest = manifest_parse (self->bytes, self->media_type, error);
      if (self->manifest == NULL)
        return FALSE;
      if (self->manifest->kind == MANIFEST_IMAGE)
        return TRUE;
      const Descriptor *chosen = modelpack_choose (self->manifest, error);
      if (chosen == NULL)
        return FALSE;
      g_free (next);
      next = digest_to_string (&chosen->digest);
    }
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ManifestInvalid",
                  "%s leads through more than %d indexes in one another", selector, MAX_INDEX_DEPTH);
}

Artifact *
artifact_resolve (Ctx *ctx, Repository *repository, const char *selector, GError **error)
{
  g_autoptr (Artifact) self = g_new0 (Artifact, 1);
  if (!find_image (ctx, self, repository, selector, error))
    return NULL;
  self->model = modelpack_read (self->manifest, error);
  if (self->model == NULL)
    {
      g_prefix_error (error, "%s, %s: ", repository->display, selector);
      return NULL;
    }
  for (guint i = 0; i < self->model->layers->len; i++)
    {
      guint64 size = g_array_index (self->model->layers, ModelpackLayer, i).descriptor->size_bytes;
      if (__builtin_add_overflow (self->total_bytes, size, &self->total_bytes))
        return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "ManifestInvalid",
                             "the sizes of the layers of %s add up to more than 2^64", selector);
    }
  return g_steal_pointer (&self);
}
