#include "net/http_client.h"

#include <string.h>

#include "base/log.h"
#include "net/http_reply.h"
#include "net/http_transfer.h"

#define MAX_IDLE_HANDLES 32
#define MAX_BACKOFF_MS (10 * 1000)
#define BUFFER_BYTES (256 * 1024)
/* A connection kept longer may be closing at the other end just now; a call that must not be sent twice
 * does not take that chance. */
#define CAUTIOUS_AGE_S 5L

struct HttpClient {
  HttpClientConfig config; /* defaults filled in; its strings are owned */
  GMutex lock;
  GQueue idle;             /* HttpHandle, last used first */
  GHashTable *credentials; /* origin -> Authorization value */
  HttpLoop *loop;          /* when multiplexed */
};

/* One call on its way through redirects and retries. */
typedef struct {
  Ctx *ctx;
  HttpClient *client;
  const HttpCall *call;
  HttpReply *reply;
  HttpFailure failure;
  gboolean taken, fed; /* bytes went to the server, to the sink */
  gboolean resendable; /* by method, or said so */
} Call;

static void
handle_free (gpointer data)
{
  http_handle_free (data);
}

static gpointer
init_curl (gpointer data)
{
  return GINT_TO_POINTER (curl_global_init (CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

static gint64
or_default (gint64 value, gint64 otherwise)
{
  return value > 0 ? value : otherwise;
}

HttpClient *
http_client_new (const HttpClientConfig *config, GError **error)
{
  static GOnce once = G_ONCE_INIT;
  if (!GPOINTER_TO_INT (g_once (&once, init_curl, NULL)))
    return am_fail_null (error, AM_ERROR_INTERNAL, NULL, "libcurl cannot be set up");
  HttpClient *self = g_new0 (HttpClient, 1);
  self->config = *config;
  self->config.user_agent = g_strdup (config->user_agent != NULL ? config->user_agent
                                                                 : "ai-models/" AI_MODELS_VERSION);
  self->config.ca_file = g_strdup (config->ca_file);
  self->config.ca_pem = g_strdup (config->ca_pem);
  self->config.client_pem = g_strdup (config->client_pem);
  self->config.proxy = g_strdup (config->proxy);
  self->config.connect_timeout_ms = or_default (config->connect_timeout_ms, 10 * 1000);
  self->config.no_progress_timeout_ms = or_default (config->no_progress_timeout_ms, 30 * 1000);
  self->config.max_attempts = (guint) or_default (config->max_attempts, 5);
  self->config.retry_base_ms = or_default (config->retry_base_ms, 250);
  self->config.max_redirects = (guint) or_default (config->max_redirects, 5);
  self->config.buffer_bytes = (gsize) or_default ((gint64) config->buffer_bytes, BUFFER_BYTES);
  g_mutex_init (&self->lock);
  g_queue_init (&self->idle);
  self->credentials = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  if (config->multiplexed)
    self->loop = http_loop_new ();
  return self;
}

void
http_client_free (HttpClient *self)
{
  if (self == NULL)
    return;
  g_queue_clear_full (&self->idle, handle_free);
  http_loop_free (self->loop);
  g_hash_table_unref (self->credentials);
  g_mutex_clear (&self->lock);
  g_free ((char *) self->config.user_agent);
  g_free ((char *) self->config.ca_file);
  g_free ((char *) self->config.ca_pem);
  g_free ((char *) self->config.client_pem);
  g_free ((char *) self->config.proxy);
  g_free (self);
}

void
http_client_set_credentials (HttpClient *self, const char *origin_url, const char *authorization)
{
  g_auto (HttpUrl) url = { 0 };
  g_autoptr (GError) error = NULL;
  if (!http_url_parse (origin_url, &url, &error))
    {
      am_log_warning (NULL, "credentials for something that is no URL are ignored", NULL);
      return;
    }
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (authorization == NULL)
    g_hash_table_remove (self->credentials, url.origin);
  else
    g_hash_table_replace (self->credentials, g_strdup (url.origin), g_strdup (authorization));
}

static char *
find_credentials (HttpClient *self, const char *origin)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return g_strdup (g_hash_table_lookup (self->credentials, origin));
}

/* Prefers a handle that was last connected to the same origin. */
static HttpHandle *
borrow_handle (HttpClient *self, const char *origin)
{
  HttpHandle *handle = NULL;
  g_mutex_lock (&self->lock);
  for (GList *each = self->idle.head; each != NULL && handle == NULL; each = each->next)
    if (strcmp (((HttpHandle *) each->data)->origin, origin) == 0)
      {
        handle = each->data;
        g_queue_delete_link (&self->idle, each);
        break;
      }
  if (handle == NULL && self->idle.length >= MAX_IDLE_HANDLES)
    handle = g_queue_pop_tail (&self->idle);
  g_mutex_unlock (&self->lock);
  if (handle == NULL)
    handle = http_handle_new ();
  g_free (handle->origin);
  handle->origin = g_strdup (origin);
  return handle;
}

static void
return_handle (HttpClient *self, HttpHandle *handle)
{
  curl_easy_reset (handle->easy); /* forgets pointers into the call; keeps connections */
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_queue_push_head (&self->idle, handle);
  if (self->idle.length > MAX_IDLE_HANDLES)
    handle_free (g_queue_pop_tail (&self->idle));
}

static void
set_blob (CURL *easy, CURLoption option, const char *text)
{
  struct curl_blob blob = { .data = (void *) text, .len = text != NULL ? strlen (text) : 0 };
  if (text != NULL)
    curl_easy_setopt (easy, option, &blob);
}

static void
set_tls_options (const HttpClientConfig *config, CURL *easy)
{
  if (config->ca_file != NULL)
    curl_easy_setopt (easy, CURLOPT_CAINFO, config->ca_file);
  set_blob (easy, CURLOPT_CAINFO_BLOB, config->ca_pem);
  set_blob (easy, CURLOPT_SSLCERT_BLOB, config->client_pem);
  set_blob (easy, CURLOPT_SSLKEY_BLOB, config->client_pem);
  if (config->insecure_skip_verify)
    {
      curl_easy_setopt (easy, CURLOPT_SSL_VERIFYPEER, 0L);
      curl_easy_setopt (easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static void
set_common_options (Call *self, CURL *easy)
{
  const HttpClientConfig *config = &self->client->config;
  curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (easy, CURLOPT_QUICK_EXIT, 1L); /* a cancelled call does not wait for the resolver */
  curl_easy_setopt (easy, CURLOPT_PROTOCOLS_STR, "http,https");
  /* HTTP/1.1 is fastest for bulk. */
  curl_easy_setopt (easy, CURLOPT_HTTP_VERSION,
                    (long) (config->multiplexed ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  curl_easy_setopt (easy, CURLOPT_PIPEWAIT, config->multiplexed ? 1L : 0L);
  curl_easy_setopt (easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt (easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt (easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt (easy, CURLOPT_BUFFERSIZE, (long) config->buffer_bytes);
  curl_easy_setopt (easy, CURLOPT_UPLOAD_BUFFERSIZE, (long) config->buffer_bytes);
  curl_easy_setopt (easy, CURLOPT_CONNECTTIMEOUT_MS, (long) config->connect_timeout_ms);
  curl_easy_setopt (easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 1000L);
  curl_easy_setopt (easy, CURLOPT_USERAGENT, config->user_agent);
  if (!self->resendable)
    curl_easy_setopt (easy, CURLOPT_MAXAGE_CONN, CAUTIOUS_AGE_S);
  set_tls_options (config, easy);
  if (config->proxy != NULL)
    curl_easy_setopt (easy, CURLOPT_PROXY, config->proxy);
}

static gboolean
has_name (const char *header, const char *name)
{
  gsize size = strlen (name);
  return g_ascii_strncasecmp (header, name, size) == 0 && header[size] == ':';
}

static gboolean
calls_header (const HttpCall *call, const char *name)
{
  for (guint i = 0; call->headers != NULL && call->headers[i] != NULL; i++)
    if (has_name (call->headers[i], name))
      return TRUE;
  return FALSE;
}

/* Secrets of the caller's stay with the origin it named. */
static gboolean
is_secret (const char *header)
{
  return has_name (header, "Authorization") || has_name (header, "Cookie")
         || has_name (header, "Proxy-Authorization");
}

static struct curl_slist *
make_headers (Call *self, const HttpUrl *url, gboolean at_home)
{
  const HttpCall *call = self->call;
  struct curl_slist *list = NULL;
  for (guint i = 0; call->headers != NULL && call->headers[i] != NULL; i++)
    {
      const char *header = call->headers[i];
      const char *colon = strchr (header, ':');
      if (!at_home && is_secret (header))
        continue;
      /* For libcurl "Name:" removes a header and "Name;" sends it empty. */
      g_autofree char *empty = colon[1 + strspn (colon + 1, " \t")] == '\0'
                                 ? g_strdup_printf ("%.*s;", (int) (colon - header), header)
                                 : NULL;
      list = curl_slist_append (list, empty != NULL ? empty : header);
    }
  if (!calls_header (call, "Accept-Encoding"))
    list = curl_slist_append (list, "Accept-Encoding: identity");
  g_autofree char *authorization = find_credentials (self->client, url->origin);
  if (authorization != NULL && !(at_home && calls_header (call, "Authorization")))
    {
      g_autofree char *line = g_strconcat ("Authorization: ", authorization, NULL);
      list = curl_slist_append (list, line);
    }
  return list;
}

static struct curl_slist *
make_connect_to (const HttpCall *call)
{
  if (call->connect_to == NULL)
    return NULL;
  g_autofree char *any = g_strconcat ("::", call->connect_to, NULL);
  return curl_slist_append (NULL, any);
}

static gboolean
check_headers (const HttpCall *call, GError **error)
{
  for (guint i = 0; call->headers != NULL && call->headers[i] != NULL; i++)
    {
      const char *colon = strchr (call->headers[i], ':');
      if (colon == NULL || colon == call->headers[i] || strpbrk (call->headers[i], "\r\n") != NULL)
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "malformed request header");
    }
  return TRUE;
}

static void
take_reply (Call *self, HttpTransfer *transfer, const HttpUrl *url)
{
  HttpReply *reply = self->reply;
  http_reply_clear (reply);
  reply->status = transfer->status;
  reply->headers = g_steal_pointer (&transfer->reply_headers);
  if (!transfer->sink_started)
    reply->body = g_byte_array_free_to_bytes (g_steal_pointer (&transfer->body));
  reply->url = g_strdup (url->text);
  reply->scheme_host = g_strdup (url->origin);
}

static gboolean
send_once (Call *self, const char *method, gboolean sends_body, const HttpUrl *url, gboolean at_home, GError **error)
{
  HttpHandle *handle = borrow_handle (self->client, url->origin);
  http_reply_clear (self->reply);
  set_common_options (self, handle->easy);
  g_auto (HttpTransfer) transfer = {
    .ctx = self->ctx,
    .handle = handle,
    .call = self->call,
    .method = method,
    .url = url,
    .headers = make_headers (self, url, at_home),
    .connect_to = at_home ? make_connect_to (self->call) : NULL,
    .sends_body = sends_body,
    .no_progress_timeout_ms = self->client->config.no_progress_timeout_ms,
    .loop = self->client->loop,
    .ca_file = self->client->config.ca_pem != NULL ? "its configuration" : self->client->config.ca_file,
    .proxy = self->client->config.proxy,
  };
  gboolean done = http_transfer_run (&transfer, &self->failure, error);
  return_handle (self->client, handle);
  self->taken |= transfer.upload_taken;
  self->fed |= transfer.sink_fed;
  if (done)
    take_reply (self, &transfer, url);
  return done;
}

/* Makes the upload start over when bytes of it were taken. */
static gboolean
rewind_upload (Call *self, GError **error)
{
  const HttpUpload *upload = self->call->upload;
  if (upload == NULL || !self->taken)
    return TRUE;
  if (upload->rewind == NULL)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "the upload cannot be started over");
  self->taken = FALSE;
  return upload->rewind (self->call->upload_data, error);
}

/* RFC 9110 15.4: where to, and with which method. */
static gboolean
follow (Call *self, HttpUrl *url, const char **method, gboolean *sends_body, GError **error)
{
  guint status = self->reply->status;
  g_auto (HttpUrl) next = { 0 };
  if (!http_url_resolve (url, http_reply_header (self->reply, "location"), &next, error))
    {
      g_prefix_error (error, "%s %s: redirect: ", *method, url->display);
      return FALSE;
    }
  if (url->is_https && !next.is_https)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s %s: redirect from https to http refused", *method,
                    url->display);
  gboolean becomes_get = (status == 303 && strcmp (*method, "HEAD") != 0)
                         || (status <= 302 && strcmp (*method, "POST") == 0);
  if (becomes_get)
    {
      *method = "GET";
      *sends_body = FALSE;
    }
  if (*sends_body && !rewind_upload (self, error))
    return FALSE;
  http_url_clear (url);
  *url = next;
  next = (HttpUrl){ 0 };
  return TRUE;
}

static gboolean
attempt (Call *self, GError **error)
{
  const HttpCall *call = self->call;
  const char *method = call->method;
  gboolean sends_body = call->body != NULL || call->upload != NULL || strcmp (method, "POST") == 0
                        || strcmp (method, "PUT") == 0 || strcmp (method, "PATCH") == 0;
  g_auto (HttpUrl) url = { 0 };
  self->failure = HTTP_FAILED_FINALLY;
  if (!http_url_parse (call->url, &url, error))
    return FALSE;
  g_autofree char *home = g_strdup (url.origin);
  for (guint n_redirects = 0;; n_redirects++)
    {
      if (!send_once (self, method, sends_body, &url, strcmp (home, url.origin) == 0, error))
        return FALSE;
      self->failure = HTTP_FAILED_FINALLY;
      if (call->no_redirects || !http_status_is_redirect (self->reply->status)
          || http_call_accepts (call, self->reply->status) || http_reply_header (self->reply, "location") == NULL)
        break;
      if (n_redirects >= self->client->config.max_redirects)
        return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s %s: too many redirects", method, url.display);
      if (!follow (self, &url, &method, &sends_body, error))
        return FALSE;
    }
  if (http_call_accepts (call, self->reply->status)
      || (call->no_redirects && http_status_is_redirect (self->reply->status)))
    return TRUE;
  if (http_status_is_passing (self->reply->status))
    self->failure = self->reply->status == 429 ? HTTP_FAILED_BEFORE_SENDING : HTTP_FAILED_UNKNOWN;
  return http_reply_fail (self->reply, method, url.display, error);
}

/* Whether the call may be sent again, and everything is wound back for it. */
static gboolean
prepare_retry (Call *self)
{
  g_autoptr (GError) error = NULL;
  const HttpDownload *download = self->call->download;
  if (self->failure == HTTP_FAILED_FINALLY || (self->failure == HTTP_FAILED_UNKNOWN && !self->resendable))
    return FALSE;
  if (self->fed && (download->restart == NULL || !download->restart (self->call->download_data, &error)))
    return FALSE;
  self->fed = FALSE;
  return rewind_upload (self, &error);
}

/* Full jitter; a server's own wish wins. */
static gint64
backoff_ms (HttpClient *self, guint n_failures, const GError *error)
{
  gint64 wished = am_error_retry_after_ms (error);
  gint64 ceiling = MIN (self->config.retry_base_ms << MIN (n_failures - 1, 10), MAX_BACKOFF_MS);
  gint64 jitter = (gint64) g_random_double_range (0, (double) ceiling + 1);
  return wished > 0 ? wished + MIN (jitter, 1000) : jitter;
}

static gboolean
is_idempotent (const HttpCall *call)
{
  static const char *const methods[] = { "GET", "HEAD", "PUT", "DELETE", "OPTIONS" };
  for (gsize i = 0; i < G_N_ELEMENTS (methods); i++)
    if (strcmp (call->method, methods[i]) == 0)
      return TRUE;
  return call->idempotent;
}

gboolean
http_client_call (Ctx *ctx, HttpClient *self, const HttpCall *call, HttpReply *out_reply, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  Call state = { .ctx = ctx, .client = self, .call = call, .reply = &reply, .resendable = is_idempotent (call) };
  g_autoptr (GError) failure = NULL;
  gboolean done = check_headers (call, &failure) && ctx_check (ctx, &failure) && attempt (&state, &failure);
  for (guint n = 1; !done && n < self->config.max_attempts && prepare_retry (&state); n++)
    {
      gint64 delay_ms = backoff_ms (self, n, failure);
      if (ctx_remaining_ms (ctx) <= delay_ms)
        break; /* better the reason than "deadline exceeded" */
      am_log (ctx, AM_LOG_PAUSE (delay_ms), "request failed, trying again after a pause", "err", failure->message,
              "delay_ms", AM_U64 ((guint64) delay_ms), NULL);
      g_clear_error (&failure);
      http_reply_clear (&reply);
      state.failure = HTTP_FAILED_FINALLY;
      done = ctx_sleep_ms (ctx, delay_ms, &failure) && attempt (&state, &failure);
    }
  if (done || reply.status != 0)
    {
      *out_reply = reply;
      reply = (HttpReply){ 0 };
    }
  if (!done)
    g_propagate_error (error, g_steal_pointer (&failure));
  return done;
}
