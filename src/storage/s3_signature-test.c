#include "storage/s3_signature.h"

#include <string.h>

#include "storage/s3_signature_vectors.h"

#define MAX_HEADERS 8

static void
add (S3Pair *headers, gsize *n, const char *name, const char *value)
{
  g_assert_cmpuint (*n, <, MAX_HEADERS);
  headers[(*n)++] = (S3Pair){ name, value };
}

static gsize
count (const S3Pair *pairs)
{
  gsize n = 0;
  while (n < 3 && pairs[n].name != NULL)
    n++;
  return n;
}

static void
test_vectors (void)
{
  char time[S3_TIME_SIZE];
  s3_time_text (VECTOR_TIME, time);
  for (gsize i = 0; i < G_N_ELEMENTS (vectors); i++)
    {
      S3Pair headers[MAX_HEADERS];
      gsize n = 0;
      g_autoptr (GString) path = g_string_new ("/bucket/");
      s3_encode (path, vectors[i].key, TRUE);
      g_assert_cmpstr (path->str, ==, vectors[i].path);
      for (gsize j = 0; j < count (vectors[i].headers); j++)
        add (headers, &n, vectors[i].headers[j].name, vectors[i].headers[j].value);
      add (headers, &n, "X-Amz-Date", time);
      add (headers, &n, "x-amz-content-sha256", VECTOR_PAYLOAD);
      add (headers, &n, "Host", vectors[i].host);
      if (vectors[i].token != NULL)
        add (headers, &n, "x-amz-security-token", vectors[i].token);
      S3Signer signer = { VECTOR_KEY, VECTOR_SECRET, vectors[i].token, vectors[i].region };
      S3Signed request = { vectors[i].method, path->str, vectors[i].query, count (vectors[i].query),
                           headers,           n,         VECTOR_PAYLOAD,   VECTOR_TIME };
      g_autofree char *made = s3_sign (&signer, &request);
      g_assert_cmpstr (made, ==, vectors[i].wanted);
      g_assert_null (strstr (made, VECTOR_SECRET));
    }
}

static void
test_presigned (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (presigned); i++)
    {
      const S3Pair host = { "Host", presigned[i].host };
      S3Signer signer = { VECTOR_KEY, VECTOR_SECRET, presigned[i].token, presigned[i].region };
      S3Signed request = {
        presigned[i].method, presigned[i].path, presigned[i].query, count (presigned[i].query), &host, 1,
        S3_UNSIGNED_PAYLOAD, VECTOR_TIME
      };
      g_autofree char *made = s3_presign (&signer, &request, presigned[i].ttl_s);
      g_autofree char *wanted = g_strconcat ("&X-Amz-Signature=", presigned[i].signature, NULL);
      g_autofree char *expires = g_strdup_printf ("X-Amz-Expires=%u&", presigned[i].ttl_s);
      g_assert_true (g_str_has_suffix (made, wanted));
      g_assert_nonnull (strstr (made, expires));
      g_assert_nonnull (strstr (made, "X-Amz-SignedHeaders=host"));
      g_assert_true ((strstr (made, "X-Amz-Security-Token=") != NULL) == (presigned[i].token != NULL));
      g_assert_null (strstr (made, VECTOR_SECRET));
    }
}

/* What signs alike must be sent alike, whatever order it was given in. */
static void
test_query_text (void)
{
  static const S3Pair query[] = { { "b", "" }, { "a-b", "1" }, { "a", "z y" }, { "a", "=" }, { "ab", "/" } };
  g_autofree char *text = s3_query_text (query, G_N_ELEMENTS (query));
  g_assert_cmpstr (text, ==, "a=%3D&a=z%20y&a-b=1&ab=%2F&b=");
  g_autofree char *none = s3_query_text (NULL, 0);
  g_assert_cmpstr (none, ==, "");
}

static void
test_header_order (void)
{
  static const S3Pair one[] = { { "x-amz-meta", "1" }, { "x-amz-meta-a", "2" }, { "host", "h" } };
  static const S3Pair other[] = { { "Host", "h " }, { "x-amz-meta-a", " 2" }, { "x-amz-meta", "1" } };
  S3Signer signer = { "k", "s", NULL, "r" };
  S3Signed first = { "GET", "/", NULL, 0, one, 3, S3_UNSIGNED_PAYLOAD, 0 };
  S3Signed second = { "GET", "/", NULL, 0, other, 3, S3_UNSIGNED_PAYLOAD, 0 };
  g_autofree char *a = s3_sign (&signer, &first), *b = s3_sign (&signer, &second);
  g_assert_cmpstr (a, ==, b);
  g_assert_nonnull (strstr (a, "SignedHeaders=host;x-amz-meta;x-amz-meta-a,"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/s3-signature/vectors", test_vectors);
  g_test_add_func ("/s3-signature/presigned", test_presigned);
  g_test_add_func ("/s3-signature/query-text", test_query_text);
  g_test_add_func ("/s3-signature/header-order", test_header_order);
  return g_test_run ();
}
