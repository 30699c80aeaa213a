#include "storage/s3_signature.h"

#include <string.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define SHA256_SIZE 32

void
s3_encode (GString *out, const char *text, gboolean keep_slash)
{
  static const char hex[] = "0123456789ABCDEF";
  for (const char *at = text; *at != '\0'; at++)
    if (g_ascii_isalnum (*at) || strchr ("-._~", *at) != NULL || (keep_slash && *at == '/'))
      g_string_append_c (out, *at);
    else
      {
        const char escape[3] = { '%', hex[(guchar) *at >> 4], hex[(guchar) *at & 15] };
        g_string_append_len (out, escape, sizeof escape);
      }
}

/* By the names of "name=value" or "name:value", then by the values: comparing whole texts would put "a-b=" before
 * "a=". */
static gint
compare_pairs (gconstpointer a, gconstpointer b)
{
  const char *left = *(char *const *) a, *right = *(char *const *) b;
  gsize left_size = strcspn (left, "=:"), right_size = strcspn (right, "=:");
  int order = memcmp (left, right, MIN (left_size, right_size));
  if (order == 0 && left_size != right_size)
    order = left_size < right_size ? -1 : 1;
  return order != 0 ? order : strcmp (left + left_size, right + right_size);
}

char *
s3_query_text (const S3Pair *query, gsize n_query)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func (g_free);
  for (gsize i = 0; i < n_query; i++)
    {
      GString *part = g_string_new (NULL);
      s3_encode (part, query[i].name, FALSE);
      g_string_append_c (part, '=');
      s3_encode (part, query[i].value, FALSE);
      g_ptr_array_add (parts, g_string_free (part, FALSE));
    }
  g_ptr_array_sort (parts, compare_pairs);
  g_ptr_array_add (parts, NULL);
  return g_strjoinv ("&", (char **) parts->pdata);
}

void
s3_time_text (gint64 time_s, char out[S3_TIME_SIZE])
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (time_s);
  g_autofree char *text = time != NULL ? g_date_time_format (time, "%Y%m%dT%H%M%SZ") : NULL;
  g_strlcpy (out, text != NULL ? text : "", S3_TIME_SIZE);
}

/* Without blanks around it, and with single ones inside. */
static void
append_trimmed (GString *out, const char *value)
{
  g_auto (GStrv) words = g_strsplit_set (value, " \t", -1);
  const char *separator = "";
  for (guint i = 0; words[i] != NULL; i++)
    if (words[i][0] != '\0')
      {
        g_string_append_printf (out, "%s%s", separator, words[i]);
        separator = " ";
      }
}

/* "name:value" lines in the order of their lower-case names. */
static GPtrArray *
header_lines (const S3Signed *request)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);
  for (gsize i = 0; i < request->n_headers; i++)
    {
      g_autofree char *name = g_ascii_strdown (request->headers[i].name, -1);
      GString *line = g_string_new (name);
      g_string_append_c (line, ':');
      append_trimmed (line, request->headers[i].value);
      g_ptr_array_add (lines, g_string_free (line, FALSE));
    }
  g_ptr_array_sort (lines, compare_pairs);
  return lines;
}

static char *
signed_names (GPtrArray *lines)
{
  GString *names = g_string_new (NULL);
  for (guint i = 0; i < lines->len; i++)
    {
      const char *line = g_ptr_array_index (lines, i);
      g_string_append_printf (names, "%s%.*s", i > 0 ? ";" : "", (int) strcspn (line, ":"), line);
    }
  return g_string_free (names, FALSE);
}

static char *
canonical_request (const S3Signed *request, GPtrArray *lines, const char *names)
{
  g_autofree char *query = s3_query_text (request->query, request->n_query);
  GString *text = g_string_new (NULL);
  g_string_append_printf (text, "%s\n%s\n%s\n", request->method, request->path, query);
  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf (text, "%s\n", (const char *) g_ptr_array_index (lines, i));
  g_string_append_printf (text, "\n%s\n%s", names, request->payload_sha256);
  return g_string_free (text, FALSE);
}

static void
hmac (const guint8 *key, gsize key_size, const char *text, guint8 out[SHA256_SIZE])
{
  gsize size = SHA256_SIZE;
  GHmac *state = g_hmac_new (G_CHECKSUM_SHA256, key, key_size);
  g_hmac_update (state, (const guchar *) text, (gssize) strlen (text));
  g_hmac_get_digest (state, out, &size);
  g_hmac_unref (state);
}

static void
signing_key (const S3Signer *signer, const char *date, guint8 out[SHA256_SIZE])
{
  g_autofree char *secret = g_strconcat ("AWS4", signer->secret_access_key, NULL);
  hmac ((const guint8 *) secret, strlen (secret), date, out);
  hmac (out, SHA256_SIZE, signer->region, out);
  hmac (out, SHA256_SIZE, "s3", out);
  hmac (out, SHA256_SIZE, "aws4_request", out);
  explicit_bzero (secret, strlen (secret));
}

/* "20261130/us-east-1/s3/aws4_request" */
static char *
scope_of (const S3Signer *signer, const char *time)
{
  return g_strdup_printf ("%.8s/%s/s3/aws4_request", time, signer->region);
}

static char *
signature_of (const S3Signer *signer, const S3Signed *request, GPtrArray *lines, const char *names)
{
  char time[S3_TIME_SIZE];
  guint8 key[SHA256_SIZE];
  g_autofree char *canonical = canonical_request (request, lines, names);
  g_autofree char *canonical_sha256 = g_compute_checksum_for_string (G_CHECKSUM_SHA256, canonical, -1);
  s3_time_text (request->time_s, time);
  g_autofree char *date = g_strndup (time, 8), *scope = scope_of (signer, time);
  g_autofree char *to_sign = g_strjoin ("\n", ALGORITHM, time, scope, canonical_sha256, NULL);
  signing_key (signer, date, key);
  char *signature = g_compute_hmac_for_string (G_CHECKSUM_SHA256, key, sizeof key, to_sign, -1);
  explicit_bzero (key, sizeof key);
  return signature;
}

char *
s3_sign (const S3Signer *signer, const S3Signed *request)
{
  char time[S3_TIME_SIZE];
  g_autoptr (GPtrArray) lines = header_lines (request);
  g_autofree char *names = signed_names (lines);
  s3_time_text (request->time_s, time);
  g_autofree char *scope = scope_of (signer, time);
  g_autofree char *signature = signature_of (signer, request, lines, names);
  return g_strdup_printf (ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s", signer->access_key_id, scope,
                          names, signature);
}

char *
s3_presign (const S3Signer *signer, const S3Signed *request, guint ttl_s)
{
  char time[S3_TIME_SIZE];
  g_autoptr (GPtrArray) lines = header_lines (request);
  g_autofree char *names = signed_names (lines), *ttl = g_strdup_printf ("%u", ttl_s);
  g_autoptr (GArray) query = g_array_new (FALSE, FALSE, sizeof (S3Pair));
  s3_time_text (request->time_s, time);
  g_autofree char *scope = scope_of (signer, time);
  g_autofree char *credential = g_strconcat (signer->access_key_id, "/", scope, NULL);
  const S3Pair added[] = { { "X-Amz-Algorithm", ALGORITHM }, { "X-Amz-Credential", credential },
                           { "X-Amz-Date", time },           { "X-Amz-Expires", ttl },
                           { "X-Amz-SignedHeaders", names }, { "X-Amz-Security-Token", signer->session_token } };
  g_array_append_vals (query, request->query, (guint) request->n_query);
  g_array_append_vals (query, added, G_N_ELEMENTS (added) - (signer->session_token == NULL));
  S3Signed whole = *request;
  whole.query = (const S3Pair *) (gpointer) query->data;
  whole.n_query = query->len;
  whole.payload_sha256 = S3_UNSIGNED_PAYLOAD;
  g_autofree char *signature = signature_of (signer, &whole, lines, names);
  g_autofree char *text = s3_query_text (whole.query, whole.n_query);
  return g_strconcat (text, "&X-Amz-Signature=", signature, NULL);
}
