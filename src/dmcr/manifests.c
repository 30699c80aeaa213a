/* Manifests, tags and referrers over HTTP. */
#include <string.h>

#include "base/text.h"
#include "dmcr/service.h"
#include "oci/reference.h"
#include "registry/manifest_store.h"
#include "storage/repository_links.h"

#define MAX_TAG_PARAMETERS 10u

gboolean
dmcr_get_manifest (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *repository = dmcr_repository (req, error);
  g_autofree char *media_type = NULL;
  Digest digest;
  if (repository == NULL)
    return FALSE;
  g_autoptr (GBytes) bytes = manifest_store_get (ctx, self->blobs, repository, http_request_param (req, "reference"),
                                                 &media_type, &digest, error);
  if (bytes == NULL)
    return FALSE;
  char text[DIGEST_STRING_SIZE];
  dmcr_digest_header (res, &digest);
  http_response_headerf (res, "ETag", "\"%s\"", digest_format (&digest, text));
  http_response_bytes (res, media_type, bytes);
  return TRUE;
}

static void
collect_tag (const char *name, const char *value, gpointer data)
{
  if (strcmp (name, "tag") == 0)
    g_ptr_array_add (data, g_strdup (value));
}

/* What the URL says the manifest shall be called: a digest to agree with, or a tag among others. */
static gboolean
name_manifest (HttpRequest *req, ManifestPut *put, Digest *expected, GPtrArray *tags, GError **error)
{
  const char *reference = http_request_param (req, "reference");
  gboolean is_digest;
  http_request_foreach_query (req, collect_tag, tags);
  if (tags->len > MAX_TAG_PARAMETERS)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "at most %u tags fit one request",
                    MAX_TAG_PARAMETERS);
  if (!reference_selector_parse (reference, &is_digest, expected, error))
    return FALSE;
  if (is_digest)
    put->expected = expected;
  else
    g_ptr_array_add (tags, g_strdup (reference));
  return TRUE;
}

/* PUT /v2/<name>/manifests/<reference>[?tag=...]* */
gboolean
dmcr_put_manifest (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *repository = dmcr_repository (req, error);
  g_autoptr (GPtrArray) tags = g_ptr_array_new_with_free_func (g_free);
  ManifestPut put = { .bytes = http_request_body (req),
                      .media_type = http_request_header (req, "Content-Type"),
                      .allow_sparse_index = TRUE,
                      .allow_missing_blobs = self->accept_sparse };
  ManifestPutResult result;
  Digest expected;
  char text[DIGEST_STRING_SIZE];
  if (repository == NULL || !name_manifest (req, &put, &expected, tags, error))
    return FALSE;
  guint n_tags = tags->len;
  g_ptr_array_add (tags, NULL);
  put.tags = (const char *const *) tags->pdata;
  if (!manifest_store_put (ctx, self->blobs, repository, &put, &result, error))
    return FALSE;
  http_response_status (res, 201);
  dmcr_location (res, repository, "manifests", digest_format (&result.digest, text));
  dmcr_digest_header (res, &result.digest);
  if (result.has_subject)
    http_response_header (res, "OCI-Subject", digest_format (&result.subject, text));
  for (guint i = 0; put.expected != NULL && i < n_tags; i++)
    http_response_header (res, "OCI-Tag", put.tags[i]);
  return TRUE;
}

gboolean
dmcr_delete_manifest (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *repository = dmcr_repository (req, error);
  if (repository == NULL
      || !manifest_store_remove (ctx, self->blobs, repository, http_request_param (req, "reference"), error))
    return FALSE;
  recent_clear (self->members);
  http_response_status (res, 202);
  return TRUE;
}

/* How many items a page may have: all of them without `n`. */
static gboolean
page_size (HttpRequest *req, guint64 *out_n, GError **error)
{
  const char *text = http_request_query (req, "n");
  *out_n = G_MAXUINT64;
  return text == NULL || text_parse_u64 (text, out_n)
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UNSUPPORTED", "n must be a number, not \"%.20s\"", text);
}

gboolean
dmcr_list_tags (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  ObjectStore *objects = blob_store_objects (self->blobs);
  const char *repository = dmcr_repository (req, error);
  const char *last = http_request_query (req, "last");
  guint64 n;
  gboolean exists;
  if (repository == NULL || !page_size (req, &n, error)
      || !repository_exists (ctx, objects, repository, &exists, error))
    return FALSE;
  if (!exists)
    return am_fail (error, AM_ERROR_NOT_FOUND, "NAME_UNKNOWN", "there is no repository %s", repository);
  g_autoptr (GPtrArray) tags = tag_list (ctx, objects, repository, error);
  if (tags == NULL)
    return FALSE;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "name", repository);
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (doc, root, "tags");
  const char *end = NULL;
  for (guint i = 0; i < tags->len && n > 0; i++)
    {
      const char *tag = g_ptr_array_index (tags, i);
      if (last != NULL && strcmp (tag, last) <= 0)
        continue;
      yyjson_mut_arr_add_str (doc, list, tag);
      end = tag;
      n--;
    }
  if (n == 0 && end != NULL && strcmp (end, g_ptr_array_index (tags, tags->len - 1)) != 0)
    http_response_headerf (res, "Link", "</v2/%s/tags/list?n=%s&last=%s>; rel=\"next\"", repository,
                           http_request_query (req, "n"), end);
  g_autofree char *body = json_write (doc, NULL);
  http_response_text (res, "application/json", body);
  return TRUE;
}

/* GET /v2/<name>/referrers/<digest>[?artifactType=]: an index, empty when there is none. */
gboolean
dmcr_list_referrers (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *repository = dmcr_repository (req, error);
  const char *artifact_type = http_request_query (req, "artifactType");
  g_autofree char *next = NULL;
  Digest subject;
  if (repository == NULL || !dmcr_digest_param (req, &subject, error))
    return FALSE;
  g_autoptr (GBytes) index = manifest_store_referrers (ctx, self->blobs, repository, &subject, artifact_type,
                                                       http_request_query (req, "after"), &next, error);
  if (index == NULL)
    return FALSE;
  if (artifact_type != NULL)
    http_response_header (res, "OCI-Filters-Applied", "artifactType");
  if (next != NULL)
    {
      g_autofree char *type = artifact_type != NULL ? g_uri_escape_string (artifact_type, NULL, FALSE) : NULL;
      http_response_headerf (res, "Link", "</v2/%s/referrers/%s?after=%s%s%s>; rel=\"next\"", repository,
                             http_request_param (req, "digest"), next, type != NULL ? "&artifactType=" : "",
                             type != NULL ? type : "");
    }
  http_response_bytes (res, OCI_INDEX, index);
  return TRUE;
}
