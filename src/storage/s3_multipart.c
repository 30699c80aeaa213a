#include "storage/s3_multipart.h"

#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "storage/s3_xml.h"

#define SHA256_SIZE 32
#define MAX_PAGES 100 /* of a listing; the rest is for another time */

gsize
s3_part_bytes (guint n_parts)
{
  return n_parts < S3_MAX_PARTS / 2 ? 16u << 20 : 64u << 20;
}

static const char *
text_of (const HttpReply *reply, gsize *out_size)
{
  return g_bytes_get_data (reply->body, out_size);
}

char *
s3_multipart_begin (Ctx *ctx, S3Client *client, const char *key, gboolean sends_checksum, const S3Pair *meta,
                    GError **error)
{
  static const S3Pair query[] = { { "uploads", "" } };
  S3Pair headers[2];
  gsize n = 0, size;
  g_auto (HttpReply) reply = { 0 };
  if (sends_checksum)
    headers[n++] = (S3Pair){ "x-amz-checksum-algorithm", "SHA256" };
  if (meta != NULL)
    headers[n++] = *meta;
  S3Call call = { .method = "POST",
                  .key = key,
                  .query = query,
                  .n_query = 1,
                  .headers = headers,
                  .n_headers = n,
                  .body = "",
                  .answer_root = "InitiateMultipartUploadResult" };
  if (!s3_client_call (ctx, client, &call, &reply, error))
    return NULL;
  const char *text = text_of (&reply, &size);
  char *id = s3_xml_value (text, size, "InitiateMultipartUploadResult/UploadId");
  if (id == NULL || *id == '\0')
    am_fail (error, AM_ERROR_DATA_LOSS, NULL, "object %s: the object store began an upload without a name", key);
  if (id != NULL && *id == '\0')
    g_clear_pointer (&id, g_free);
  return id;
}

static void
add_part (GString *parts, guint number, const char *etag, gconstpointer data, gsize size, gboolean sends_checksum)
{
  g_autofree char *quoted = g_markup_escape_text (etag, -1);
  g_string_append_printf (parts, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag>", number, quoted);
  if (sends_checksum)
    {
      Digest digest;
      digest_of (DIGEST_SHA256, data, size, &digest);
      g_autofree char *sum = g_base64_encode (digest.bytes, SHA256_SIZE);
      g_string_append_printf (parts, "<ChecksumSHA256>%s</ChecksumSHA256>", sum);
    }
  g_string_append (parts, "</Part>");
}

gboolean
s3_multipart_send (Ctx *ctx, S3Client *client, const char *key, const char *id, guint number, gconstpointer data,
                   gsize size, gboolean sends_checksum, GString *parts, GError **error)
{
  g_autofree char *text = g_strdup_printf ("%u", number);
  const S3Pair query[] = { { "partNumber", text }, { "uploadId", id } };
  g_auto (HttpReply) reply = { 0 };
  S3Call call = { .method = "PUT",
                  .key = key,
                  .query = query,
                  .n_query = 2,
                  .body = data,
                  .body_size = size,
                  .sends_checksum = sends_checksum };
  if (!s3_client_call (ctx, client, &call, &reply, error))
    return FALSE;
  const char *etag = http_reply_header (&reply, "etag");
  if (etag == NULL)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "object %s: the object store does not name the part it took",
                    key);
  add_part (parts, number, etag, data, size, sends_checksum);
  return TRUE;
}

GPtrArray *
s3_multipart_list (Ctx *ctx, S3Client *client, const char *key, const char *id, GError **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) object_part_free);
  guint marker = 0, next = 0;
  do
    {
      g_autofree char *after = g_strdup_printf ("%u", marker);
      const S3Pair query[] = { { "uploadId", id }, { "max-parts", "1000" }, { "part-number-marker", after } };
      g_auto (HttpReply) reply = { 0 };
      gsize size;
      S3Call call = {
        .method = "GET", .key = key, .query = query, .n_query = marker > 0 ? 3 : 2, .answer_root = "ListPartsResult"
      };
      if (!s3_client_call (ctx, client, &call, &reply, error))
        return NULL;
      const char *text = text_of (&reply, &size);
      if (!s3_parts_parse (text, size, parts, &next, error))
        return NULL;
      if (next != 0 && next <= marker)
        return am_fail_null (error, AM_ERROR_DATA_LOSS, NULL, "the object store's list of parts does not end");
      marker = next;
    }
  while (marker != 0);
  return g_steal_pointer (&parts);
}

gboolean
s3_multipart_complete (Ctx *ctx, S3Client *client, const char *key, const char *id, const char *parts,
                       gboolean if_absent, GError **error)
{
  const S3Pair query[] = { { "uploadId", id } };
  static const S3Pair headers[] = { { "content-type", "application/xml" }, { "if-none-match", "*" } };
  g_autofree char *body = g_strconcat ("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
                                       parts, "</CompleteMultipartUpload>", NULL);
  S3Call call = { .method = "POST",
                  .key = key,
                  .query = query,
                  .n_query = 1,
                  .headers = headers,
                  .n_headers = if_absent ? 2 : 1,
                  .body = body,
                  .body_size = strlen (body),
                  .answer_root = "CompleteMultipartUploadResult" };
  return s3_client_call (ctx, client, &call, NULL, error);
}

gboolean
s3_multipart_abort (Ctx *ctx, S3Client *client, const char *key, const char *id, GError **error)
{
  const S3Pair query[] = { { "uploadId", id } };
  S3Call call = { .method = "DELETE", .key = key, .query = query, .n_query = 1 };
  g_autoptr (GError) problem = NULL;
  if (s3_client_call (ctx, client, &call, NULL, &problem) || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
list_uploads (Ctx *ctx, S3Client *client, const char *prefix, const S3Uploads *before, S3Uploads *out_page,
              GError **error)
{
  const S3Pair all[] = { { "uploads", "" },
                         { "prefix", prefix },
                         { "key-marker", before->next_key },
                         { "upload-id-marker", before->next_id } };
  S3Pair query[G_N_ELEMENTS (all)];
  gsize n = 0, size;
  g_auto (HttpReply) reply = { 0 };
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i].value != NULL)
      query[n++] = all[i];
  S3Call call = { .method = "GET", .query = query, .n_query = n, .answer_root = "ListMultipartUploadsResult" };
  if (!s3_client_call (ctx, client, &call, &reply, error))
    return FALSE;
  const char *text = text_of (&reply, &size);
  return s3_uploads_parse (text, size, out_page, error);
}

static gboolean
sweep_page (Ctx *ctx, S3Client *client, const S3Uploads *page, const char *prefix, gint64 before_ms, guint *n_aborted,
            GError **error)
{
  gsize n_own = strlen (s3_client_prefix (client));
  for (guint i = 0; i < page->uploads->len; i++)
    {
      const S3Upload *upload = &g_array_index (page->uploads, S3Upload, i);
      if (upload->begun_ms >= before_ms || !g_str_has_prefix (upload->key, prefix))
        continue;
      if (!s3_multipart_abort (ctx, client, upload->key + n_own, upload->id, error))
        return FALSE;
      (*n_aborted)++;
    }
  return TRUE;
}

gboolean
s3_multipart_sweep (Ctx *ctx, S3Client *client, const char *prefix, gint64 before_ms, guint *n_aborted,
                    GError **error)
{
  g_autofree char *whole = g_strconcat (s3_client_prefix (client), prefix, NULL);
  g_auto (S3Uploads) page = { 0 };
  for (guint i = 0; i < MAX_PAGES; i++)
    {
      g_auto (S3Uploads) before = page;
      page = (S3Uploads){ 0 };
      if (!list_uploads (ctx, client, whole, &before, &page, error)
          || !sweep_page (ctx, client, &page, whole, before_ms, n_aborted, error))
        return FALSE;
      if (page.next_key == NULL)
        return TRUE;
    }
  return TRUE;
}
