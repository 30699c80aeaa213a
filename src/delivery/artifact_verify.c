#include "delivery/artifact_verify.h"

#include <string.h>

#include "oci/manifest.h"
#include "storage/chunk_frame.h"

#define MAX_INDEX_DEPTH 8

typedef struct {
  Repository *repository;
  BlobStore *blobs; /* or NULL */
  const TransferEvents *events;
  GHashTable *seen; /* Digest of manifests and blobs that were looked at */
  VerifyReport *report;
} Verify;

static void
damage_free (gpointer data)
{
  Damage *self = data;
  g_free (self->object);
  g_free (self->file);
  g_free (self->problem);
  g_free (self);
}

void
verify_report_clear (VerifyReport *self)
{
  g_clear_pointer (&self->damages, g_ptr_array_unref);
}

static void
report_damage (Verify *self, char *object, const char *file, const char *problem)
{
  Damage *damage = g_new0 (Damage, 1);
  damage->object = object;
  damage->file = g_strdup (file);
  damage->problem = g_strdup (problem);
  g_ptr_array_add (self->report->damages, damage);
}

/* Trouble that is the object's own, as opposed to a network that fails or a person who interrupts. */
static gboolean
is_damage (const GError *error)
{
  return am_error_is (error, AM_ERROR_DATA_LOSS) || am_error_is (error, AM_ERROR_NOT_FOUND)
         || am_error_has_reason (error, "MANIFEST_INVALID") || am_error_has_reason (error, "DIGEST_INVALID");
}

/* Files the error away as damage, or hands it on. */
static gboolean
judge (Verify *self, char *object, const char *file, GError *problem, GError **error)
{
  g_autofree char *owned_object = object;
  g_autoptr (GError) owned = problem;
  if (!is_damage (owned))
    {
      g_propagate_error (error, g_steal_pointer (&owned));
      return FALSE;
    }
  report_damage (self, g_steal_pointer (&owned_object), file, owned->message);
  return TRUE;
}

static char *
name_object (const char *kind, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  return g_strdup_printf ("%s %s", kind, digest_format (digest, text));
}

static void
on_bytes (guint64 n_bytes, gpointer data)
{
  Verify *self = data;
  self->report->n_bytes += n_bytes;
  transfer_bytes (self->events, n_bytes, 0);
}

/* After a blob was found damaged: which of its chunks are. `*out_found` counts them. */
static gboolean
find_damaged_chunks (Ctx *ctx, Verify *self, const Recipe *recipe, const char *file, guint *out_found, GError **error)
{
  g_autofree guint8 *buffer = g_malloc (CHUNK_MAX_BYTES);
  g_autoptr (GHashTable) reported = g_hash_table_new (digest_hash, digest_equal_func);
  g_autoptr (GPtrArray) owned = g_ptr_array_new_with_free_func (g_free);
  *out_found = 0;
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      GError *problem = NULL;
      const RecipeEntry *entry = &g_array_index (recipe->entries, RecipeEntry, i);
      Digest *digest = g_new0 (Digest, 1);
      g_ptr_array_add (owned, digest);
      memcpy (digest->bytes, entry->digest, sizeof entry->digest);
      if (!ctx_check (ctx, error))
        return FALSE;
      if (blob_store_read_chunk (ctx, self->blobs, entry->digest, buffer, &problem) >= 0
          || !g_hash_table_add (reported, digest))
        {
          g_clear_error (&problem);
          continue;
        }
      char hex[CHUNK_HEX_SIZE];
      chunk_digest_hex (entry->digest, hex);
      if (!judge (self, g_strdup_printf ("chunk %s", hex), file, problem, error))
        return FALSE;
      *out_found += 1;
    }
  return TRUE;
}

static gboolean
report_local_blob (Ctx *ctx, Verify *self, const Digest *digest, const char *file, GError *problem, GError **error)
{
  g_autoptr (GError) unreadable = NULL;
  guint n_found = 0;
  g_autoptr (Recipe) recipe = blob_store_recipe (ctx, self->blobs, digest, &unreadable);
  if (recipe != NULL && !find_damaged_chunks (ctx, self, recipe, file, &n_found, error))
    {
      g_error_free (problem);
      return FALSE;
    }
  if (n_found == 0)
    return judge (self, name_object ("blob", digest), file, problem, error);
  g_error_free (problem);
  return TRUE;
}

static gboolean
hash_bytes (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  gpointer *pair = data;
  hasher_update (pair[0], bytes, size);
  on_bytes (size, pair[1]);
  return TRUE;
}

/* As a client reads it. */
static gboolean
read_whole_blob (Ctx *ctx, Verify *self, const Descriptor *blob, GError **error)
{
  g_autoptr (Hasher) hasher = hasher_new (blob->digest.algorithm);
  gpointer pair[] = { hasher, self };
  Digest actual;
  char text[DIGEST_STRING_SIZE];
  if (blob->size_bytes > 0
      && !repository_read_blob (ctx, self->repository, &blob->digest, 0, blob->size_bytes, hash_bytes, pair, error))
    return FALSE;
  hasher_finish (hasher, &actual);
  return digest_equal (&actual, &blob->digest)
         || am_fail (error, AM_ERROR_DATA_LOSS, "DigestMismatch", "its bytes are %s", digest_format (&actual, text));
}

static gboolean
check_size (const Descriptor *blob, guint64 size_bytes, GError **error)
{
  return size_bytes == blob->size_bytes
         || am_fail (error, AM_ERROR_DATA_LOSS, "SIZE_INVALID",
                     "it has %" G_GUINT64_FORMAT " bytes, the manifest says %" G_GUINT64_FORMAT, size_bytes,
                     blob->size_bytes);
}

static gboolean
verify_blob (Ctx *ctx, Verify *self, const Descriptor *blob, GError **error)
{
  GError *problem = NULL;
  guint64 size = 0;
  const char *file = descriptor_annotation (blob, ANNOTATION_FILEPATH);
  self->report->n_blobs++;
  transfer_file (self->events, file);
  if (!repository_blob_exists (ctx, self->repository, &blob->digest, &size, &problem)
      || !check_size (blob, size, &problem))
    return judge (self, name_object ("blob", &blob->digest), file, problem, error);
  gboolean good = self->blobs != NULL ? blob_store_verify (ctx, self->blobs, &blob->digest, on_bytes, self, &problem)
                                      : read_whole_blob (ctx, self, blob, &problem);
  transfer_file_done (self->events, file);
  if (good)
    return TRUE;
  return self->blobs != NULL && is_damage (problem)
           ? report_local_blob (ctx, self, &blob->digest, file, problem, error)
           : judge (self, name_object ("blob", &blob->digest), file, problem, error);
}

static gboolean verify_manifest (Ctx *ctx, Verify *self, const char *selector, int depth, Digest *out_digest,
                                 GError **error);

static gboolean
verify_child (Ctx *ctx, Verify *self, const Descriptor *child, int depth, GError **error)
{
  GError *problem = NULL;
  Digest digest;
  g_autofree char *selector = digest_to_string (&child->digest);
  return verify_manifest (ctx, self, selector, depth, &digest, &problem)
         || judge (self, name_object ("manifest", &child->digest), NULL, problem, error);
}

static gboolean
verify_refs (Ctx *ctx, Verify *self, const Manifest *manifest, int depth, GError **error)
{
  g_autoptr (GArray) refs = manifest_refs (manifest);
  for (guint i = 0; i < refs->len; i++)
    {
      const ManifestRef *ref = &g_array_index (refs, ManifestRef, i);
      if (ref->may_be_absent || !g_hash_table_add (self->seen, g_memdup2 (&ref->descriptor->digest, sizeof (Digest))))
        continue;
      if (!ctx_check (ctx, error)
          || !(ref->role == MANIFEST_REF_CHILD ? verify_child (ctx, self, ref->descriptor, depth + 1, error)
                                               : verify_blob (ctx, self, ref->descriptor, error)))
        return FALSE;
    }
  return TRUE;
}

static guint64
sum_of_blobs (const Manifest *manifest)
{
  g_autoptr (GArray) refs = manifest_refs (manifest);
  guint64 sum = 0;
  for (guint i = 0; i < refs->len; i++)
    if (g_array_index (refs, ManifestRef, i).role != MANIFEST_REF_CHILD)
      sum += g_array_index (refs, ManifestRef, i).descriptor->size_bytes;
  return sum;
}

static gboolean
verify_manifest (Ctx *ctx, Verify *self, const char *selector, int depth, Digest *out_digest, GError **error)
{
  g_autofree char *media_type = NULL;
  if (depth > MAX_INDEX_DEPTH)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "ManifestInvalid", "indexes lie too deep in one another");
  g_autoptr (GBytes) bytes = repository_get_manifest (ctx, self->repository, selector, &media_type, out_digest,
                                                      error);
  if (bytes == NULL)
    return FALSE;
  g_autoptr (Manifest) manifest = manifest_parse (bytes, media_type, error);
  if (manifest == NULL)
    return FALSE;
  self->report->n_manifests++;
  if (depth == 0)
    transfer_plan (self->events, sum_of_blobs (manifest), manifest->layers->len);
  return verify_refs (ctx, self, manifest, depth, error);
}

gboolean
artifact_verify (Ctx *ctx, Repository *repository, const char *selector, BlobStore *blobs,
                 const TransferEvents *events, VerifyReport *out_report, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (digest_hash, digest_equal_func, g_free, NULL);
  *out_report = (VerifyReport){ .damages = g_ptr_array_new_with_free_func (damage_free) };
  Verify self = { repository, repository->is_local ? blobs : NULL, events, seen, out_report };
  return verify_manifest (ctx, &self, selector, 0, &out_report->digest, error);
}
