#include "registry/manifest_store.h"

#include <string.h>

#include "oci/reference.h"
#include "storage/repository_links.h"

/* Leaves room for the index around the descriptors of one page. */
#define REFERRERS_PAGE_BYTES (MANIFEST_MAX_BYTES - 4096)

/* Because the repository has no such manifest, or because there is no such repository. */
static gboolean
fail_unknown (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, GError **error)
{
  gboolean exists = FALSE;
  if (!repository_exists (ctx, blob_store_objects (blobs), repository, &exists, error))
    return FALSE;
  if (!exists)
    return am_fail (error, AM_ERROR_NOT_FOUND, "NAME_UNKNOWN", "there is no repository %s (asked for \"%s\")",
                    repository, reference);
  return am_fail (error, AM_ERROR_NOT_FOUND, "MANIFEST_UNKNOWN", "repository %s has no manifest \"%s\"", repository,
                  reference);
}

static gboolean
fail_needed (GError **error, const ManifestRef *ref)
{
  static const char *const roles[] = { "config", "layer", "manifest" };
  char text[DIGEST_STRING_SIZE];
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_BLOB_UNKNOWN",
                  "the manifest needs the %s %s, which is not in this repository; push it first", roles[ref->role],
                  digest_format (&ref->descriptor->digest, text));
}

/* Finds a member of the repository; NOT_FOUND counts as "not there". */
static gboolean
find_ref (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestRef *ref, gboolean *out_exists,
          guint64 *out_size, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  const Digest *digest = &ref->descriptor->digest;
  gboolean is_linked = FALSE;
  if (ref->role == MANIFEST_REF_CHILD ? !manifest_link_exists (ctx, objects, repository, digest, &is_linked, error)
                                      : !layer_link_exists (ctx, objects, repository, digest, &is_linked, error))
    return FALSE;
  *out_exists = FALSE;
  if (!is_linked)
    return TRUE;
  BlobInfo info;
  g_autoptr (GError) cause = NULL;
  if (blob_store_stat (ctx, blobs, digest, &info, &cause))
    {
      *out_exists = TRUE;
      *out_size = info.size_bytes;
      return TRUE;
    }
  if (am_error_is (cause, AM_ERROR_NOT_FOUND))
    return TRUE; /* a link that outlived its bytes is no member */
  g_propagate_error (error, g_steal_pointer (&cause));
  return FALSE;
}

static gboolean
check_ref (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestRef *ref, gboolean allow_absent,
           GError **error)
{
  gboolean exists = FALSE;
  guint64 size = 0;
  if (!find_ref (ctx, blobs, repository, ref, &exists, &size, error))
    return FALSE;
  if (!exists)
    return allow_absent || fail_needed (error, ref);
  char text[DIGEST_STRING_SIZE];
  if (size != ref->descriptor->size_bytes)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID",
                    "the manifest says that %s has %" G_GUINT64_FORMAT " bytes, but it has %" G_GUINT64_FORMAT,
                    digest_format (&ref->descriptor->digest, text), ref->descriptor->size_bytes, size);
  return TRUE;
}

static gboolean
check_refs (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestPut *put, const Manifest *manifest,
            GError **error)
{
  g_autoptr (GArray) refs = manifest_refs (manifest);
  /* Many files may share one content: ask once for each digest and role. */
  g_autoptr (GHashTable) seen = g_hash_table_new (digest_hash, digest_equal_func);
  for (guint i = 0; i < refs->len; i++)
    {
      const ManifestRef *ref = &g_array_index (refs, ManifestRef, i);
      const ManifestRef *earlier = g_hash_table_lookup (seen, &ref->descriptor->digest);
      if (earlier != NULL && (earlier->role == MANIFEST_REF_CHILD) == (ref->role == MANIFEST_REF_CHILD)
          && earlier->descriptor->size_bytes == ref->descriptor->size_bytes && !earlier->may_be_absent)
        continue;
      gboolean allow_absent = ref->may_be_absent || put->allow_missing_blobs
                              || (ref->role == MANIFEST_REF_CHILD && put->allow_sparse_index);
      if (!check_ref (ctx, blobs, repository, ref, allow_absent, error))
        return FALSE;
      g_hash_table_insert (seen, (gpointer) &ref->descriptor->digest, (gpointer) ref);
    }
  return TRUE;
}

static gboolean
check_put (const ManifestPut *put, Digest *out_digest, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (put->bytes, &size);
  digest_of (put->expected == NULL ? DIGEST_SHA256 : put->expected->algorithm, data, size, out_digest);
  char wanted[DIGEST_STRING_SIZE], actual[DIGEST_STRING_SIZE];
  if (put->expected != NULL && !digest_equal (put->expected, out_digest))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the manifest's digest is %s, not %s",
                    digest_format (out_digest, actual), digest_format (put->expected, wanted));
  for (guint i = 0; put->tags != NULL && put->tags[i] != NULL; i++)
    if (!tag_name_check (put->tags[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
publish (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestPut *put, const Manifest *manifest,
         const Digest *digest, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  /* The link comes before the bytes, so that no collection finds them without it. */
  if (!manifest_link_put (ctx, objects, repository, digest, error)
      || !blob_store_put_whole (ctx, blobs, digest, put->bytes, error))
    return FALSE;
  if (manifest->subject != NULL)
    {
      g_autofree char *descriptor = manifest_referrer_descriptor (manifest, digest, g_bytes_get_size (put->bytes));
      if (!referrer_put (ctx, objects, repository, &manifest->subject->digest, digest, descriptor, error))
        return FALSE;
    }
  for (guint i = 0; put->tags != NULL && put->tags[i] != NULL; i++)
    if (!tag_put (ctx, objects, repository, put->tags[i], digest, error))
      return FALSE;
  return TRUE;
}

gboolean
manifest_store_put (Ctx *ctx, BlobStore *blobs, const char *repository, const ManifestPut *put,
                    ManifestPutResult *out_result, GError **error)
{
  g_autoptr (Manifest) manifest = manifest_parse (put->bytes, put->media_type, error);
  ManifestPutResult result = { 0 };
  if (manifest == NULL || !check_put (put, &result.digest, error)
      || !check_refs (ctx, blobs, repository, put, manifest, error)
      || !publish (ctx, blobs, repository, put, manifest, &result.digest, error))
    return FALSE;
  if (manifest->subject != NULL)
    {
      result.has_subject = TRUE;
      result.subject = manifest->subject->digest;
    }
  if (out_result != NULL)
    *out_result = result;
  return TRUE;
}

/* The digest that a tag or digest text names, if the repository has that manifest. */
static gboolean
resolve (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, gboolean *out_is_digest,
         Digest *out_digest, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  gboolean exists = FALSE;
  g_autoptr (GError) cause = NULL;
  if (!reference_selector_parse (reference, out_is_digest, out_digest, error))
    return FALSE;
  if (!*out_is_digest && !tag_get (ctx, objects, repository, reference, out_digest, &cause))
    {
      if (am_error_is (cause, AM_ERROR_NOT_FOUND))
        return fail_unknown (ctx, blobs, repository, reference, error);
      g_propagate_error (error, g_steal_pointer (&cause));
      return FALSE;
    }
  if (!manifest_link_exists (ctx, objects, repository, out_digest, &exists, error))
    return FALSE;
  return exists || fail_unknown (ctx, blobs, repository, reference, error);
}

GBytes *
manifest_store_get (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, char **out_media_type,
                    Digest *out_digest, GError **error)
{
  Digest digest;
  gboolean is_digest = FALSE;
  if (!resolve (ctx, blobs, repository, reference, &is_digest, &digest, error))
    return NULL;
  g_autoptr (GError) cause = NULL;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, blobs, &digest, MANIFEST_MAX_BYTES, &cause);
  if (bytes == NULL)
    {
      if (am_error_is (cause, AM_ERROR_NOT_FOUND))
        fail_unknown (ctx, blobs, repository, reference, error);
      else
        g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  if (out_media_type != NULL)
    {
      g_autoptr (Manifest) manifest = manifest_parse (bytes, NULL, &cause);
      if (manifest == NULL)
        return am_fail_null (error, AM_ERROR_DATA_LOSS, "ManifestCorrupt", "the stored manifest \"%s\" of %s: %s",
                             reference, repository, cause->message);
      *out_media_type = g_steal_pointer (&manifest->media_type);
    }
  if (out_digest != NULL)
    *out_digest = digest;
  return g_steal_pointer (&bytes);
}

static gboolean
remove_tags_of (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, GError **error)
{
  g_autoptr (GPtrArray) tags = tag_list (ctx, objects, repository, error);
  if (tags == NULL)
    return FALSE;
  for (guint i = 0; i < tags->len; i++)
    {
      const char *tag = g_ptr_array_index (tags, i);
      Digest target;
      g_autoptr (GError) cause = NULL;
      if (!tag_get (ctx, objects, repository, tag, &target, &cause))
        {
          if (!am_error_is (cause, AM_ERROR_NOT_FOUND))
            {
              g_propagate_error (error, g_steal_pointer (&cause));
              return FALSE;
            }
          am_ignore (&cause, "the tag went meanwhile");
        }
      else if (digest_equal (&target, digest) && !tag_remove (ctx, objects, repository, tag, error))
        return FALSE;
    }
  return TRUE;
}

/* A manifest that cannot be read any more has no entry that could be found; removing it must still work. */
static gboolean
remove_referrer_entry (Ctx *ctx, BlobStore *blobs, const char *repository, const Digest *digest, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, blobs, digest, MANIFEST_MAX_BYTES, &cause);
  g_autoptr (Manifest) manifest = bytes == NULL ? NULL : manifest_parse (bytes, NULL, &cause);
  if (manifest == NULL)
    {
      if (am_error_retryable (cause) || am_error_is (cause, AM_ERROR_CANCELLED))
        {
          g_propagate_error (error, g_steal_pointer (&cause));
          return FALSE;
        }
      am_ignore (&cause, "a damaged manifest is removed");
      return TRUE;
    }
  return manifest->subject == NULL
         || referrer_remove (ctx, blob_store_objects (blobs), repository, &manifest->subject->digest, digest, error);
}

gboolean
manifest_store_remove (Ctx *ctx, BlobStore *blobs, const char *repository, const char *reference, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  Digest digest;
  gboolean is_digest = FALSE;
  if (!resolve (ctx, blobs, repository, reference, &is_digest, &digest, error))
    return FALSE;
  if (!is_digest)
    return tag_remove (ctx, objects, repository, reference, error);
  /* The revision link goes last: until then a repetition finds its way. */
  return remove_tags_of (ctx, objects, repository, &digest, error)
         && remove_referrer_entry (ctx, blobs, repository, &digest, error)
         && manifest_link_remove (ctx, objects, repository, &digest, error);
}

typedef struct {
  const char *artifact_type; /* or NULL */
  GString *text;             /* the index so far */
  gboolean has_last;
  Digest last; /* of the last one taken */
  gboolean is_full;
} ReferrersPage;

static gboolean
is_wanted (const ReferrersPage *self, GBytes *descriptor)
{
  g_autoptr (GError) problem = NULL;
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (descriptor, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, MANIFEST_MAX_BYTES, JSON_STRICT, &problem);
  if (doc == NULL || json_get_string (yyjson_doc_get_root (doc), "digest") == NULL)
    {
      am_ignore (&problem, "a damaged referrer entry is passed over");
      return FALSE;
    }
  return self->artifact_type == NULL
         || g_strcmp0 (json_get_string (yyjson_doc_get_root (doc), "artifactType"), self->artifact_type) == 0;
}

static gboolean
add_to_page (const Digest *referrer, GBytes *descriptor, gpointer data, gboolean *goes_on, GError **error)
{
  ReferrersPage *self = data;
  gsize size = 0;
  const char *bytes = g_bytes_get_data (descriptor, &size);
  if (!is_wanted (self, descriptor))
    return TRUE;
  self->is_full = self->has_last && self->text->len + size > REFERRERS_PAGE_BYTES;
  *goes_on = !self->is_full;
  if (self->is_full)
    return TRUE;
  g_string_append (self->text, self->has_last ? "," : "");
  g_string_append_len (self->text, bytes, (gssize) size);
  self->last = *referrer;
  self->has_last = TRUE;
  return TRUE;
}

GBytes *
manifest_store_referrers (Ctx *ctx, BlobStore *blobs, const char *repository, const Digest *subject,
                          const char *artifact_type, const char *after, char **out_next, GError **error)
{
  g_autoptr (GString) text = g_string_new ("{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[");
  ReferrersPage page = { .artifact_type = artifact_type, .text = text };
  Digest start;
  if ((after != NULL && !digest_parse (after, &start, error))
      || !referrer_walk (ctx, blob_store_objects (blobs), repository, subject, after != NULL ? &start : NULL,
                         add_to_page, &page, error))
    return NULL;
  *out_next = page.is_full ? digest_to_string (&page.last) : NULL;
  g_string_append (text, "]}");
  return g_string_free_to_bytes (g_steal_pointer (&text));
}
