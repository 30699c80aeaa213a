#include "cli/store_removal.h"

#include "oci/manifest.h"
#include "storage/repository_links.h"

typedef struct {
  Repository *repository;
  BlobStore *blobs;
  ObjectStore *objects;
  guint n_removed;
} Removal;

/* A damaged manifest can still be removed: it then names nothing. */
static Manifest *
load_manifest (Ctx *ctx, Removal *self, const Digest *digest)
{
  g_autoptr (GError) damage = NULL;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, self->blobs, digest, MANIFEST_MAX_BYTES, &damage);
  Manifest *manifest = bytes != NULL ? manifest_parse (bytes, NULL, &damage) : NULL;
  am_ignore (&damage, "a damaged manifest names nothing");
  return manifest;
}

static gboolean
has_tag (Ctx *ctx, Removal *self, const Digest *digest, gboolean *out_has, GError **error)
{
  g_autoptr (GPtrArray) tags = tag_list (ctx, self->objects, self->repository->name, error);
  *out_has = FALSE;
  for (guint i = 0; tags != NULL && i < tags->len && !*out_has; i++)
    {
      Digest named;
      if (!tag_get (ctx, self->objects, self->repository->name, tags->pdata[i], &named, error))
        return FALSE;
      *out_has = digest_equal (&named, digest);
    }
  return tags != NULL;
}

static gboolean
has_parent (Ctx *ctx, Removal *self, const Digest *digest, gboolean *out_has, GError **error)
{
  g_autoptr (GPtrArray) all = manifest_link_list (ctx, self->objects, self->repository->name, error);
  *out_has = FALSE;
  for (guint i = 0; all != NULL && i < all->len && !*out_has; i++)
    {
      g_autoptr (Manifest) manifest = load_manifest (ctx, self, all->pdata[i]);
      for (guint j = 0; manifest != NULL && j < manifest->manifests->len; j++)
        *out_has = *out_has || digest_equal (&((Descriptor *) manifest->manifests->pdata[j])->digest, digest);
    }
  return all != NULL;
}

static gboolean
is_named (Ctx *ctx, Removal *self, const Digest *digest, gboolean *out_named, GError **error)
{
  return has_tag (ctx, self, digest, out_named, error)
         && (*out_named || has_parent (ctx, self, digest, out_named, error));
}

/* Blobs that the repository's manifests name. */
static GHashTable *
named_blobs (Ctx *ctx, Removal *self, GError **error)
{
  g_autoptr (GPtrArray) all = manifest_link_list (ctx, self->objects, self->repository->name, error);
  g_autoptr (GHashTable) named = g_hash_table_new_full (digest_hash, digest_equal_func, g_free, NULL);
  for (guint i = 0; all != NULL && i < all->len; i++)
    {
      g_autoptr (Manifest) manifest = load_manifest (ctx, self, all->pdata[i]);
      g_autoptr (GArray) refs = manifest != NULL ? manifest_refs (manifest) : NULL;
      for (guint j = 0; refs != NULL && j < refs->len; j++)
        {
          const Digest *digest = &g_array_index (refs, ManifestRef, j).descriptor->digest;
          g_hash_table_add (named, g_memdup2 (digest, sizeof *digest));
        }
    }
  return all != NULL ? g_steal_pointer (&named) : NULL;
}

/* The repository lets go of what only the removed manifest named. */
static gboolean
release_blobs (Ctx *ctx, Removal *self, const Manifest *removed, GError **error)
{
  g_autoptr (GHashTable) named = named_blobs (ctx, self, error);
  g_autoptr (GArray) refs = manifest_refs (removed);
  for (guint i = 0; named != NULL && i < refs->len; i++)
    {
      const ManifestRef *ref = &g_array_index (refs, ManifestRef, i);
      if (ref->role != MANIFEST_REF_CHILD && !g_hash_table_contains (named, &ref->descriptor->digest)
          && !layer_link_remove (ctx, self->objects, self->repository->name, &ref->descriptor->digest, error))
        return FALSE;
    }
  return named != NULL;
}

static gboolean
remove_manifest (Ctx *ctx, Removal *self, const Digest *digest, GError **error)
{
  g_autofree char *text = digest_to_string (digest);
  g_autoptr (Manifest) manifest = load_manifest (ctx, self, digest);
  if (!repository_remove_manifest (ctx, self->repository, text, error))
    return FALSE;
  self->n_removed++;
  for (guint i = 0; manifest != NULL && i < manifest->manifests->len; i++)
    {
      const Descriptor *child = manifest->manifests->pdata[i];
      gboolean named = FALSE, exists = FALSE;
      if (!manifest_link_exists (ctx, self->objects, self->repository->name, &child->digest, &exists, error)
          || (exists && !is_named (ctx, self, &child->digest, &named, error))
          || (exists && !named && !remove_manifest (ctx, self, &child->digest, error)))
        return FALSE;
    }
  return manifest == NULL || release_blobs (ctx, self, manifest, error);
}

static gboolean
remove_tag (Ctx *ctx, Removal *self, const char *tag, GError **error)
{
  Digest digest;
  gboolean named = FALSE;
  return tag_get (ctx, self->objects, self->repository->name, tag, &digest, error)
         && repository_remove_manifest (ctx, self->repository, tag, error)
         && is_named (ctx, self, &digest, &named, error) && (named || remove_manifest (ctx, self, &digest, error));
}

gboolean
store_remove (Ctx *ctx, BlobStore *blobs, Repository *repository, const char *tag, const Digest *digest,
              guint *out_n_removed, GError **error)
{
  Removal self = { repository, blobs, blob_store_objects (blobs), 0 };
  gboolean good = tag != NULL ? remove_tag (ctx, &self, tag, error) : remove_manifest (ctx, &self, digest, error);
  *out_n_removed = self.n_removed;
  return good;
}
