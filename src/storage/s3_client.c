#include "storage/s3_client.h"

#include <string.h>

#include "base/digest.h"
#include "base/log.h"
#include "net/metrics.h"
#include "storage/s3_reply.h"
#include "storage/s3_xml.h"

#define MAX_ATTEMPTS 5
#define BACKOFF_BASE_MS 200
#define MAX_BACKOFF_MS 10000
#define MAX_HEADERS 16
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct S3Client {
  S3Config config;
  HttpClient *http;
  Metric *requests;
  char *origin, *host; /* of the bucket's requests */
  GMutex lock;         /* the rest */
  char *region;
  gint64 skew_s;
};

/* One call on its way through its attempts. */
typedef struct {
  S3Client *client;
  const S3Call *call;
  HttpReply *reply;
  char *what, *url, *path;
  char payload_sha256[65];
  char *checksum; /* the same in base64, when it is sent; or NULL */
  gboolean skew_learned, region_learned;
  S3Verdict verdict;
} Attempts;

static char *
host_of (const char *endpoint)
{
  return g_strdup (strstr (endpoint, "://") + 3);
}

S3Client *
s3_client_new (const S3Config *config, GError **error)
{
  static const char *const labels[] = { "method", "status", NULL };
  g_autoptr (S3Client) self = g_new0 (S3Client, 1);
  g_autofree char *host = host_of (config->endpoint);
  HttpClientConfig http = { .ca_file = config->ca_file, .max_attempts = 1 }; /* each attempt has its own signature */
  g_mutex_init (&self->lock);
  self->config = (S3Config){
    .bucket = g_strdup (config->bucket),
    .prefix = g_strdup (config->prefix),
    .path_style = config->path_style,
    .access_key_id = g_strdup (config->access_key_id),
    .secret_access_key = g_strdup (config->secret_access_key),
    .session_token = g_strdup (config->session_token),
    .ca_file = g_strdup (config->ca_file),
  };
  self->region = g_strdup (config->region);
  self->host = config->path_style ? g_strdup (host) : g_strconcat (config->bucket, ".", host, NULL);
  self->origin = g_strdup_printf ("%.*s%s", (int) (strlen (config->endpoint) - strlen (host)), config->endpoint,
                                  self->host);
  self->requests = metric_declare ("object_store_requests_total", METRIC_COUNTER,
                                   "Requests to the bucket, each attempt; status 0: no answer.", labels);
  self->http = http_client_new (&http, error);
  return self->http != NULL ? g_steal_pointer (&self) : NULL;
}

void
s3_client_free (S3Client *self)
{
  if (self == NULL)
    return;
  s3_config_clear (&self->config);
  http_client_free (self->http);
  g_mutex_clear (&self->lock);
  g_free (self->origin);
  g_free (self->host);
  g_free (self->region);
  g_free (self);
}

const char *
s3_client_prefix (S3Client *self)
{
  return self->config.prefix;
}

const char *
s3_client_bucket (S3Client *self)
{
  return self->config.bucket;
}

static char *
encode_path (S3Client *self, const char *key)
{
  GString *path = g_string_new ("/");
  if (self->config.path_style)
    g_string_append (path, self->config.bucket);
  if (key != NULL)
    {
      if (self->config.path_style)
        g_string_append_c (path, '/');
      s3_encode (path, self->config.prefix, TRUE);
      s3_encode (path, key, TRUE);
    }
  return g_string_free (path, FALSE);
}

static void
attempts_init (Attempts *self, S3Client *client, const S3Call *call, HttpReply *reply)
{
  g_autofree char *query = s3_query_text (call->query, call->n_query);
  *self = (Attempts){ .client = client, .call = call, .reply = reply };
  self->path = encode_path (client, call->key);
  self->url = g_strconcat (client->origin, self->path, *query != '\0' ? "?" : "", query, NULL);
  self->what = call->what != NULL  ? g_strdup (call->what)
               : call->key != NULL ? g_strconcat ("object ", call->key, NULL)
                                   : g_strconcat ("bucket ", client->config.bucket, NULL);
  if (call->body_size == 0)
    g_strlcpy (self->payload_sha256, EMPTY_SHA256, sizeof self->payload_sha256);
  else
    {
      Digest digest;
      digest_of (DIGEST_SHA256, call->body, call->body_size, &digest);
      digest_hex (&digest, self->payload_sha256);
      self->checksum = call->sends_checksum ? g_base64_encode (digest.bytes, 32) : NULL;
    }
}

static void
attempts_clear (Attempts *self)
{
  g_free (self->what);
  g_free (self->url);
  g_free (self->path);
  g_free (self->checksum);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Attempts, attempts_clear)

static void
add_header (GPtrArray *lines, const char *name, const char *value)
{
  g_ptr_array_add (lines, g_strdup_printf ("%s: %s", name, value));
}

/* All lines of an attempt, its signature among them. */
static GPtrArray *
sign (Attempts *self)
{
  S3Client *client = self->client;
  const S3Call *call = self->call;
  char time[S3_TIME_SIZE];
  S3Pair headers[MAX_HEADERS];
  gsize n = 0;
  g_assert (call->n_headers + 5 <= MAX_HEADERS);
  g_mutex_lock (&client->lock);
  g_autofree char *region = g_strdup (client->region);
  gint64 now_s = g_get_real_time () / G_USEC_PER_SEC + client->skew_s;
  g_mutex_unlock (&client->lock);
  s3_time_text (now_s, time);
  for (gsize i = 0; i < call->n_headers; i++)
    headers[n++] = call->headers[i];
  headers[n++] = (S3Pair){ "x-amz-date", time };
  headers[n++] = (S3Pair){ "x-amz-content-sha256", self->payload_sha256 };
  if (self->checksum != NULL)
    headers[n++] = (S3Pair){ "x-amz-checksum-sha256", self->checksum };
  if (client->config.session_token != NULL)
    headers[n++] = (S3Pair){ "x-amz-security-token", client->config.session_token };
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);
  for (gsize i = 0; i < n; i++)
    add_header (lines, headers[i].name, headers[i].value);
  headers[n++] = (S3Pair){ "host", client->host };
  S3Signer signer = { client->config.access_key_id, client->config.secret_access_key, client->config.session_token,
                      region };
  S3Signed request = {
    call->method, self->path, call->query, call->n_query, headers, n, self->payload_sha256, now_s
  };
  g_autofree char *authorization = s3_sign (&signer, &request);
  add_header (lines, "Authorization", authorization);
  g_ptr_array_add (lines, NULL);
  return lines;
}

static const char *
body_text (const HttpReply *reply, gsize *out_size)
{
  *out_size = 0;
  return reply->body != NULL ? g_bytes_get_data (reply->body, out_size) : NULL;
}

/* A status of success is only the answer's beginning where the store works on after it. */
static gboolean
is_whole (Attempts *self)
{
  gsize size;
  const char *text = body_text (self->reply, &size);
  return self->call->answer_root == NULL || s3_xml_is (text, size, self->call->answer_root);
}

static void
learn_region (Attempts *self, const char *region)
{
  S3Client *client = self->client;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&client->lock);
  self->region_learned = TRUE;
  if (region == NULL)
    return;
  self->verdict = S3_ANSWER_OTHER_REGION; /* also when another thread has learned it since this attempt was signed */
  if (strcmp (region, client->region) == 0)
    return;
  am_log_warning (NULL, "the bucket lies in another region", "region", region, "configured", client->region, NULL);
  g_free (client->region);
  client->region = g_strdup (region);
}

static void
learn_skew (Attempts *self)
{
  gint64 skew_s = s3_reply_clock_skew_s (self->reply, g_get_real_time () / G_USEC_PER_SEC);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->client->lock);
  self->skew_learned = TRUE;
  self->client->skew_s = skew_s;
  g_autofree char *text = g_strdup_printf ("%+" G_GINT64_FORMAT, skew_s);
  am_log_warning (NULL, "the object store's clock is another than this machine's", "seconds", text, NULL);
}

static gboolean
fail_answer (Attempts *self, GError **error)
{
  g_autofree char *region = NULL;
  S3Verdict verdict = s3_reply_fail (self->reply, self->what, &region, error);
  self->verdict = verdict == S3_ANSWER_PASSING ? S3_ANSWER_PASSING : S3_ANSWER_FINAL;
  if (verdict == S3_ANSWER_OTHER_REGION && !self->region_learned)
    learn_region (self, region);
  if (verdict == S3_ANSWER_CLOCK_SKEWED && !self->skew_learned)
    {
      learn_skew (self);
      self->verdict = S3_ANSWER_CLOCK_SKEWED;
    }
  return FALSE;
}

/* There was no answer. */
static gboolean
fail_transfer (Attempts *self, GError *problem, GError **error)
{
  const char *ca_file = self->client->config.ca_file;
  self->verdict = am_error_is (problem, AM_ERROR_UNAVAILABLE) ? S3_ANSWER_PASSING : S3_ANSWER_FINAL;
  if (am_error_has_reason (problem, "CertificateNotTrusted"))
    {
      g_autofree char *advice = g_strdup_printf (
        "%s (trusted are the CAs of %s: name the one that signed the endpoint's certificate with ca-file or "
        "AWS_CA_BUNDLE)",
        problem->message, ca_file != NULL ? ca_file : "this system");
      g_free (problem->message);
      problem->message = g_steal_pointer (&advice);
    }
  g_propagate_prefixed_error (error, problem, "%s: ", self->what);
  return FALSE;
}

static gboolean
attempt (Ctx *ctx, Attempts *self, GError **error)
{
  const S3Call *call = self->call;
  g_autoptr (GPtrArray) headers = sign (self);
  g_autoptr (GBytes) body = call->body != NULL ? g_bytes_new_static (call->body, call->body_size) : NULL;
  g_autoptr (GError) problem = NULL;
  HttpCall http = { .method = call->method,
                    .url = self->url,
                    .headers = (const char *const *) headers->pdata,
                    .body = body,
                    .upload_size = -1,
                    .download = call->download,
                    .download_data = call->download_data,
                    .reply_limit_bytes = S3_XML_MAX_BYTES,
                    .idempotent = TRUE,
                    .no_redirects = TRUE };
  http_reply_clear (self->reply);
  gboolean done = http_client_call (ctx, self->client->http, &http, self->reply, &problem);
  metric_add (self->client->requests, 1, call->method, am_u64 (self->reply->status), NULL);
  if (done && self->reply->status < 300 && is_whole (self))
    return TRUE;
  if (self->reply->status != 0)
    {
      fail_answer (self, error);
      if (problem != NULL && error != NULL && *error != NULL)
        am_error_set_retry_after_ms (*error, am_error_retry_after_ms (problem));
      return FALSE;
    }
  return fail_transfer (self, g_steal_pointer (&problem), error);
}

/* Full jitter; a server's own wish wins. */
static gint64
backoff_ms (guint n_failures, const GError *error)
{
  gint64 wished = am_error_retry_after_ms (error);
  gint64 ceiling = MIN (BACKOFF_BASE_MS << n_failures, MAX_BACKOFF_MS);
  return wished > 0 ? MIN (wished, 3 * MAX_BACKOFF_MS) : (gint64) g_random_double_range (0, (double) ceiling + 1);
}

/* Waits as long as the failure asks for; FALSE when there is no sense in another attempt. */
static gboolean
pause_before_retry (Ctx *ctx, Attempts *self, guint n_failures, const GError *failure)
{
  g_autoptr (GError) ignored = NULL;
  if (self->call->once || self->verdict == S3_ANSWER_FINAL || n_failures >= MAX_ATTEMPTS)
    return FALSE;
  gint64 delay_ms = self->verdict == S3_ANSWER_PASSING ? backoff_ms (n_failures, failure) : 0;
  if (ctx_remaining_ms (ctx) <= delay_ms)
    return FALSE; /* better the reason than "deadline exceeded" */
  am_log_debug (ctx, "the object store failed, trying again", "err", failure->message, "delay_ms",
                AM_U64 ((guint64) delay_ms), NULL);
  return ctx_sleep_ms (ctx, delay_ms, &ignored);
}

gboolean
s3_client_call (Ctx *ctx, S3Client *self, const S3Call *call, HttpReply *out_reply, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  g_auto (Attempts) state = { 0 };
  g_autoptr (GError) failure = NULL;
  attempts_init (&state, self, call, &reply);
  gboolean done = attempt (ctx, &state, &failure);
  for (guint n = 1; !done && pause_before_retry (ctx, &state, n, failure); n++)
    {
      g_clear_error (&failure);
      done = attempt (ctx, &state, &failure);
    }
  if (out_reply != NULL)
    {
      *out_reply = reply;
      reply = (HttpReply){ 0 };
    }
  if (!done)
    g_propagate_error (error, g_steal_pointer (&failure));
  return done;
}

char *
s3_client_presign (S3Client *self, const char *method, const char *key, const S3Pair *query, gsize n_query,
                   guint ttl_s)
{
  g_autofree char *path = encode_path (self, key);
  g_mutex_lock (&self->lock);
  g_autofree char *region = g_strdup (self->region);
  gint64 now_s = g_get_real_time () / G_USEC_PER_SEC + self->skew_s;
  g_mutex_unlock (&self->lock);
  const S3Pair host = { "host", self->host };
  S3Signer signer = { self->config.access_key_id, self->config.secret_access_key, self->config.session_token,
                      region };
  S3Signed request = { method, path, query, n_query, &host, 1, S3_UNSIGNED_PAYLOAD, now_s };
  g_autofree char *text = s3_presign (&signer, &request, ttl_s);
  return g_strconcat (self->origin, path, "?", text, NULL);
}
