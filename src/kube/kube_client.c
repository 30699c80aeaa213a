#include "kube/kube_client.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "kube/kube_error.h"
#include "kube/kube_list_stream.h"
#include "kube/kube_watch_stream.h"
#include "net/http_client.h"

#define REQUEST_TIMEOUT_MS (60 * 1000)
#define MAX_REPLY_BYTES (128u * 1024 * 1024) /* a page of the largest objects */
#define MAX_TOKEN_BYTES (64 * 1024)
#define TOKEN_AGE_US (30 * G_USEC_PER_SEC) /* a projected token is replaced long before it ends */
#define DEFAULT_PAGE_SIZE 500
#define LIST_TIMEOUT_MS \
  (5 * 60 * 1000) /* of a page, which is all of the list when that comes from the server's memory */
#define STREAM_BUFFER_BYTES (32 * 1024)
#define DEFAULT_WATCH_S 300
#define WATCH_GRACE_S 30

struct KubeClient {
  KubeConfig config;              /* its texts are owned */
  HttpClient *requests, *streams; /* lists and watches: a connection for each at a time */
  GMutex lock;
  gint64 token_read_us; /* 0: not yet */
};

static HttpClient *
new_http_client (const KubeConfig *config, gboolean for_streams, GError **error)
{
  HttpClientConfig http = {
    .ca_pem = config->ca_pem,
    .client_pem = config->client_pem,
    .insecure_skip_verify = config->insecure_skip_verify,
    .proxy = config->proxy_url,
    .multiplexed = !for_streams,
    .no_progress_timeout_ms = for_streams ? G_MAXINT : REQUEST_TIMEOUT_MS, /* a watch has a time of its own */
    .buffer_bytes = STREAM_BUFFER_BYTES,
  };
  return http_client_new (&http, error);
}

KubeClient *
kube_client_new (const KubeConfig *config, GError **error)
{
  g_autoptr (KubeClient) self = g_new0 (KubeClient, 1);
  g_mutex_init (&self->lock);
  self->config = (KubeConfig){
    .server = g_strdup (config->server),
    .ca_pem = g_strdup (config->ca_pem),
    .client_pem = g_strdup (config->client_pem),
    .token = g_strdup (config->token),
    .token_file = g_strdup (config->token_file),
    .proxy_url = g_strdup (config->proxy_url),
    .namespace = g_strdup (config->namespace),
    .insecure_skip_verify = config->insecure_skip_verify,
  };
  self->requests = new_http_client (config, FALSE, error);
  self->streams = self->requests != NULL ? new_http_client (config, TRUE, error) : NULL;
  return self->streams != NULL ? g_steal_pointer (&self) : NULL;
}

void
kube_client_free (KubeClient *self)
{
  if (self == NULL)
    return;
  http_client_free (self->requests);
  http_client_free (self->streams);
  kube_config_clear (&self->config);
  g_mutex_clear (&self->lock);
  g_free (self);
}

const char *
kube_client_namespace (const KubeClient *self)
{
  return self->config.namespace;
}

static gboolean
set_token (KubeClient *self, const char *token, gsize size)
{
  g_autofree char *text = g_strstrip (g_strndup (token, size));
  g_autofree char *header = g_strconcat ("Bearer ", text, NULL);
  if (text[0] == '\0' || strpbrk (text, "\r\n") != NULL)
    return FALSE;
  http_client_set_credentials (self->requests, self->config.server, header);
  http_client_set_credentials (self->streams, self->config.server, header);
  return TRUE;
}

/* A file that cannot be read leaves the token of before. */
static void
refresh_token (KubeClient *self, gboolean at_once)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gint64 now_us = g_get_monotonic_time ();
  if (!at_once && self->token_read_us != 0 && now_us - self->token_read_us < TOKEN_AGE_US)
    return;
  self->token_read_us = now_us;
  if (self->config.token_file == NULL)
    {
      if (self->config.token != NULL)
        set_token (self, self->config.token, strlen (self->config.token));
      return;
    }
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) token = file_read (self->config.token_file, MAX_TOKEN_BYTES, &error);
  if (token == NULL)
    am_log_warning (NULL, "the API server's token cannot be read", "err", error->message, NULL);
  else if (!set_token (self, g_bytes_get_data (token, NULL), g_bytes_get_size (token)))
    am_log_warning (NULL, "the API server's token file holds no token", "file", self->config.token_file, NULL);
}

/* "get Pod d8-ai-models/worker" */
static char *
describe (const char *verb, const KubeTarget *target)
{
  gboolean in_namespace = target->namespace != NULL && target->kind->is_namespaced;
  g_autofree char *place = g_strdup_printf ("%s%s%s", in_namespace ? target->namespace : "",
                                            in_namespace && target->name != NULL ? "/" : "",
                                            target->name != NULL ? target->name : "");
  return g_strdup_printf ("%s %s%s%s", verb, target->kind->kind, place[0] != '\0' ? " " : "", place);
}

typedef struct {
  const char *verb, *method;
  const KubeTarget *target;
  const char *query;        /* without '?'; or NULL */
  const char *content_type; /* of `body` */
  GBytes *body;
  const HttpDownload *download;
  gpointer download_data;
} Request;

static gboolean
send_once (Ctx *ctx, HttpClient *client, KubeClient *self, const Request *request, HttpReply *out_reply,
           GError **error)
{
  const KubeTarget *target = request->target;
  g_autofree char *path = kube_kind_path (target->kind, target->namespace, target->name, target->subresource);
  g_autofree char *url = g_strdup_printf ("%s%s%s%s", self->config.server, path, request->query != NULL ? "?" : "",
                                          request->query != NULL ? request->query : "");
  g_autofree char *type = g_strdup_printf ("Content-Type: %s", request->content_type != NULL ? request->content_type
                                                                                             : "application/json");
  const char *const headers[] = { "Accept: application/json", type, NULL };
  HttpCall call = {
    .method = request->method,
    .url = url,
    .headers = headers,
    .body = request->body,
    .reply_limit_bytes = MAX_REPLY_BYTES,
    .no_redirects = TRUE,
    .download = request->download,
    .download_data = request->download_data,
  };
  return http_client_call (ctx, client, &call, out_reply, error);
}

/* The API server's own words in place of HTTP's. */
static gboolean
tell_failure (const Request *request, const HttpReply *reply, GError *failure, GError **error)
{
  g_autofree char *what = describe (request->verb, request->target);
  gsize size = 0;
  gconstpointer body = reply->body != NULL ? g_bytes_get_data (reply->body, &size) : NULL;
  if (reply->status < 300)
    {
      g_propagate_prefixed_error (error, failure, "%s: ", what);
      return FALSE;
    }
  gint64 retry_after_ms = am_error_retry_after_ms (failure);
  g_error_free (failure);
  GError *problem = NULL;
  kube_fail (what, reply->status, body, size, &problem);
  if (am_error_retry_after_ms (problem) == 0)
    am_error_set_retry_after_ms (problem, retry_after_ms);
  g_propagate_error (error, problem);
  return FALSE;
}

static gboolean
carry_out (Ctx *ctx, KubeClient *self, const Request *request, HttpReply *out_reply, GError **error)
{
  HttpClient *client = request->download != NULL ? self->streams : self->requests;
  GError *failure = NULL;
  refresh_token (self, FALSE);
  gboolean done = send_once (ctx, client, self, request, out_reply, &failure);
  if (!done && out_reply->status == 401 && self->config.token_file != NULL)
    {
      g_clear_error (&failure);
      http_reply_clear (out_reply);
      refresh_token (self, TRUE);
      done = send_once (ctx, client, self, request, out_reply, &failure);
    }
  return done || tell_failure (request, out_reply, failure, error);
}

/* Carries out a request whose answer is one object. */
static KubeObject *
ask_for_object (Ctx *ctx, KubeClient *self, const Request *request, GError **error)
{
  g_autoptr (Ctx) limited = ctx_new_child (ctx, REQUEST_TIMEOUT_MS);
  g_auto (HttpReply) reply = { 0 };
  if (!carry_out (limited, self, request, &reply, error))
    return NULL;
  GError *problem = NULL;
  KubeObject *object = kube_object_parse (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body),
                                          MAX_REPLY_BYTES, &problem);
  if (object == NULL)
    {
      g_autofree char *what = describe (request->verb, request->target);
      am_fail (error, AM_ERROR_DATA_LOSS, NULL, "%s: the answer: %s", what, problem->message);
      g_error_free (problem);
    }
  return object;
}

static GBytes *
body_of (yyjson_mut_doc *doc)
{
  gsize size = 0;
  char *text = json_write (doc, &size);
  return g_bytes_new_take (text, size);
}

KubeObject *
kube_client_get (Ctx *ctx, KubeClient *self, const KubeTarget *target, GError **error)
{
  Request request = { .verb = "get", .method = "GET", .target = target };
  return ask_for_object (ctx, self, &request, error);
}

gboolean
kube_client_find (Ctx *ctx, KubeClient *self, const KubeTarget *target, KubeObject **out_object, GError **error)
{
  g_autoptr (GError) problem = NULL;
  *out_object = kube_client_get (ctx, self, target, &problem);
  if (*out_object != NULL || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

KubeObject *
kube_client_create (Ctx *ctx, KubeClient *self, const KubeTarget *target, yyjson_mut_doc *object, GError **error)
{
  g_autoptr (GBytes) body = body_of (object);
  KubeTarget collection = *target;
  if (target->subresource == NULL) /* a subresource such as a token is posted to a name */
    collection.name = NULL;
  Request request = { .verb = "create", .method = "POST", .target = &collection, .body = body };
  return ask_for_object (ctx, self, &request, error);
}

gboolean
kube_client_ensure (Ctx *ctx, KubeClient *self, const KubeTarget *target, yyjson_mut_doc *object,
                    gboolean *out_existed, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (KubeObject) made = kube_client_create (ctx, self, target, object, &problem);
  gboolean existed = made == NULL && am_error_is (problem, AM_ERROR_ALREADY_EXISTS);
  if (out_existed != NULL)
    *out_existed = existed;
  if (made != NULL || existed)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

KubeObject *
kube_client_update (Ctx *ctx, KubeClient *self, const KubeTarget *target, yyjson_mut_doc *object, GError **error)
{
  g_autoptr (GBytes) body = body_of (object);
  Request request = { .verb = "update", .method = "PUT", .target = target, .body = body };
  return ask_for_object (ctx, self, &request, error);
}

KubeObject *
kube_client_patch (Ctx *ctx, KubeClient *self, const KubeTarget *target, KubePatch type, const char *field_manager,
                   yyjson_mut_doc *patch, GError **error)
{
  static const char *const types[] = {
    [KUBE_PATCH_MERGE] = "application/merge-patch+json",
    [KUBE_PATCH_JSON] = "application/json-patch+json",
    [KUBE_PATCH_APPLY] = "application/apply-patch+yaml",
  };
  g_autoptr (GBytes) body = body_of (patch);
  g_autofree char *manager = g_uri_escape_string (field_manager != NULL ? field_manager : "ai-models", NULL, FALSE);
  g_autofree char *query = g_strdup_printf ("fieldManager=%s%s", manager,
                                            type == KUBE_PATCH_APPLY ? "&force=true" : "");
  Request request = {
    .verb = "patch", .method = "PATCH", .target = target, .query = query, .content_type = types[type], .body = body
  };
  return ask_for_object (ctx, self, &request, error);
}

static GBytes *
delete_body (const KubeDeleteOptions *options)
{
  static const KubeDeleteOptions none = { .grace_period_s = -1 };
  const KubeDeleteOptions *wanted = options != NULL ? options : &none;
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "kind", "DeleteOptions");
  yyjson_mut_obj_add_str (doc, root, "apiVersion", "v1");
  yyjson_mut_obj_add_str (doc, root, "propagationPolicy",
                          wanted->propagation != NULL ? wanted->propagation : "Background");
  if (wanted->grace_period_s >= 0)
    yyjson_mut_obj_add_int (doc, root, "gracePeriodSeconds", wanted->grace_period_s);
  if (wanted->uid != NULL || wanted->resource_version != NULL)
    {
      yyjson_mut_val *preconditions = yyjson_mut_obj_add_obj (doc, root, "preconditions");
      if (wanted->uid != NULL)
        yyjson_mut_obj_add_str (doc, preconditions, "uid", wanted->uid);
      if (wanted->resource_version != NULL)
        yyjson_mut_obj_add_str (doc, preconditions, "resourceVersion", wanted->resource_version);
    }
  return body_of (doc);
}

gboolean
kube_client_delete (Ctx *ctx, KubeClient *self, const KubeTarget *target, const KubeDeleteOptions *options,
                    GError **error)
{
  g_autoptr (Ctx) limited = ctx_new_child (ctx, REQUEST_TIMEOUT_MS);
  g_autoptr (GBytes) body = delete_body (options);
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) problem = NULL;
  Request request = { .verb = "delete", .method = "DELETE", .target = target, .body = body };
  if (carry_out (limited, self, &request, &reply, &problem) || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static void
add_query (GString *query, const char *name, const char *value)
{
  if (value == NULL || value[0] == '\0')
    return;
  if (query->len > 0)
    g_string_append_c (query, '&');
  g_string_append_printf (query, "%s=", name);
  g_string_append_uri_escaped (query, value, NULL, FALSE);
}

static gboolean
feed_list (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  return kube_list_stream_feed (data, bytes, size, error);
}

static KubeObject *
list_page (Ctx *ctx, KubeClient *self, const KubeTarget *target, const char *query, KubeEach each, gpointer data,
           GError **error)
{
  static const HttpDownload download = { .write = feed_list };
  g_autoptr (Ctx) limited = ctx_new_child (ctx, LIST_TIMEOUT_MS);
  g_auto (KubeListStream) stream = { 0 };
  g_auto (HttpReply) reply = { 0 };
  kube_list_stream_init (&stream, each, data);
  Request request = {
    .verb = "list", .method = "GET", .target = target, .query = query, .download = &download, .download_data = &stream
  };
  return carry_out (limited, self, &request, &reply, error) ? kube_list_stream_end (&stream, error) : NULL;
}

gboolean
kube_client_list (Ctx *ctx, KubeClient *self, const KubeTarget *target, const KubeListOptions *options, KubeEach each,
                  gpointer data, char **out_resource_version, GError **error)
{
  static const KubeListOptions none = { 0 };
  const KubeListOptions *wanted = options != NULL ? options : &none;
  g_autofree char *limit = g_strdup_printf ("%u", wanted->page_size > 0 ? wanted->page_size : DEFAULT_PAGE_SIZE);
  g_autofree char *next = NULL;
  g_autoptr (KubeObject) page = NULL;
  do
    {
      g_autoptr (GString) query = g_string_new (NULL);
      add_query (query, "limit", limit);
      add_query (query, "labelSelector", wanted->label_selector);
      add_query (query, "fieldSelector", wanted->field_selector);
      add_query (query, "continue", next);
      if (wanted->may_lag && next == NULL)
        add_query (query, "resourceVersion", "0");
      g_clear_pointer (&page, kube_object_unref);
      page = list_page (ctx, self, target, query->str, each, data, error);
      if (page == NULL)
        return FALSE;
      g_free (next);
      next = g_strdup (json_get_string (json_get_object (kube_object_root (page), "metadata"), "continue"));
    }
  while (next != NULL && next[0] != '\0');
  if (out_resource_version != NULL)
    *out_resource_version = g_strdup (kube_object_resource_version (page));
  return TRUE;
}

static gboolean
feed_watch (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  return kube_watch_stream_feed (data, bytes, size, error);
}

gboolean
kube_client_watch (Ctx *ctx, KubeClient *self, const KubeTarget *target, const KubeWatchOptions *options,
                   KubeWatchFunc func, gpointer data, GError **error)
{
  static const HttpDownload download = { .write = feed_watch };
  guint timeout_s = options->timeout_s > 0 ? options->timeout_s : DEFAULT_WATCH_S;
  g_autoptr (Ctx) limited = ctx_new_child (ctx, (gint64) (timeout_s + WATCH_GRACE_S) * 1000);
  g_autofree char *timeout = g_strdup_printf ("%u", timeout_s);
  g_autoptr (GString) query = g_string_new ("watch=true&allowWatchBookmarks=true");
  add_query (query, "timeoutSeconds", timeout);
  add_query (query, "resourceVersion", options->resource_version);
  add_query (query, "labelSelector", options->label_selector);
  add_query (query, "fieldSelector", options->field_selector);
  g_auto (KubeWatchStream) stream = { 0 };
  g_auto (HttpReply) reply = { 0 };
  kube_watch_stream_init (&stream, func, data);
  Request request = { .verb = "watch",
                      .method = "GET",
                      .target = target,
                      .query = query->str,
                      .download = &download,
                      .download_data = &stream };
  return carry_out (limited, self, &request, &reply, error);
}
