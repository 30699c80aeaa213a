#include "registry/repository.h"

gboolean
repository_blob_exists (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error)
{
  return self->klass->blob_exists (ctx, self, digest, out_size, error);
}

gboolean
repository_claim_blob (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error)
{
  return self->klass->claim_blob (ctx, self, digest, out_size, error);
}

gboolean
repository_push_blob (Ctx *ctx, Repository *self, Reader *content, const Digest *expected, const char *resume_key,
                      TransferProgress progress, gpointer data, Digest *out_digest, GError **error)
{
  Digest digest;
  if (!self->klass->push_blob (ctx, self, content, expected, resume_key, progress, data, &digest, error))
    return FALSE;
  if (out_digest != NULL)
    *out_digest = digest;
  return TRUE;
}

gboolean
repository_mount_blob (Ctx *ctx, Repository *self, const Digest *digest, const char *from_repository,
                       gboolean *out_mounted, GError **error)
{
  return self->klass->mount_blob (ctx, self, digest, from_repository, out_mounted, error);
}

gboolean
repository_read_blob (Ctx *ctx, Repository *self, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                      BlobSink sink, gpointer data, GError **error)
{
  return self->klass->read_blob (ctx, self, digest, offset_bytes, size_bytes, sink, data, error);
}

Recipe *
repository_get_recipe (Ctx *ctx, Repository *self, const Digest *digest, GError **error)
{
  return self->klass->get_recipe (ctx, self, digest, error);
}

gboolean
repository_read_chunks (Ctx *ctx, Repository *self, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                        TransferProgress progress, gpointer data, GError **error)
{
  return self->klass->read_chunks (ctx, self, recipe, wanted, sink, progress, data, error);
}

GBytes *
repository_get_manifest (Ctx *ctx, Repository *self, const char *reference, char **out_media_type, Digest *out_digest,
                         GError **error)
{
  return self->klass->get_manifest (ctx, self, reference, out_media_type, out_digest, error);
}

gboolean
repository_put_manifest (Ctx *ctx, Repository *self, const char *reference, const char *media_type, GBytes *bytes,
                         Digest *out_digest, GError **error)
{
  return self->klass->put_manifest (ctx, self, reference, media_type, bytes, out_digest, error);
}

GPtrArray *
repository_list_tags (Ctx *ctx, Repository *self, GError **error)
{
  return self->klass->list_tags (ctx, self, error);
}

GPtrArray *
repository_list_referrers (Ctx *ctx, Repository *self, const Digest *subject, GError **error)
{
  return self->klass->list_referrers (ctx, self, subject, error);
}

gboolean
repository_remove_manifest (Ctx *ctx, Repository *self, const char *reference, GError **error)
{
  return self->klass->remove_manifest (ctx, self, reference, error);
}

void
repository_free (Repository *self)
{
  if (self == NULL)
    return;
  g_autofree char *name G_GNUC_UNUSED = self->name;
  g_autofree char *display G_GNUC_UNUSED = self->display;
  self->klass->free (self);
}
