#include "registry/manifest_store.h"

#include <string.h>

#include "oci/reference.h"
#include "storage/repository_links.h"

/* Whether the repository has what a manifest refers to. */
static gboolean
has_reference (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestRef *ref, gboolean *out_has,
               GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  const Digest *digest = &ref->descriptor->digest;
  BlobInfo info;
  g_autoptr (GError) problem = NULL;
  gboolean ok = ref->role == MANIFEST_REF_CHILD
                  ? manifest_link_exists (ctx, objects, repository, digest, out_has, error)
                  : layer_link_exists (ctx, objects, repository, digest, out_has, error);
  if (!ok || !*out_has)
    return ok;
  *out_has = blob_store_stat (ctx, blobs, digest, &info, &problem);
  if (*out_has || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
check_references (Ctx *ctx, BlobStore *blobs, const char *repository, const Manifest *manifest, gboolean sparse_index,
                  GError **error)
{
  g_autoptr (GArray) refs = manifest_refs (manifest);
  for (guint i = 0; i < refs->len; i++)
    {
      const ManifestRef *ref = &g_array_index (refs, ManifestRef, i);
      char text[DIGEST_STRING_SIZE];
      gboolean has = FALSE;
      if (!has_reference (ctx, blobs, repository, ref, &has, error))
        return FALSE;
      if (has || ref->may_be_absent || (sparse_index && ref->role == MANIFEST_REF_CHILD))
        continue;
      return am_fail (error, AM_ERROR_NOT_FOUND, "MANIFEST_BLOB_UNKNOWN",
                      "repository %s lacks %s, which the manifest refers to: push it first", repository,
                      digest_format (&ref->descriptor->digest, text));
    }
  return TRUE;
}

/* The manifest's digest by the algorithm that the reference asks for. */
static gboolean
name_manifest (const char *reference, GBytes *bytes, Digest *out_digest, gboolean *out_is_tag, GError **error)
{
  gboolean is_digest = FALSE;
  Digest wanted = { .algorithm = DIGEST_SHA256 };
  if (reference != NULL && !reference_selector_parse (reference, &is_digest, &wanted, error))
    return FALSE;
  digest_of (wanted.algorithm, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), out_digest);
  *out_is_tag = reference != NULL && !is_digest;
  if (!is_digest || digest_equal (&wanted, out_digest))
    return TRUE;
  char text[DIGEST_STRING_SIZE];
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the manifest's digest is %s, not %s",
                  digest_format (out_digest, text), reference);
}

static gboolean
check_tags (GPtrArray *tags, GError **error)
{
  for (guint i = 0; tags != NULL && i < tags->len; i++)
    if (!tag_name_check (g_ptr_array_index (tags, i), error))
      return FALSE;
  return TRUE;
}

static gboolean
put_links (Ctx *ctx, ObjectStore *objects, const char *repository, const ManifestPut *put, gboolean is_tag,
           const Manifest *manifest, const Digest *digest, gsize size, GError **error)
{
  if (manifest->subject != NULL)
    {
      g_autofree char *descriptor = manifest_referrer_descriptor (manifest, digest, size);
      if (!referrer_put (ctx, objects, repository, &manifest->subject->digest, digest, descriptor, error))
        return FALSE;
    }
  if (!manifest_link_put (ctx, objects, repository, digest, error)
      || (is_tag && !tag_put (ctx, objects, repository, put->reference, digest, error)))
    return FALSE;
  for (guint i = 0; put->more_tags != NULL && i < put->more_tags->len; i++)
    if (!tag_put (ctx, objects, repository, g_ptr_array_index (put->more_tags, i), digest, error))
      return FALSE;
  return TRUE;
}

gboolean
manifest_store_put (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestPut *put, GBytes *bytes,
                    Digest *out_digest, gboolean *out_has_subject, Digest *out_subject, GError **error)
{
  gboolean is_tag;
  Digest digest;
  g_autoptr (Manifest) manifest = NULL;
  if (!repository_name_check (repository, error) || !name_manifest (put->reference, bytes, &digest, &is_tag, error)
      || !check_tags (put->more_tags, error))
    return FALSE;
  manifest = manifest_parse (bytes, put->media_type, error);
  if (manifest == NULL || !check_references (ctx, blobs, repository, manifest, put->sparse_index, error)
      || !blob_store_put_whole (ctx, blobs, &digest, bytes, error)
      || !put_links (ctx, blob_store_objects (blobs), repository, put, is_tag, manifest, &digest,
                     g_bytes_get_size (bytes), error))
    return FALSE;
  *out_digest = digest;
  if (out_has_subject != NULL)
    *out_has_subject = manifest->subject != NULL;
  if (out_subject != NULL && manifest->subject != NULL)
    *out_subject = manifest->subject->digest;
  return TRUE;
}

/* A manifest that is not there: because the repository is not, or only it. */
static gboolean
fail_unknown (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, GError **error)
{
  gboolean exists = FALSE;
  if (!repository_exists (ctx, blob_store_objects (blobs), repository, &exists, error))
    return FALSE;
  return am_fail (error, AM_ERROR_NOT_FOUND, exists ? "MANIFEST_UNKNOWN" : "NAME_UNKNOWN",
                  exists ? "repository %s has no manifest %s" : "there is no repository %s (asked for %s)", repository,
                  reference);
}

gboolean
manifest_store_resolve (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, Digest *out_digest,
                        GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  gboolean is_digest;
  gboolean found = FALSE;
  Digest digest;
  g_autoptr (GError) problem = NULL;
  if (!repository_name_check (repository, error)
      || !reference_selector_parse (reference, &is_digest, &digest, error))
    return FALSE;
  if (is_digest && !manifest_link_exists (ctx, objects, repository, &digest, &found, error))
    return FALSE;
  if (!is_digest)
    found = tag_get (ctx, objects, repository, reference, &digest, &problem);
  if (!found && (problem == NULL || am_error_is (problem, AM_ERROR_NOT_FOUND)))
    return fail_unknown (ctx, blobs, repository, reference, error);
  if (!found)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  *out_digest = digest;
  return TRUE;
}

GBytes *
manifest_store_get (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, char **out_media_type,
                    Digest *out_digest, GError **error)
{
  Digest digest;
  g_autoptr (GError) problem = NULL;
  if (!manifest_store_resolve (ctx, blobs, repository, reference, &digest, error))
    return NULL;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, blobs, &digest, MANIFEST_MAX_BYTES, &problem);
  if (bytes == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "MANIFEST_UNKNOWN", "manifest %s of %s is lost from the store",
                         reference, repository);
  if (bytes == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  g_autoptr (Manifest) manifest = out_media_type != NULL ? manifest_parse (bytes, NULL, error) : NULL;
  if (out_media_type != NULL && manifest == NULL)
    return NULL;
  if (out_media_type != NULL)
    *out_media_type = g_strdup (manifest->media_type);
  if (out_digest != NULL)
    *out_digest = digest;
  return g_steal_pointer (&bytes);
}

/* The entry under the manifest's subject. A damaged manifest has none that could be found. */
static gboolean
remove_referrer (Ctx *ctx, BlobStore *blobs, const char *repository, const Digest *digest, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, blobs, digest, MANIFEST_MAX_BYTES, &problem);
  g_autoptr (Manifest) manifest = bytes != NULL ? manifest_parse (bytes, NULL, &problem) : NULL;
  if (manifest == NULL)
    {
      am_ignore (&problem, "removing a manifest that cannot be read");
      return TRUE;
    }
  return manifest->subject == NULL
         || referrer_remove (ctx, blob_store_objects (blobs), repository, &manifest->subject->digest, digest, error);
}

static gboolean
remove_tags_of (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, GError **error)
{
  g_autoptr (GPtrArray) tags = tag_list (ctx, objects, repository, error);
  for (guint i = 0; tags != NULL && i < tags->len; i++)
    {
      const char *tag = g_ptr_array_index (tags, i);
      Digest target;
      g_autoptr (GError) problem = NULL;
      if (!tag_get (ctx, objects, repository, tag, &target, &problem))
        am_ignore (&problem, "the tag went meanwhile or is damaged");
      else if (digest_equal (&target, digest) && !tag_remove (ctx, objects, repository, tag, error))
        return FALSE;
    }
  return tags != NULL;
}

gboolean
manifest_store_remove (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  gboolean is_digest;
  Digest digest;
  if (!reference_selector_parse (reference, &is_digest, &digest, error)
      || !manifest_store_resolve (ctx, blobs, repository, reference, &digest, error))
    return FALSE;
  if (!is_digest)
    return tag_remove (ctx, objects, repository, reference, error);
  return remove_tags_of (ctx, objects, repository, &digest, error)
         && remove_referrer (ctx, blobs, repository, &digest, error)
         && manifest_link_remove (ctx, objects, repository, &digest, error);
}
