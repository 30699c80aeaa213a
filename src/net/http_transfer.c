#include "net/http_transfer.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ctx_wake.h"
#include "net/http_reply.h"

#define POLL_MS 100 /* how late a cancellation may be noticed where nothing tells of it */
#define IDLE_POLL_MS 10000
#define MAX_HEADER_LINES 256
#define MAX_HEADER_BYTES (256 * 1024)
#define DEFAULT_REPLY_LIMIT (8 * 1024 * 1024)
#define EXPECT_ABOVE_BYTES (1024 * 1024)

/* libcurl wants size x count: of these callbacks it always asks with size 1. */

static size_t
on_header (char *data, size_t one, size_t size, void *user_data)
{
  HttpTransfer *self = user_data;
  self->moved += size;
  self->header_bytes += size;
  if (++self->n_header_lines > MAX_HEADER_LINES || self->header_bytes > MAX_HEADER_BYTES)
    {
      am_fail (&self->abort, AM_ERROR_DATA_LOSS, NULL, "the answer has too many headers");
      return 0;
    }
  g_autofree char *line = g_strstrip (g_strndup (data, size));
  char *colon = strchr (line, ':');
  if (g_str_has_prefix (line, "HTTP/"))
    {
      g_hash_table_remove_all (self->reply_headers); /* those were of a 1xx or a proxy */
      const char *blank = strchr (line, ' ');
      self->status = blank != NULL ? (guint) g_ascii_strtoull (blank, NULL, 10) : 0;
    }
  else if (colon != NULL && colon != line)
    {
      *colon = '\0';
      char *name = g_ascii_strdown (g_strchomp (line), -1);
      const char *value = g_strchug (colon + 1);
      const char *old = g_hash_table_lookup (self->reply_headers, name);
      g_hash_table_replace (self->reply_headers, name,
                            old != NULL ? g_strdup_printf ("%s, %s", old, value) : g_strdup (value));
    }
  return size;
}

/* A server that refuses an upload may answer and close at once. Then sending fails, often before libcurl
 * has looked for the answer; it is still in the socket's buffer. */
static int
on_close (void *user_data, curl_socket_t fd)
{
  HttpHandle *self = user_data;
  guint8 buffer[4096];
  gssize n;
  while (self->last_words->len < HTTP_ERROR_BODY_LIMIT && (n = recv (fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
    g_byte_array_append (self->last_words, buffer, (guint) n);
  return close (fd);
}

HttpHandle *
http_handle_new (void)
{
  HttpHandle *self = g_new0 (HttpHandle, 1);
  self->multi = curl_multi_init ();
  self->easy = curl_easy_init ();
  g_assert (self->multi != NULL && self->easy != NULL); /* only without memory */
  curl_multi_setopt (self->multi, CURLMOPT_MAXCONNECTS, 2L);
  self->last_words = g_byte_array_new ();
  return self;
}

void
http_handle_free (HttpHandle *self)
{
  if (self == NULL)
    return;
  curl_easy_cleanup (self->easy);
  curl_multi_cleanup (self->multi); /* closes the connections: on_close */
  g_byte_array_unref (self->last_words);
  g_free (self->origin);
  g_free (self);
}

static gboolean
is_success (const HttpTransfer *self)
{
  return self->status >= 200 && self->status <= 299;
}

static gboolean
start_sink (HttpTransfer *self)
{
  const HttpDownload *download = self->call->download;
  if (self->sink_started)
    return TRUE;
  self->sink_started = TRUE;
  return download->start == NULL
         || download->start (self->ctx, self->call->download_data, self->status, self->reply_headers, &self->abort);
}

static gboolean
collect (HttpTransfer *self, const char *data, gsize size)
{
  gboolean accepted = http_call_accepts (self->call, self->status);
  gsize limit = HTTP_ERROR_BODY_LIMIT;
  if (accepted)
    limit = self->call->reply_limit_bytes > 0 ? MIN (self->call->reply_limit_bytes, G_MAXUINT / 2)
                                              : DEFAULT_REPLY_LIMIT;
  if (size <= limit && self->body->len <= limit - size)
    {
      g_byte_array_append (self->body, (const guint8 *) data, (guint) size);
      return TRUE;
    }
  if (accepted)
    return am_fail (&self->abort, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                    "the answer is larger than %" G_GSIZE_FORMAT " bytes", limit);
  g_byte_array_append (self->body, (const guint8 *) data, (guint) (limit - self->body->len));
  self->body_capped = TRUE;
  return FALSE;
}

static size_t
on_write (char *data, size_t one, size_t size, void *user_data)
{
  HttpTransfer *self = user_data;
  self->moved += size;
  if (self->call->download == NULL || !is_success (self))
    return collect (self, data, size) ? size : CURL_WRITEFUNC_ERROR;
  if (!start_sink (self))
    return CURL_WRITEFUNC_ERROR;
  self->sink_fed = TRUE;
  gboolean written = self->call->download->write (self->ctx, self->call->download_data, data, size, &self->abort);
  return written ? size : CURL_WRITEFUNC_ERROR;
}

static gint64
upload_size (const HttpTransfer *self)
{
  if (self->call->upload != NULL)
    return self->call->upload_size;
  return self->call->body != NULL ? (gint64) g_bytes_get_size (self->call->body) : 0;
}

/* The declared size is kept in both directions: a byte more would be read as a next request. */
static size_t
on_read (char *buffer, size_t one, size_t size, void *user_data)
{
  HttpTransfer *self = user_data;
  const HttpUpload *upload = self->call->upload;
  gint64 total = upload_size (self);
  gssize n = 0;
  if (total >= 0)
    size = MIN (size, (guint64) total - self->upload_offset);
  if (size > 0 && upload != NULL)
    n = upload->read (self->ctx, self->call->upload_data, (guint8 *) buffer, size, &self->abort);
  else if (size > 0)
    {
      n = (gssize) size;
      memcpy (buffer, (const char *) g_bytes_get_data (self->call->body, NULL) + self->upload_offset, size);
    }
  if (n == 0 && size > 0 && total >= 0)
    am_fail (&self->abort, AM_ERROR_DATA_LOSS, NULL, "the upload ended at %" G_GUINT64_FORMAT " of %" G_GINT64_FORMAT,
             self->upload_offset, total);
  if (n < 0 || self->abort != NULL)
    return CURL_READFUNC_ABORT;
  self->upload_taken |= n > 0;
  self->upload_offset += (guint64) n;
  self->moved += (guint64) n;
  return (size_t) n;
}

/* libcurl starts a body over when a kept connection turned out to be dead. */
static int
on_seek (void *user_data, curl_off_t offset, int origin)
{
  HttpTransfer *self = user_data;
  const HttpUpload *upload = self->call->upload;
  if (offset != 0 || origin != SEEK_SET)
    return CURL_SEEKFUNC_CANTSEEK;
  self->upload_offset = 0;
  if (upload == NULL)
    return CURL_SEEKFUNC_OK;
  if (upload->rewind == NULL)
    return self->upload_taken ? CURL_SEEKFUNC_CANTSEEK : CURL_SEEKFUNC_OK;
  return upload->rewind (self->call->upload_data, &self->abort) ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

static void
set_method (HttpTransfer *self)
{
  CURL *easy = self->handle->easy;
  gint64 size = upload_size (self);
  if (strcmp (self->method, "HEAD") == 0)
    {
      curl_easy_setopt (easy, CURLOPT_NOBODY, 1L);
      return;
    }
  if (!self->sends_body)
    {
      curl_easy_setopt (easy, CURLOPT_HTTPGET, 1L);
      curl_easy_setopt (easy, CURLOPT_CUSTOMREQUEST, self->method);
      return;
    }
  curl_easy_setopt (easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt (easy, CURLOPT_CUSTOMREQUEST, self->method);
  curl_easy_setopt (easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t) size);
  curl_easy_setopt (easy, CURLOPT_READFUNCTION, on_read);
  curl_easy_setopt (easy, CURLOPT_READDATA, self);
  curl_easy_setopt (easy, CURLOPT_SEEKFUNCTION, on_seek);
  curl_easy_setopt (easy, CURLOPT_SEEKDATA, self);
  if (size >= 0 && size <= EXPECT_ABOVE_BYTES)
    self->headers = curl_slist_append (self->headers, "Expect:");
}

static void
set_options (HttpTransfer *self)
{
  CURL *easy = self->handle->easy;
  set_method (self);
  curl_easy_setopt (easy, CURLOPT_URL, self->url->text);
  curl_easy_setopt (easy, CURLOPT_HTTPHEADER, self->headers);
  curl_easy_setopt (easy, CURLOPT_CONNECT_TO, self->connect_to);
  curl_easy_setopt (easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt (easy, CURLOPT_HEADERDATA, self);
  curl_easy_setopt (easy, CURLOPT_WRITEFUNCTION, on_write);
  curl_easy_setopt (easy, CURLOPT_WRITEDATA, self);
  curl_easy_setopt (easy, CURLOPT_ERRORBUFFER, self->message);
  if (self->loop != NULL) /* its connections outlive the handle */
    return;
  curl_easy_setopt (easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
  curl_easy_setopt (easy, CURLOPT_CLOSESOCKETDATA, self->handle);
}

static CURLcode
fail_stalled (HttpTransfer *self)
{
  g_snprintf (self->message, sizeof self->message, "no byte moved for %" G_GINT64_FORMAT " ms",
              self->no_progress_timeout_ms);
  return CURLE_OPERATION_TIMEDOUT;
}

/* As pump, on the loop's thread. */
static CURLcode
pump_beside_others (HttpTransfer *self)
{
  HttpLoopJob job = {
    .easy = self->handle->easy,
    .moved = &self->moved,
    .no_progress_timeout_ms = self->no_progress_timeout_ms,
  };
  g_autoptr (GError) stop = NULL;
  http_loop_add (self->loop, &job);
  while (!http_loop_wait (self->loop, &job, MIN (POLL_MS, ctx_remaining_ms (self->ctx))))
    if (!ctx_check (self->ctx, &stop))
      {
        http_loop_remove (self->loop, &job);
        if (self->abort == NULL)
          self->abort = g_steal_pointer (&stop);
        break;
      }
  return job.stalled ? fail_stalled (self) : job.code;
}

/* Until something can be done, or `left_us` are over. A watch waits for minutes: nothing wakes it in vain. */
static void
wait_for_bytes (HttpTransfer *self, gint64 left_us)
{
  struct pollfd wakes[CTX_MAX_WAKE_FDS];
  struct curl_waitfd extra[CTX_MAX_WAKE_FDS];
  gboolean is_whole = FALSE;
  guint n_wakes = ctx_wake_fds (self->ctx, wakes, &is_whole);
  for (guint i = 0; i < n_wakes; i++)
    extra[i] = (struct curl_waitfd){ .fd = wakes[i].fd, .events = CURL_WAIT_POLLIN };
  gint64 wait_ms = MIN (MIN (left_us / 1000 + 1, ctx_remaining_ms (self->ctx)), is_whole ? IDLE_POLL_MS : POLL_MS);
  curl_multi_poll (self->handle->multi, extra, n_wakes, (int) MAX (wait_ms, 0), NULL);
}

/* Until done, cancelled, or without a byte for too long. The code is CURLE_OK when `abort` is set. */
static CURLcode
pump (HttpTransfer *self)
{
  int n_running = 1, n_left;
  guint64 last_moved = self->moved;
  gint64 last_us = g_get_monotonic_time ();
  curl_multi_add_handle (self->handle->multi, self->handle->easy);
  for (;;)
    {
      curl_multi_perform (self->handle->multi, &n_running);
      if (n_running == 0 || self->abort != NULL || !ctx_check (self->ctx, &self->abort))
        break;
      gint64 now_us = g_get_monotonic_time ();
      if (self->moved != last_moved)
        {
          last_moved = self->moved;
          last_us = now_us;
        }
      else if (now_us - last_us > self->no_progress_timeout_ms * 1000)
        {
          curl_multi_remove_handle (self->handle->multi, self->handle->easy);
          return fail_stalled (self);
        }
      wait_for_bytes (self, last_us + self->no_progress_timeout_ms * 1000 - now_us);
    }
  CURLMsg *done = curl_multi_info_read (self->handle->multi, &n_left);
  CURLcode code = done != NULL ? done->data.result : CURLE_OK;
  curl_multi_remove_handle (self->handle->multi, self->handle->easy);
  return code;
}

/* Takes an error answer out of the last words. A success is not believed: the body was not sent. */
static gboolean
salvage_answer (HttpTransfer *self)
{
  const GByteArray *words = self->handle->last_words;
  const char *line = (const char *) words->data;
  gsize left = words->len;
  if (self->url->is_https || !self->upload_taken || self->status >= 200)
    return FALSE;
  for (;;)
    {
      const char *end = left > 0 ? memchr (line, '\n', left) : NULL;
      gsize size = end != NULL ? (gsize) (end - line) + 1 : 0;
      if (size == 0 || on_header ((char *) line, 1, size, self) == 0)
        break;
      line += size;
      left -= size;
      if (size <= 2 && self->status >= 400)
        {
          g_byte_array_append (self->body, (const guint8 *) line, (guint) left);
          return TRUE;
        }
    }
  self->status = 0;
  return FALSE;
}

gboolean
http_transfer_run (HttpTransfer *self, HttpFailure *out_failure, GError **error)
{
  self->reply_headers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->body = g_byte_array_new ();
  set_options (self);
  g_byte_array_set_size (self->handle->last_words, 0);
  CURLcode code = self->loop != NULL ? pump_beside_others (self) : pump (self);
  gboolean complete = code == CURLE_OK || self->body_capped
                      || (self->abort == NULL && code == CURLE_SEND_ERROR && salvage_answer (self));
  if (complete && self->abort == NULL && self->call->download != NULL && is_success (self))
    start_sink (self); /* an empty body starts it too */
  *out_failure = HTTP_FAILED_FINALLY;
  if (self->abort != NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&self->abort), "%s %s: ", self->method, self->url->display);
      return FALSE;
    }
  return complete || http_transfer_fail (self, code, out_failure, error);
}

void
http_transfer_clear (HttpTransfer *self)
{
  g_clear_pointer (&self->headers, curl_slist_free_all);
  g_clear_pointer (&self->connect_to, curl_slist_free_all);
  g_clear_pointer (&self->reply_headers, g_hash_table_unref);
  g_clear_pointer (&self->body, g_byte_array_unref);
  g_clear_error (&self->abort);
}
