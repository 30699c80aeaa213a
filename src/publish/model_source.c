#include "publish/model_source.h"

gboolean
model_source_prepare (Ctx *ctx, ModelSource *self, GHashTable *wanted, GError **error)
{
  return self->klass->prepare == NULL || self->klass->prepare (ctx, self, wanted, error);
}

Reader *
model_source_open (ModelSource *self, const char *path, GError **error)
{
  return self->klass->open (self, path, error);
}

gboolean
model_source_digest (const ModelSource *self, const char *path, Digest *out_digest)
{
  return self->klass->digest != NULL && self->klass->digest (self, path, out_digest);
}

void
model_source_free (ModelSource *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->files, g_array_unref);
  g_clear_pointer (&self->within, g_free);
  g_clear_pointer (&self->display, g_free);
  g_clear_pointer (&self->revision, g_free);
  g_clear_pointer (&self->task, g_free);
  g_clear_pointer (&self->license, g_free);
  g_clear_pointer (&self->index_tasks, g_strfreev);
  g_clear_pointer (&self->family, g_free);
  g_clear_pointer (&self->parameter_text, g_free);
  g_clear_pointer (&self->quantization, g_free);
  self->klass->free (self);
}
