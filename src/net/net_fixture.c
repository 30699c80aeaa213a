#include "net/net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_TIMEOUT_MS 10000

void
raw_reply_clear (RawReply *self)
{
  g_clear_pointer (&self->head, g_free);
  if (self->body != NULL)
    g_string_free (self->body, TRUE);
  self->body = NULL;
}

static struct sockaddr_in
loopback (guint16 port)
{
  return (struct sockaddr_in){ .sin_family = AF_INET,
                               .sin_port = htons (port),
                               .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
}

int
raw_connect (guint16 port)
{
  struct sockaddr_in where = loopback (port);
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (connect (fd, (struct sockaddr *) &where, sizeof where), ==, 0);
  return fd;
}

gboolean
raw_try_send (int fd, gconstpointer data, gsize size)
{
  for (gsize sent = 0; sent < size;)
    {
      gssize n = send (fd, (const char *) data + sent, size - sent, MSG_NOSIGNAL);
      if (n <= 0)
        return FALSE;
      sent += (gsize) n;
    }
  return TRUE;
}

void
raw_send (int fd, const char *text)
{
  g_assert_true (raw_try_send (fd, text, strlen (text)));
}

/* 0 at the end or a reset; an assert after too long. */
static gsize
read_some (int fd, char *buffer, gsize size)
{
  struct pollfd readable = { .fd = fd, .events = POLLIN };
  g_assert_cmpint (poll (&readable, 1, READ_TIMEOUT_MS), >, 0);
  gssize n = recv (fd, buffer, size, 0);
  return n > 0 ? (gsize) n : 0;
}

/* Up to and with the empty line; "" at the end of the stream. */
static char *
read_head (int fd)
{
  GString *head = g_string_new (NULL);
  char c;
  while (!g_str_has_suffix (head->str, "\r\n\r\n") && read_some (fd, &c, 1) == 1)
    g_string_append_c (head, c);
  return g_string_free (head, FALSE);
}

char *
raw_read_head (int fd)
{
  char *head = read_head (fd);
  if (g_str_has_suffix (head, "\r\n\r\n"))
    return head;
  g_free (head);
  return NULL;
}

char *
raw_header (const RawReply *reply, const char *name)
{
  g_auto (GStrv) lines = g_strsplit (reply->head, "\r\n", -1);
  gsize size = strlen (name);
  for (guint i = 1; lines[0] != NULL && lines[i] != NULL; i++)
    if (g_ascii_strncasecmp (lines[i], name, size) == 0 && lines[i][size] == ':')
      return g_strdup (g_strstrip (lines[i] + size + 1));
  return NULL;
}

static gboolean
read_exactly (int fd, GString *out, guint64 size)
{
  char buffer[65536];
  while (size > 0)
    {
      gsize n = read_some (fd, buffer, MIN (size, sizeof buffer));
      if (n == 0)
        return FALSE;
      g_string_append_len (out, buffer, (gssize) n);
      size -= n;
    }
  return TRUE;
}

static gboolean
read_chunks (int fd, GString *out)
{
  for (;;)
    {
      g_autoptr (GString) line = g_string_new (NULL);
      while (!g_str_has_suffix (line->str, "\r\n"))
        if (!read_exactly (fd, line, 1))
          return FALSE;
      guint64 size = g_ascii_strtoull (line->str, NULL, 16);
      g_autoptr (GString) end = g_string_new (NULL);
      if (!read_exactly (fd, out, size) || !read_exactly (fd, end, 2))
        return FALSE;
      if (size == 0)
        return TRUE;
    }
}

void
raw_read (int fd, gboolean no_body, RawReply *out_reply)
{
  *out_reply = (RawReply){ .body = g_string_new (NULL) };
  do
    {
      g_free (out_reply->head);
      out_reply->head = read_head (fd);
      out_reply->status = g_str_has_prefix (out_reply->head, "HTTP/1.1 ")
                            ? (guint) g_ascii_strtoull (out_reply->head + 9, NULL, 10)
                            : 0;
    }
  while (out_reply->status == 100);
  if (out_reply->status == 0)
    return;
  g_autofree char *length = raw_header (out_reply, "Content-Length");
  g_autofree char *encoding = raw_header (out_reply, "Transfer-Encoding");
  if (no_body || out_reply->status == 204 || out_reply->status == 304)
    out_reply->complete = TRUE;
  else if (encoding != NULL)
    out_reply->complete = read_chunks (fd, out_reply->body);
  else if (length != NULL)
    out_reply->complete = read_exactly (fd, out_reply->body, g_ascii_strtoull (length, NULL, 10));
  else
    out_reply->complete = !read_exactly (fd, out_reply->body, G_MAXUINT64);
}

void
raw_ask (int fd, const char *text, RawReply *out_reply)
{
  raw_send (fd, text);
  raw_read (fd, g_str_has_prefix (text, "HEAD "), out_reply);
}

gboolean
raw_closes_within (int fd, gint64 timeout_ms)
{
  char buffer[4096];
  gint64 end_us = g_get_monotonic_time () + timeout_ms * 1000;
  for (;;)
    {
      gint64 left_ms = (end_us - g_get_monotonic_time ()) / 1000;
      struct pollfd readable = { .fd = fd, .events = POLLIN };
      if (left_ms <= 0 || poll (&readable, 1, (int) left_ms) <= 0)
        return FALSE;
      if (recv (fd, buffer, sizeof buffer, 0) <= 0)
        return TRUE;
    }
}

struct RawServer {
  int fd;
  guint16 port;
  RawServe serve;
  gpointer data;
  GThread *thread;
  gint n_connections;
};

static gpointer
raw_server_main (gpointer data)
{
  RawServer *self = data;
  for (;;)
    {
      int fd = accept4 (self->fd, NULL, NULL, SOCK_CLOEXEC);
      if (fd < 0)
        return NULL;
      self->serve (fd, (guint) g_atomic_int_add (&self->n_connections, 1) + 1, self->data);
      close (fd);
    }
}

RawServer *
raw_server_start (RawServe serve, gpointer data)
{
  RawServer *self = g_new0 (RawServer, 1);
  struct sockaddr_in where = loopback (0);
  socklen_t size = sizeof where;
  self->serve = serve;
  self->data = data;
  self->fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (self->fd, (struct sockaddr *) &where, size), ==, 0);
  g_assert_cmpint (listen (self->fd, 16), ==, 0);
  g_assert_cmpint (getsockname (self->fd, (struct sockaddr *) &where, &size), ==, 0);
  self->port = ntohs (where.sin_port);
  self->thread = g_thread_new ("raw-server", raw_server_main, self);
  return self;
}

guint16
raw_server_port (RawServer *self)
{
  return self->port;
}

guint
raw_server_n_connections (RawServer *self)
{
  return (guint) g_atomic_int_get (&self->n_connections);
}

void
raw_server_free (RawServer *self)
{
  if (self == NULL)
    return;
  shutdown (self->fd, SHUT_RDWR);
  g_thread_join (self->thread);
  close (self->fd);
  g_free (self);
}

void
raw_script_clear (RawScript *self)
{
  raw_server_free (self->server); /* joins the thread that writes the requests */
  g_clear_pointer (&self->requests, g_ptr_array_unref);
}

static void
serve_script (int fd, guint n, gpointer data)
{
  RawScript *self = data;
  char *head = raw_read_head (fd);
  if (head == NULL)
    return;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->requests, head);
  g_mutex_unlock (&self->lock);
  const char *answer = self->answers[MIN (n, self->n_answers) - 1];
  raw_try_send (fd, answer, strlen (answer));
}

char *
raw_answer (const char *status, const char *headers, const char *body)
{
  static GStringChunk *texts;
  if (texts == NULL)
    texts = g_string_chunk_new (4096);
  g_autofree char *text = g_strdup_printf ("HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, strlen (body),
                                           headers, body);
  return g_string_chunk_insert (texts, text);
}

RawServer *
raw_script_start (RawScript *self, const char *const *answers)
{
  self->answers = answers;
  self->n_answers = g_strv_length ((char **) answers);
  self->requests = g_ptr_array_new_with_free_func (g_free);
  self->server = raw_server_start (serve_script, self);
  return self->server;
}

const char *
raw_script_request (RawScript *self, guint n)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_assert_cmpuint (n, <, self->requests->len);
  return g_ptr_array_index (self->requests, n);
}

void
fixture_make_certificate (const char *name, const char *certificate_file, const char *key_file)
{
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509 *certificate = X509_new ();
  X509_set_version (certificate, 2);
  ASN1_INTEGER_set (X509_get_serialNumber (certificate), (long) g_random_int_range (1, G_MAXINT));
  X509_gmtime_adj (X509_getm_notBefore (certificate), -3600);
  X509_gmtime_adj (X509_getm_notAfter (certificate), 3600);
  X509_set_pubkey (certificate, key);
  X509_NAME_add_entry_by_txt (X509_get_subject_name (certificate), "CN", MBSTRING_UTF8, (const guchar *) name, -1, -1,
                              0);
  X509_set_issuer_name (certificate, X509_get_subject_name (certificate));
  X509_EXTENSION *alternative = X509V3_EXT_conf_nid (NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext (certificate, alternative, -1);
  X509_EXTENSION_free (alternative);
  X509_sign (certificate, key, EVP_sha256 ());
  FILE *file = fopen (certificate_file, "w");
  PEM_write_X509 (file, certificate);
  fclose (file);
  file = fopen (key_file, "w");
  PEM_write_PrivateKey (file, key, NULL, NULL, 0, NULL, NULL);
  fclose (file);
  X509_free (certificate);
  EVP_PKEY_free (key);
}

gboolean fixture_multiplexed;

HttpClient *
fixture_client (gint64 no_progress_timeout_ms)
{
  g_autoptr (GError) error = NULL;
  HttpClientConfig config = {
    .retry_base_ms = 1,
    .no_progress_timeout_ms = no_progress_timeout_ms,
    .connect_timeout_ms = 2000,
    .proxy = "",
    .multiplexed = fixture_multiplexed,
  };
  HttpClient *client = http_client_new (&config, &error);
  g_assert_no_error (error);
  return client;
}

char *
fixture_url (RawServer *server, const char *path)
{
  return g_strdup_printf ("http://127.0.0.1:%u%s", raw_server_port (server), path);
}

typedef struct {
  guint64 size, position, fail_at;
} FixtureSource;

gint fixture_sources_alive;

char
fixture_byte (guint64 position)
{
  return (char) ('a' + position % 26);
}

gpointer
fixture_source_new (guint64 size, guint64 fail_at)
{
  FixtureSource *self = g_new0 (FixtureSource, 1);
  self->size = size;
  self->fail_at = fail_at;
  g_atomic_int_inc (&fixture_sources_alive);
  return self;
}

static gssize
fixture_source_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  FixtureSource *self = data;
  if (self->fail_at != 0 && self->position >= self->fail_at)
    {
      am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the source broke");
      return -1;
    }
  gsize n = MIN (size, self->size - self->position);
  if (self->fail_at != 0)
    n = MIN (n, self->fail_at - self->position);
  for (gsize i = 0; i < n; i++)
    buffer[i] = (guint8) fixture_byte (self->position + i);
  self->position += n;
  return (gssize) n;
}

static void
fixture_source_free (gpointer data)
{
  g_atomic_int_add (&fixture_sources_alive, -1);
  g_free (data);
}

const HttpBodySource fixture_source = { fixture_source_read, fixture_source_free };
