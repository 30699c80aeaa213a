#include "cli/store_listing.h"

#include <string.h>

#include "oci/manifest.h"
#include "storage/chunk_frame.h"
#include "storage/repository_links.h"

#define MAX_INDEX_DEPTH 8

typedef struct {
  BlobStore *blobs;
  ObjectStore *objects;
  gboolean with_sizes;
  StoreListing *listing;
  GHashTable *counted; /* names of objects whose bytes are in the total */
} Walk;

static void
model_clear (gpointer data)
{
  StoredModel *self = data;
  g_free (self->repository);
  g_free (self->tag);
  g_free (self->problem);
}

/* A damaged model must not hide the others. */
static void
note_problem (StoredModel *self, const GError *error)
{
  if (self->problem == NULL)
    self->problem = g_strdup (error->message);
}

void
store_listing_free (StoreListing *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->models);
  g_free (self);
}

/* Adds to the model, and to the total unless something else counted the object already. */
static void
count_object (Walk *self, StoredModel *model, char *name, guint64 n_bytes)
{
  model->stored_bytes += n_bytes;
  if (g_hash_table_add (self->counted, name))
    self->listing->stored_bytes += n_bytes;
}

static void
measure_blob (Ctx *ctx, Walk *self, const Descriptor *blob, StoredModel *model)
{
  g_autoptr (GError) missing = NULL;
  BlobInfo info;
  model->logical_bytes += blob->size_bytes;
  if (!blob_store_stat (ctx, self->blobs, &blob->digest, &info, &missing))
    {
      note_problem (model, missing);
      return;
    }
  if (info.n_chunks == 0)
    {
      count_object (self, model, digest_to_string (&blob->digest), info.stored_bytes);
      return;
    }
  g_autoptr (Recipe) recipe = blob_store_recipe (ctx, self->blobs, &blob->digest, &missing);
  if (recipe == NULL)
    {
      note_problem (model, missing);
      return;
    }
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (recipe->entries, RecipeEntry, i);
      count_object (self, model, chunk_key (entry->digest), entry->encoded_size + CHUNK_HEADER_SIZE);
    }
}

static void
measure_manifest (Ctx *ctx, Walk *self, const Digest *digest, int depth, StoredModel *model)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, self->blobs, digest, MANIFEST_MAX_BYTES, &problem);
  g_autoptr (Manifest) manifest = bytes != NULL ? manifest_parse (bytes, NULL, &problem) : NULL;
  if (manifest == NULL)
    {
      note_problem (model, problem);
      return;
    }
  if (depth > MAX_INDEX_DEPTH)
    return;
  count_object (self, model, digest_to_string (digest), g_bytes_get_size (bytes));
  g_autoptr (GArray) refs = manifest_refs (manifest);
  for (guint i = 0; i < refs->len; i++)
    {
      const ManifestRef *ref = &g_array_index (refs, ManifestRef, i);
      if (ref->may_be_absent)
        continue;
      if (ref->role == MANIFEST_REF_CHILD)
        measure_manifest (ctx, self, &ref->descriptor->digest, depth + 1, model);
      else
        measure_blob (ctx, self, ref->descriptor, model);
    }
}

static void
add_model (Ctx *ctx, Walk *self, const char *repository, const char *tag, const Digest *digest)
{
  StoredModel model = { .repository = g_strdup (repository), .tag = g_strdup (tag), .digest = *digest };
  g_autofree char *key = blob_data_key (digest);
  g_autoptr (GError) missing = NULL;
  ObjectInfo info = { 0 };
  if (object_store_stat (ctx, self->objects, key, &info, &missing))
    model.modified_ms = info.modified_ms;
  else
    note_problem (&model, missing);
  if (self->with_sizes)
    measure_manifest (ctx, self, digest, 0, &model);
  g_array_append_val (self->listing->models, model);
}

static gboolean
add_tagged (Ctx *ctx, Walk *self, const char *repository, GHashTable *out_named, GError **error)
{
  g_autoptr (GPtrArray) tags = tag_list (ctx, self->objects, repository, error);
  if (tags == NULL)
    return FALSE;
  for (guint i = 0; i < tags->len; i++)
    {
      Digest digest;
      if (!tag_get (ctx, self->objects, repository, tags->pdata[i], &digest, error))
        return FALSE;
      add_model (ctx, self, repository, tags->pdata[i], &digest);
      g_hash_table_add (out_named, g_memdup2 (&digest, sizeof digest));
    }
  return TRUE;
}

/* Adds the children of every index, and what is attached to another manifest, to `named`. */
static void
name_dependents (Ctx *ctx, Walk *self, GPtrArray *digests, GHashTable *named)
{
  for (guint i = 0; i < digests->len; i++)
    {
      g_autoptr (GError) problem = NULL;
      g_autoptr (GBytes) bytes = blob_store_get (ctx, self->blobs, digests->pdata[i], MANIFEST_MAX_BYTES, &problem);
      g_autoptr (Manifest) manifest = bytes != NULL ? manifest_parse (bytes, NULL, &problem) : NULL;
      am_ignore (&problem, "a damaged manifest names nothing");
      for (guint j = 0; manifest != NULL && j < manifest->manifests->len; j++)
        {
          const Descriptor *child = manifest->manifests->pdata[j];
          g_hash_table_add (named, g_memdup2 (&child->digest, sizeof child->digest));
        }
      if (manifest != NULL && manifest->subject != NULL)
        g_hash_table_add (named, g_memdup2 (digests->pdata[i], sizeof (Digest)));
    }
}

static gboolean
add_repository (Ctx *ctx, Walk *self, const char *repository, GError **error)
{
  g_autoptr (GHashTable) named = g_hash_table_new_full (digest_hash, digest_equal_func, g_free, NULL);
  if (!add_tagged (ctx, self, repository, named, error))
    return FALSE;
  g_autoptr (GPtrArray) digests = manifest_link_list (ctx, self->objects, repository, error);
  if (digests == NULL)
    return FALSE;
  name_dependents (ctx, self, digests, named);
  for (guint i = 0; i < digests->len; i++)
    if (!g_hash_table_contains (named, digests->pdata[i]))
      add_model (ctx, self, repository, NULL, digests->pdata[i]);
  return TRUE;
}

StoreListing *
store_listing_new_empty (void)
{
  StoreListing *self = g_new0 (StoreListing, 1);
  self->models = g_array_new (FALSE, FALSE, sizeof (StoredModel));
  g_array_set_clear_func (self->models, model_clear);
  return self;
}

StoreListing *
store_listing_new (Ctx *ctx, BlobStore *blobs, const char *repository, gboolean with_sizes, GError **error)
{
  g_autoptr (StoreListing) listing = store_listing_new_empty ();
  g_autoptr (GHashTable) counted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Walk walk = { blobs, blob_store_objects (blobs), with_sizes, listing, counted };
  g_autoptr (GPtrArray) names = repository_list (ctx, walk.objects, error);
  gboolean found = repository == NULL;
  if (names == NULL)
    return NULL;
  for (guint i = 0; i < names->len; i++)
    {
      gboolean wanted = repository == NULL || strcmp (names->pdata[i], repository) == 0;
      found = found || wanted;
      if (wanted && (!ctx_check (ctx, error) || !add_repository (ctx, &walk, names->pdata[i], error)))
        return NULL;
    }
  if (!found)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "NAME_UNKNOWN", "the local store has no repository %s",
                         repository);
  return g_steal_pointer (&listing);
}
