#include "net/http_server_private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Our own header values may carry what a user sent: no byte may end the line. */
static char *
one_line (const char *value)
{
  char *clean = g_strdup (value);
  for (char *c = clean; *c != '\0'; c++)
    if (((guchar) *c < 0x20 && *c != '\t') || *c == 0x7f)
      *c = ' ';
  return g_strstrip (clean);
}

void
http_response_status (HttpResponse *res, guint status)
{
  g_assert (status >= 200 && status <= 599);
  res->status = status;
}

void
http_response_header (HttpResponse *res, const char *name, const char *value)
{
  g_assert (*name != '\0' && strpbrk (name, " \t\r\n:") == NULL);
  if (g_ascii_strcasecmp (name, "Content-Length") == 0)
    return; /* said by the body */
  if (g_ascii_strcasecmp (name, "Connection") == 0)
    {
      res->close |= g_ascii_strcasecmp (value, "close") == 0;
      return;
    }
  if (g_ascii_strcasecmp (name, "Content-Type") == 0)
    {
      g_free (res->content_type);
      res->content_type = one_line (value);
      return;
    }
  HttpArgument *header = g_new (HttpArgument, 1);
  *header = (HttpArgument){ g_strdup (name), one_line (value) };
  g_ptr_array_add (res->headers, header);
}

void
http_response_headerf (HttpResponse *res, const char *name, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *value = g_strdup_vprintf (format, args);
  va_end (args);
  http_response_header (res, name, value);
}

void
http_response_drop_body (HttpResponse *self)
{
  g_clear_pointer (&self->bytes, g_bytes_unref);
  if (self->source.free != NULL)
    self->source.free (self->source_data);
  self->source = (HttpBodySource){ 0 };
  self->kind = HTTP_BODY_NONE;
  self->size_bytes = 0;
}

void
http_response_clear (HttpResponse *self)
{
  http_response_drop_body (self);
  g_free (self->content_type);
  g_ptr_array_unref (self->headers);
}

static void
set_body (HttpResponse *res, const char *content_type, HttpBodyKind kind)
{
  http_response_drop_body (res);
  if (content_type != NULL)
    http_response_header (res, "Content-Type", content_type);
  res->kind = kind;
}

void
http_response_bytes (HttpResponse *res, const char *content_type, GBytes *body)
{
  g_autoptr (GBytes) kept = g_bytes_ref (body); /* it may be the one that is there */
  set_body (res, content_type, HTTP_BODY_BYTES);
  res->size_bytes = g_bytes_get_size (kept);
  res->bytes = g_steal_pointer (&kept);
}

void
http_response_text (HttpResponse *res, const char *content_type, const char *body)
{
  g_autoptr (GBytes) bytes = g_bytes_new (body, strlen (body));
  http_response_bytes (res, content_type, bytes);
}

void
http_response_stream (HttpResponse *res, const char *content_type, guint64 size_bytes, const HttpBodySource *source,
                      gpointer self)
{
  set_body (res, content_type, HTTP_BODY_STREAM);
  res->size_bytes = size_bytes;
  res->source = *source;
  res->source_data = self;
}

void
http_response_stream_chunked (HttpResponse *res, const char *content_type, const HttpBodySource *source,
                              gpointer self)
{
  set_body (res, content_type, HTTP_BODY_CHUNKED);
  res->source = *source;
  res->source_data = self;
}

/* Without framing the end of the stream is the end of the body: only a reset tells the client that this
 * is not it. Disconnecting a TCP socket sends one (tcp(7), connect with AF_UNSPEC). */
static void
reset_connection (HttpRequest *req)
{
  struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
  if (connect (http_connection_fd (req->connection), &nowhere, sizeof nowhere) != 0)
    http_connection_cut (req->connection);
}

static ssize_t
on_read (void *data, uint64_t position, char *buffer, size_t size)
{
  HttpRequest *req = data;
  HttpResponse *res = &req->response;
  http_connection_work_begin (req->connection);
  gssize n = res->source.read (req->ctx, res->source_data, (guint8 *) buffer, size,
                               req->failure == NULL ? &req->failure : NULL);
  http_connection_work_end (req->connection, n > 0 ? (gsize) n : 0);
  if (n > 0)
    {
      req->bytes_out += (guint64) n;
      return n;
    }
  if (n == 0 && res->kind == HTTP_BODY_CHUNKED)
    return MHD_CONTENT_READER_END_OF_STREAM;
  if (req->failure == NULL)
    am_fail (&req->failure, AM_ERROR_DATA_LOSS, NULL, "the body ended at %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT,
             (guint64) position, res->size_bytes);
  if (res->kind == HTTP_BODY_CHUNKED && strcmp (req->version, "HTTP/1.0") == 0)
    reset_connection (req);
  return MHD_CONTENT_READER_END_WITH_ERROR;
}

static struct MHD_Response *
make_mhd_response (HttpRequest *req)
{
  HttpResponse *res = &req->response;
  gsize block = req->server->config.response_block_bytes;
  if (res->kind == HTTP_BODY_STREAM && res->size_bytes > 0)
    return MHD_create_response_from_callback (res->size_bytes, MIN (block, res->size_bytes), on_read, req, NULL);
  if (res->kind == HTTP_BODY_CHUNKED)
    return MHD_create_response_from_callback (MHD_SIZE_UNKNOWN, block, on_read, req, NULL);
  /* Lives in the request, which outlives the sending. */
  gsize size = 0;
  gconstpointer data = res->bytes != NULL ? g_bytes_get_data (res->bytes, &size) : NULL;
  return MHD_create_response_from_buffer (size, (void *) data, MHD_RESPMEM_PERSISTENT);
}

static void
foreach_header (HttpRequest *req, void (*func) (const char *name, const char *value, gpointer data), gpointer data)
{
  HttpResponse *res = &req->response;
  for (guint i = 0; i < res->headers->len; i++)
    {
      const HttpArgument *header = g_ptr_array_index (res->headers, i);
      func (header->name, header->value, data);
    }
  if (res->content_type != NULL)
    func ("Content-Type", res->content_type, data);
  func ("X-Request-Id", req->id, data);
  if (res->close || atomic_load (&req->server->draining))
    func ("Connection", "close", data);
}

static void
add_header (const char *name, const char *value, gpointer data)
{
  MHD_add_response_header (data, name, value);
}

gboolean
http_response_queue (HttpRequest *req)
{
  HttpResponse *res = &req->response;
  gboolean head = g_strcmp0 (req->method, "HEAD") == 0;
  struct MHD_Response *response = make_mhd_response (req);
  if (response == NULL)
    return FALSE;
  foreach_header (req, add_header, response);
  /* 0.9.75 would end a chunked answer to HEAD with a last chunk; close instead, without a length. */
  if (head && res->kind == HTTP_BODY_CHUNKED)
    MHD_set_response_options (response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
  if (!head && res->kind == HTTP_BODY_BYTES)
    req->bytes_out = res->size_bytes;
  http_connection_enter (req->connection, HTTP_CONNECTION_RESPONSE);
  enum MHD_Result queued = MHD_queue_response (req->mhd, res->status, response);
  MHD_destroy_response (response);
  return queued == MHD_YES;
}

static void
append_header (const char *name, const char *value, gpointer data)
{
  g_string_append_printf (data, "%s: %s\r\n", name, value);
}

static gssize
send_some (HttpRequest *req, gnutls_session_t tls, const char *data, gsize size)
{
  if (tls == NULL)
    return send (http_connection_fd (req->connection), data, size, MSG_NOSIGNAL);
  gssize n = gnutls_record_send (tls, data, size);
  errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EPIPE;
  return n;
}

/* RFC 9110 5.6.7; the names of strftime follow the locale. */
static char *
http_date (void)
{
  static const char days[] = "MonTueWedThuFriSatSun", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *rest = g_date_time_format (now, "%Y %H:%M:%S GMT");
  return g_strdup_printf ("%.3s, %02d %.3s %s", days + 3 * (g_date_time_get_day_of_week (now) - 1),
                          g_date_time_get_day_of_month (now), months + 3 * (g_date_time_get_month (now) - 1), rest);
}

void
http_response_send_raw (HttpRequest *req)
{
  HttpResponse *res = &req->response;
  gsize size = 0;
  const char *body = res->bytes != NULL ? g_bytes_get_data (res->bytes, &size) : NULL;
  g_autofree char *date = http_date ();
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_append_printf (text, "HTTP/1.1 %u %s\r\nDate: %s\r\n", res->status,
                          MHD_get_reason_phrase_for (res->status), date);
  res->close = TRUE;
  foreach_header (req, append_header, text);
  g_string_append_printf (text, "Content-Length: %" G_GSIZE_FORMAT "\r\n\r\n", size);
  if (size > 0)
    g_string_append_len (text, body, (gssize) size);
  req->bytes_out = size;

  gnutls_session_t tls = NULL;
  if (req->server->tls != NULL)
    tls = MHD_get_connection_info (req->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
  http_connection_enter (req->connection, HTTP_CONNECTION_RESPONSE);
  for (gsize sent = 0; sent < text->len;)
    {
      gssize n = send_some (req, tls, text->str + sent, text->len - sent);
      if (n > 0)
        sent += (gsize) n;
      else if (errno != EAGAIN && errno != EINTR)
        return;
      else
        poll (&(struct pollfd){ .fd = http_connection_fd (req->connection), .events = POLLOUT }, 1, -1);
    }
}
