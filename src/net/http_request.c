#include "net/http_server_private.h"

#include <string.h>

#include "base/text.h"

/* RFC 9110 5.6.2 */
static gboolean
is_token (const char *text)
{
  if (*text == '\0')
    return FALSE;
  for (; *text != '\0'; text++)
    if (!g_ascii_isalnum (*text) && strchr ("!#$%&'*+-.^_`|~", *text) == NULL)
      return FALSE;
  return TRUE;
}

static void
argument_free (gpointer data)
{
  HttpArgument *self = data;
  g_free (self->name);
  g_free (self->value);
  g_free (self);
}

HttpRequest *
http_request_new (HttpServer *server, HttpConnection *connection, struct MHD_Connection *mhd, const char *raw_target)
{
  HttpRequest *self = g_new0 (HttpRequest, 1);
  self->server = server;
  self->connection = connection;
  self->mhd = mhd;
  self->start_us = g_get_monotonic_time ();
  self->raw_target = g_strdup (raw_target);
  self->content_length = -1;
  self->ctx = ctx_new_child (server->ctx, -1);
  self->headers = g_ptr_array_new_with_free_func (argument_free);
  self->response.status = 200;
  self->response.headers = g_ptr_array_new_with_free_func (argument_free);
  return self;
}

void
http_request_drop_sink (HttpRequest *self)
{
  if (self->has_sink && self->sink.free != NULL)
    self->sink.free (self->sink_data);
  self->has_sink = FALSE;
}

void
http_request_free (HttpRequest *self)
{
  if (self == NULL)
    return;
  http_request_drop_sink (self);
  http_response_clear (&self->response);
  if (self->free_data != NULL)
    self->free_data (self->data);
  if (self->collected != NULL)
    g_byte_array_unref (self->collected);
  g_clear_pointer (&self->body, g_bytes_unref);
  g_clear_pointer (&self->params, g_ptr_array_unref);
  g_clear_pointer (&self->joined, g_ptr_array_unref);
  g_ptr_array_unref (self->headers);
  http_target_clear (&self->target);
  g_clear_error (&self->failure);
  g_free (self->raw_target);
  g_free (self->identity);
  ctx_unref (self->ctx);
  g_free (self);
}

static enum MHD_Result
take_header (void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
  HttpRequest *self = data;
  HttpArgument *header = g_new (HttpArgument, 1);
  header->name = g_strdup (name);
  header->value = g_strchomp (g_strdup (value != NULL ? value : "")); /* the front is skipped already */
  g_ptr_array_add (self->headers, header);
  if (value != NULL)
    self->last_line = value;
  return MHD_YES;
}

/* An id of the caller's is taken over when it can do no harm in logs and headers. */
static void
choose_id (HttpRequest *self)
{
  const char *wanted = http_request_header (self, "X-Request-Id");
  gsize size = wanted != NULL ? strlen (wanted) : 0;
  gboolean sane = size >= 1 && size < sizeof self->id
                  && strspn (wanted, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._-") == size;
  if (sane)
    g_strlcpy (self->id, wanted, sizeof self->id);
  else
    text_uuid (self->id);
  ctx_set_field (self->ctx, "request_id", self->id);
}

static gboolean
refuse (GError **error, const char *why)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "malformed request: %s", why);
}

/* Two readers must never disagree about where a request ends (RFC 9112 6.3, 11.2). */
static gboolean
check_framing (HttpRequest *self, GError **error)
{
  guint n_lengths = 0, n_encodings = 0;
  for (guint i = 0; i < self->headers->len; i++)
    {
      const HttpArgument *header = g_ptr_array_index (self->headers, i);
      if (!is_token (header->name))
        return refuse (error, "bad header name");
      if (g_ascii_strcasecmp (header->name, "Content-Length") == 0)
        n_lengths++;
      if (g_ascii_strcasecmp (header->name, "Transfer-Encoding") == 0)
        n_encodings++;
    }
  if (n_lengths > 1 || n_encodings > 1 || (n_lengths > 0 && n_encodings > 0))
    return refuse (error, "ambiguous length");
  const char *encoding = http_request_header (self, "Transfer-Encoding");
  if (encoding != NULL && g_ascii_strcasecmp (encoding, "chunked") != 0)
    return refuse (error, "unknown transfer encoding");
  const char *length = http_request_header (self, "Content-Length");
  guint64 value = 0;
  if (length != NULL && (!text_parse_u64 (length, &value) || value > G_MAXINT64))
    return refuse (error, "bad content length");
  self->content_length = length != NULL ? (gint64) value : -1;
  self->has_body = encoding != NULL || value > 0;
  return TRUE;
}

/* libmicrohttpd 0.9.75 takes a line like ": x" for the end of the head, cuts values at NUL, joins folded
 * lines and takes a bare LF for a line's end. Each shows in the same way: it parses in place, so after a
 * clean last line there are just CR LF CR LF (made NUL) to the end of the head. */
static gboolean
ends_cleanly (HttpRequest *self, gsize head_size)
{
  return self->method + head_size == self->last_line + strlen (self->last_line) + 4;
}

gboolean
http_request_read_head (HttpRequest *self, GError **error)
{
  self->last_line = self->version;
  MHD_get_connection_values (self->mhd, MHD_HEADER_KIND, take_header, self);
  choose_id (self);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (self->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  if (!ends_cleanly (self, info->header_size))
    return refuse (error, "bad line in the head");
  if (!check_framing (self, error))
    return FALSE;
  if (info->header_size > self->server->config.max_header_bytes)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, HTTP_REASON_HEADER_TOO_LARGE,
                    "the request head is larger than %" G_GSIZE_FORMAT " bytes",
                    self->server->config.max_header_bytes);
  return TRUE;
}

gpointer
http_request_service (HttpRequest *req)
{
  return req->server->config.service;
}

const char *
http_request_method (HttpRequest *req)
{
  return req->method;
}

const char *
http_request_path (HttpRequest *req)
{
  return req->target.path;
}

const char *
http_request_param (HttpRequest *req, const char *name)
{
  return http_arguments_find (req->params, name);
}

const char *
http_request_query (HttpRequest *req, const char *name)
{
  return http_arguments_find (req->target.query, name);
}

void
http_request_foreach_query (HttpRequest *req, void (*func) (const char *name, const char *value, gpointer data),
                            gpointer data)
{
  for (guint i = 0; req->target.query != NULL && i < req->target.query->len; i++)
    {
      const HttpArgument *argument = g_ptr_array_index (req->target.query, i);
      func (argument->name, argument->value, data);
    }
}

const char *
http_request_header (HttpRequest *req, const char *name)
{
  for (guint i = 0; i < req->headers->len; i++)
    {
      const HttpArgument *header = g_ptr_array_index (req->headers, i);
      if (g_ascii_strcasecmp (header->name, name) == 0)
        return header->value;
    }
  return NULL;
}

const char *
http_request_header_joined (HttpRequest *req, const char *name)
{
  g_autoptr (GString) all = NULL;
  for (guint i = 0; i < req->headers->len; i++)
    {
      const HttpArgument *header = g_ptr_array_index (req->headers, i);
      if (g_ascii_strcasecmp (header->name, name) != 0)
        continue;
      if (all == NULL)
        all = g_string_new (header->value);
      else
        g_string_append_printf (all, ", %s", header->value);
    }
  if (all == NULL)
    return NULL;
  if (req->joined == NULL)
    req->joined = g_ptr_array_new_with_free_func (g_free);
  char *text = g_string_free (g_steal_pointer (&all), FALSE);
  g_ptr_array_add (req->joined, text);
  return text;
}

GBytes *
http_request_body (HttpRequest *req)
{
  if (req->body == NULL && req->collected != NULL)
    req->body = g_byte_array_free_to_bytes (g_steal_pointer (&req->collected));
  if (req->body == NULL)
    req->body = g_bytes_new (NULL, 0);
  return req->body;
}

gint64
http_request_content_length (HttpRequest *req)
{
  return req->content_length;
}

gboolean
http_request_has_body (HttpRequest *req)
{
  return req->has_body;
}

const char *
http_request_id (HttpRequest *req)
{
  return req->id;
}

const char *
http_request_peer (HttpRequest *req)
{
  return http_connection_peer (req->connection);
}

gboolean
http_request_is_tls (HttpRequest *req)
{
  return req->server->tls != NULL;
}

void
http_request_set_identity (HttpRequest *req, const char *identity)
{
  g_free (req->identity);
  req->identity = g_strdup (identity);
}

const char *
http_request_identity (HttpRequest *req)
{
  return req->identity;
}

void
http_request_set_data (HttpRequest *req, gpointer data, GDestroyNotify free_func)
{
  if (req->free_data != NULL)
    req->free_data (req->data);
  req->data = data;
  req->free_data = free_func;
}

gpointer
http_request_data (HttpRequest *req)
{
  return req->data;
}

void
http_request_set_sink (HttpRequest *req, const HttpBodySink *sink, gpointer self)
{
  g_assert (!req->has_sink && sink->finish != NULL && sink->write != NULL);
  req->sink = *sink;
  req->sink_data = self;
  req->has_sink = TRUE;
}

void
http_request_abort (HttpRequest *req)
{
  http_connection_cut (req->connection);
}
