#include "registry/scripted_registry.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define BODY_LIMIT_BYTES (64u << 20)
#define NO_PROGRESS_MS 10000

typedef struct {
  GBytes *bytes;
  guint64 position;
  guint64 cut_after, stall_after;
  gboolean is_silent, is_endless;
} Body;

static gssize
body_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  Body *self = data;
  gsize total = 0;
  const guint8 *bytes = g_bytes_get_data (self->bytes, &total);
  guint64 end = self->is_endless ? G_MAXUINT64 : total;
  if (self->stall_after > 0 || self->is_silent)
    end = MIN (end, self->stall_after);
  if (self->cut_after > 0)
    end = MIN (end, self->cut_after);
  gsize n = (gsize) MIN (size, end - self->position);
  if (n == 0 && (self->stall_after > 0 || self->is_silent) && !ctx_sleep_ms (ctx, G_MAXINT32, error))
    return -1;
  if (n == 0 && self->cut_after > 0)
    {
      am_fail (error, AM_ERROR_CANCELLED, NULL, "the script cuts the connection here");
      return -1;
    }
  for (gsize i = 0; i < n; i++)
    buffer[i] = bytes[(self->position + i) % total];
  self->position += n;
  return (gssize) n;
}

static void
body_free (gpointer data)
{
  g_bytes_unref (((Body *) data)->bytes);
  g_free (data);
}

static void
append_query (const char *name, const char *value, gpointer data)
{
  GString *line = data;
  g_string_append_printf (line, "%c%s=%s", strchr (line->str, '?') == NULL ? '?' : '&', name, value);
}

static void
append_header (GString *line, HttpRequest *req, const char *name, const char *label)
{
  const char *value = http_request_header (req, name);
  if (value != NULL)
    g_string_append_printf (line, " %s=%s", label, value);
}

static gboolean
rule_fits (ScriptedRegistry *self, guint index, HttpRequest *req, const char *target)
{
  const ScriptRule *rule = &self->rules[index];
  const char *authorization = http_request_header (req, "Authorization");
  return (rule->method == NULL || strcmp (rule->method, http_request_method (req)) == 0)
         && g_pattern_match_simple (rule->path, target) && (rule->times == 0 || self->n_answered[index] < rule->times)
         && (rule->unless == NULL || g_strcmp0 (rule->unless, authorization) != 0);
}

/* Writes the request down; the rule that answers it, or NULL. */
static const ScriptRule *
take_request (ScriptedRegistry *self, HttpRequest *req)
{
  g_autoptr (GString) target = g_string_new (http_request_path (req));
  http_request_foreach_query (req, append_query, target);
  GBytes *body = http_request_body (req);
  GString *line = g_string_new (NULL);
  g_string_printf (line, "%s %s", http_request_method (req), target->str);
  append_header (line, req, "Authorization", "auth");
  append_header (line, req, "Range", "range");
  append_header (line, req, "Content-Range", "content-range");
  g_string_append_printf (line, " size=%zu", g_bytes_get_size (body));
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_ptr_array_add (self->requests, g_string_free (line, FALSE));
  for (guint i = 0; i < self->n_rules; i++)
    if (rule_fits (self, i, req, target->str))
      {
        gboolean is_upload = strstr (target->str, "/blobs/uploads/") != NULL && self->rules[i].status < 300
                             && strcmp (http_request_method (req), "POST") != 0;
        if (is_upload)
          g_byte_array_append (self->received, g_bytes_get_data (body, NULL), (guint) g_bytes_get_size (body));
        self->n_answered[i]++;
        return &self->rules[i];
      }
  return NULL;
}

/* Sets the rule's headers; TRUE when a Content-Range was among them. */
static gboolean
set_headers (ScriptedRegistry *self, const ScriptRule *rule, HttpResponse *res)
{
  gboolean has_range = FALSE;
  g_auto (GStrv) lines = g_strsplit (rule->headers != NULL ? rule->headers : "", "\n", -1);
  for (guint i = 0; lines[i] != NULL && lines[i][0] != '\0'; i++)
    {
      g_autoptr (GString) line = g_string_new (lines[i]);
      g_string_replace (line, "@HERE@", self->url, 0);
      g_string_replace (line, "@ELSEWHERE@", self->elsewhere_url != NULL ? self->elsewhere_url : "", 0);
      g_string_replace (line, "@OTHER@", self->other_url != NULL ? self->other_url : "", 0);
      char *colon = strchr (line->str, ':');
      *colon = '\0';
      http_response_header (res, line->str, colon + 2);
      has_range = has_range || strcmp (line->str, "Content-Range") == 0;
    }
  return has_range;
}

static GBytes *
ranged (const ScriptRule *rule, HttpRequest *req, HttpResponse *res, gboolean has_range)
{
  guint64 first = 0, last = 0, total = g_bytes_get_size (rule->blob);
  const char *range = http_request_header (req, "Range");
  if (range == NULL || rule->status != 206
      || sscanf (range, "bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, &first, &last) != 2)
    return g_bytes_ref (rule->blob);
  last = MIN (last, total - 1);
  if (!has_range)
    http_response_headerf (res, "Content-Range",
                           "bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, first, last,
                           total);
  return g_bytes_new_from_bytes (rule->blob, first, last - first + 1);
}

static gboolean
answer (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  ScriptedRegistry *self = http_request_service (req);
  const ScriptRule *rule = take_request (self, req);
  static const HttpBodySource source = { body_read, body_free };
  if (rule == NULL)
    {
      http_response_status (res, 404);
      return TRUE;
    }
  http_response_status (res, rule->status);
  gboolean has_range = set_headers (self, rule, res);
  g_autoptr (GBytes) bytes = NULL;
  if (rule->text != NULL)
    bytes = g_bytes_new_static (rule->text, strlen (rule->text));
  else if (rule->blob != NULL)
    bytes = ranged (rule, req, res, has_range);
  else
    return TRUE;
  if (rule->cut_after == 0 && rule->stall_after == 0 && !rule->is_silent && !rule->is_endless)
    {
      http_response_bytes (res, NULL, bytes);
      return TRUE;
    }
  Body body = { g_bytes_ref (bytes), 0, rule->cut_after, rule->stall_after, rule->is_silent, rule->is_endless };
  if (rule->is_endless)
    http_response_stream_chunked (res, NULL, &source, g_memdup2 (&body, sizeof body));
  else
    http_response_stream (res, NULL, g_bytes_get_size (bytes), &source, g_memdup2 (&body, sizeof body));
  return TRUE;
}

void
scripted_registry_start (ScriptedRegistry *self, const ScriptRule *rules, guint n_rules,
                         const ScriptedRegistry *other)
{
  static const HttpRoute routes[] = {
    { "GET", "/{any+}", answer, 0, FALSE },
    { "DELETE", "/{any+}", answer, 0, FALSE },
    { "POST", "/{any+}", answer, BODY_LIMIT_BYTES, FALSE },
    { "POST", "/{any+}/", answer, BODY_LIMIT_BYTES, FALSE },
    { "PUT", "/{any+}", answer, BODY_LIMIT_BYTES, FALSE },
    { "PATCH", "/{any+}", answer, BODY_LIMIT_BYTES, FALSE },
  };
  g_autoptr (GError) error = NULL;
  am_log_init (AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  HttpServerConfig config = {
    .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = G_N_ELEMENTS (routes), .service = self
  };
  *self = (ScriptedRegistry){ .rules = rules, .n_rules = n_rules, .other_url = other != NULL ? other->url : NULL };
  if (other != NULL)
    self->elsewhere_url = g_strdup_printf ("http://localhost:%u", http_server_port (other->server));
  g_mutex_init (&self->lock);
  self->n_answered = g_new0 (guint, n_rules);
  self->requests = g_ptr_array_new_with_free_func (g_free);
  self->received = g_byte_array_new ();
  self->ctx = ctx_new ();
  self->server = http_server_start (self->ctx, &config, &error);
  g_assert_no_error (error);
  self->host = g_strdup_printf ("127.0.0.1:%u", http_server_port (self->server));
  self->url = g_strdup_printf ("http://%s", self->host);
}

void
scripted_registry_stop (ScriptedRegistry *self)
{
  if (self->server == NULL)
    return;
  ctx_cancel (self->ctx);
  http_server_free (self->server);
  ctx_unref (self->ctx);
  g_free (self->n_answered);
  g_ptr_array_unref (self->requests);
  g_byte_array_unref (self->received);
  g_mutex_clear (&self->lock);
  g_free (self->host);
  g_free (self->url);
  g_free (self->elsewhere_url);
}

guint
scripted_registry_count (ScriptedRegistry *self, const char *glob)
{
  guint n = 0;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  for (guint i = 0; i < self->requests->len; i++)
    n += g_pattern_match_simple (glob, g_ptr_array_index (self->requests, i)) ? 1 : 0;
  return n;
}

Repository *
scripted_registry_client (ScriptedRegistry *self, gint64 no_progress_timeout_ms)
{
  g_autoptr (GError) error = NULL;
  RegistryConfig config = { .host = self->host,
                            .plain_http = TRUE,
                            .username = "u",
                            .password = "p",
                            .n_parallel = 1,
                            .no_progress_timeout_ms = no_progress_timeout_ms > 0 ? no_progress_timeout_ms
                                                                                 : NO_PROGRESS_MS,
                            .retry_base_ms = 1 };
  Repository *repository = repository_remote_new (&config, "team/m", &error);
  g_assert_no_error (error);
  return repository;
}
