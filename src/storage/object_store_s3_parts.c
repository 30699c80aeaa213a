/* Objects of a bucket that others send in parts: object_parts.h over multipart uploads. */
#include "storage/object_store_s3_private.h"

#include "storage/object_parts.h"
#include "storage/s3_multipart.h"

static char *
begin (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  return s3_multipart_begin (ctx, ((S3Store *) base)->client, key, FALSE, NULL, error);
}

static char *
link_to (ObjectStore *base, const char *key, const char *id, guint number, guint ttl_s)
{
  g_autofree char *text = g_strdup_printf ("%u", number);
  const S3Pair query[] = { { "partNumber", text }, { "uploadId", id } };
  return s3_client_presign (((S3Store *) base)->client, "PUT", key, query, G_N_ELEMENTS (query), ttl_s);
}

static GPtrArray *
list (Ctx *ctx, ObjectStore *base, const char *key, const char *id, GError **error)
{
  return s3_multipart_list (ctx, ((S3Store *) base)->client, key, id, error);
}

static gboolean
complete (Ctx *ctx, ObjectStore *base, const char *key, const char *id, GPtrArray *parts, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < parts->len; i++)
    {
      const ObjectPart *part = g_ptr_array_index (parts, i);
      g_autofree char *quoted = g_markup_printf_escaped (
        "<Part><PartNumber>%u</PartNumber><ETag>\"%s\"</ETag></Part>", part->number, part->etag);
      g_string_append (text, quoted);
    }
  return s3_multipart_complete (ctx, ((S3Store *) base)->client, key, id, text->str, FALSE, error);
}

static gboolean
abort_upload (Ctx *ctx, ObjectStore *base, const char *key, const char *id, GError **error)
{
  return s3_multipart_abort (ctx, ((S3Store *) base)->client, key, id, error);
}

static gboolean
abort_below (Ctx *ctx, ObjectStore *base, const char *prefix, GError **error)
{
  guint n_aborted = 0;
  return s3_multipart_sweep (ctx, ((S3Store *) base)->client, prefix, G_MAXINT64, &n_aborted, error);
}

const ObjectPartsClass s3_store_parts = { begin, link_to, list, complete, abort_upload, abort_below };
