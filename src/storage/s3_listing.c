#include "storage/s3_listing.h"

#include <string.h>

#define MAX_PARAMETERS 8

/* FALSE for a key that does not lie below it, which was not asked for. */
static gboolean
strip_prefix (char **key, const char *prefix)
{
  if (!g_str_has_prefix (*key, prefix))
    return FALSE;
  memmove (*key, *key + strlen (prefix), strlen (*key + strlen (prefix)) + 1);
  return TRUE;
}

static gboolean
strip_prefixes (S3Listing *page, const char *prefix, GError **error)
{
  gboolean ok = TRUE;
  for (guint i = 0; i < page->objects->len; i++)
    ok &= strip_prefix (&g_array_index (page->objects, S3Object, i).key, prefix);
  for (guint i = 0; i < page->folders->len; i++)
    ok &= strip_prefix ((char **) &g_ptr_array_index (page->folders, i), prefix);
  return ok || am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store lists other keys than was asked for");
}

gboolean
s3_list_page (Ctx *ctx, S3Client *client, const S3ListCall *call, S3Listing *out_page, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  g_auto (S3Listing) page = { 0 };
  const char *base = s3_client_prefix (client);
  g_autofree char *prefix = g_strconcat (base, call->prefix, NULL);
  g_autofree char *after = call->after != NULL ? g_strconcat (base, call->after, NULL) : NULL;
  g_autofree char *limit = g_strdup_printf ("%u", call->limit);
  const S3Pair all[] = { { "list-type", "2" },
                         { "encoding-type", "url" },
                         { "prefix", prefix },
                         { "max-keys", limit },
                         { "delimiter", call->delimiter },
                         { "start-after", call->token == NULL ? after : NULL },
                         { "continuation-token", call->token } };
  S3Pair query[MAX_PARAMETERS];
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i].value != NULL)
      query[n++] = all[i];
  S3Call list = { .method = "GET", .query = query, .n_query = n, .answer_root = "ListBucketResult" };
  if (!s3_client_call (ctx, client, &list, &reply, error))
    return FALSE;
  gsize size;
  const char *text = g_bytes_get_data (reply.body, &size);
  if (!s3_listing_parse (text, size, &page, error) || !strip_prefixes (&page, base, error))
    return FALSE;
  *out_page = page;
  page = (S3Listing){ 0 };
  return TRUE;
}

static char *
md5_base64 (const char *text, gsize size)
{
  guint8 md5[16];
  gsize md5_size = sizeof md5;
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_MD5);
  g_checksum_update (sum, (const guchar *) text, (gssize) size);
  g_checksum_get_digest (sum, md5, &md5_size);
  return g_base64_encode (md5, md5_size);
}

gboolean
s3_remove_batch (Ctx *ctx, S3Client *client, const char *const *keys, gsize n_keys, GError **error)
{
  static const S3Pair query[] = { { "delete", "" } };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GString) body = g_string_new (
    "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
  for (gsize i = 0; i < n_keys; i++)
    {
      g_autofree char *key = g_markup_printf_escaped ("<Object><Key>%s%s</Key></Object>", s3_client_prefix (client),
                                                      keys[i]);
      g_string_append (body, key);
    }
  g_string_append (body, "</Delete>");
  g_autofree char *md5 = md5_base64 (body->str, body->len); /* the one sum that every store takes here */
  const S3Pair headers[] = { { "content-md5", md5 }, { "content-type", "application/xml" } };
  S3Call call = { .method = "POST",
                  .query = query,
                  .n_query = 1,
                  .headers = headers,
                  .n_headers = 2,
                  .body = body->str,
                  .body_size = body->len,
                  .answer_root = "DeleteResult" };
  if (!s3_client_call (ctx, client, &call, &reply, error))
    return FALSE;
  gsize size;
  const char *text = g_bytes_get_data (reply.body, &size);
  return s3_delete_result_check (text, size, error);
}
