/* The server under TLS, and its certificate's replacement while it serves. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/net_fixture.h"

#define RELOAD_MS 2500 /* the files are looked at each second */

typedef struct {
  char *dir, *certificate, *key;
  Ctx *ctx;
  HttpServer *server;
  guint16 port;
} Fixture;

static gboolean
check_piece (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  guint64 *position = data;
  const char *text = bytes;
  for (gsize i = 0; i < size; i++)
    if (text[i] != fixture_byte (*position + i))
      return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "wrong byte");
  *position += size;
  if (*position > 50000000)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", "enough");
  return TRUE;
}

static gboolean
say_size (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, *(guint64 *) data);
  http_response_text (res, NULL, text);
  return TRUE;
}

static const HttpBodySink sink = { check_piece, say_size, g_free };

static gboolean
put_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_assert_true (http_request_is_tls (req));
  http_request_set_sink (req, &sink, g_new0 (guint64, 1));
  return TRUE;
}

static gboolean
get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  guint64 size = g_ascii_strtoull (http_request_param (req, "size"), NULL, 10);
  http_response_stream (res, NULL, size, &fixture_source, fixture_source_new (size, 0));
  return TRUE;
}

static gboolean
get_downgrade (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_status (res, 302);
  http_response_header (res, "Location", "http://127.0.0.1:1/");
  return TRUE;
}

static const HttpRoute routes[] = {
  { "PUT", "/blob", put_blob, .streams_body = TRUE },
  { "GET", "/blob/{size}", get_blob },
  { "GET", "/downgrade", get_downgrade },
};

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  self->dir = g_dir_make_tmp ("net-tls-XXXXXX", &error);
  g_assert_no_error (error);
  self->certificate = g_build_filename (self->dir, "tls.crt", NULL);
  self->key = g_build_filename (self->dir, "tls.key", NULL);
  fixture_make_certificate ("first", self->certificate, self->key);
  self->ctx = ctx_new ();
  HttpServerConfig config = {
    .listen_address = "127.0.0.1:0",
    .routes = routes,
    .n_routes = G_N_ELEMENTS (routes),
    .tls_certificate_file = self->certificate,
    .tls_key_file = self->key,
    .header_timeout_ms = 2000,
  };
  self->server = http_server_start (self->ctx, &config, &error);
  g_assert_no_error (error);
  self->port = http_server_port (self->server);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  http_server_free (self->server);
  ctx_unref (self->ctx);
  file_remove_tree (self->dir, &error);
  g_free (self->dir);
  g_free (self->certificate);
  g_free (self->key);
  g_assert_cmpint (g_atomic_int_get (&fixture_sources_alive), ==, 0);
}

/* The name in the certificate the server shows now, or NULL when the handshake fails. */
static char *
shown_name (guint16 port)
{
  am_autofd int fd = raw_connect (port);
  gnutls_session_t session;
  gnutls_certificate_credentials_t credentials;
  char name[64] = "";
  size_t size = sizeof name;
  gnutls_certificate_allocate_credentials (&credentials);
  gnutls_init (&session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
  gnutls_set_default_priority (session);
  gnutls_credentials_set (session, GNUTLS_CRD_CERTIFICATE, credentials);
  gnutls_transport_set_int (session, fd);
  gboolean done = gnutls_handshake (session) == 0;
  if (done)
    {
      guint n;
      gnutls_x509_crt_t certificate;
      gnutls_x509_crt_init (&certificate);
      gnutls_x509_crt_import (certificate, gnutls_certificate_get_peers (session, &n), GNUTLS_X509_FMT_DER);
      gnutls_x509_crt_get_dn_by_oid (certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size);
      gnutls_x509_crt_deinit (certificate);
    }
  gnutls_deinit (session);
  gnutls_certificate_free_credentials (credentials);
  return done ? g_strdup (name) : NULL;
}

static void
wait_for_name (guint16 port, const char *name)
{
  gint64 end_us = g_get_monotonic_time () + RELOAD_MS * 1000;
  for (;;)
    {
      g_autofree char *shown = shown_name (port);
      if (g_strcmp0 (shown, name) == 0)
        return;
      g_assert_cmpint (g_get_monotonic_time (), <, end_us);
      g_usleep (50 * 1000);
    }
}

static gssize
alphabet_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  guint64 *position = data;
  for (gsize i = 0; i < size; i++)
    buffer[i] = (guint8) fixture_byte (*position + i);
  *position += size;
  return (gssize) size;
}

static HttpClient *
new_client (const char *ca_file, gboolean insecure)
{
  g_autoptr (GError) error = NULL;
  HttpClientConfig config = {
    .ca_file = ca_file, .insecure_skip_verify = insecure, .proxy = "", .retry_base_ms = 1, .max_attempts = 2
  };
  HttpClient *client = http_client_new (&config, &error);
  g_assert_no_error (error);
  return client;
}

static void
test_bulk (Fixture *self, gconstpointer data)
{
  static const HttpDownload download = { NULL, check_piece, NULL };
  static const HttpUpload upload = { alphabet_read, NULL };
  g_autoptr (HttpClient) client = new_client (self->certificate, FALSE);
  g_autofree char *get_url = g_strdup_printf ("https://127.0.0.1:%u/blob/9000000", self->port);
  g_autofree char *put_url = g_strdup_printf ("https://127.0.0.1:%u/blob", self->port);
  g_autoptr (GError) error = NULL;
  g_auto (HttpReply) got = { 0 }, put = { 0 }, refused = { 0 };
  guint64 received = 0, sent = 0, refused_sent = 0;
  HttpCall get_call = { .method = "GET", .url = get_url, .download = &download, .download_data = &received };
  g_assert_true (http_client_call (self->ctx, client, &get_call, &got, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (received, ==, 9000000);
  HttpCall put_call = {
    .method = "PUT", .url = put_url, .upload = &upload, .upload_data = &sent, .upload_size = 9000000
  };
  g_assert_true (http_client_call (self->ctx, client, &put_call, &put, &error));
  g_assert_cmpmem (g_bytes_get_data (put.body, NULL), g_bytes_get_size (put.body), "9000000", 7);
  /* The sink has enough in the middle: the answer arrives although most was never read. */
  HttpCall refused_call = {
    .method = "PUT", .url = put_url, .upload = &upload, .upload_data = &refused_sent, .upload_size = 1000000000
  };
  g_assert_false (http_client_call (self->ctx, client, &refused_call, &refused, &error));
  g_assert_cmpuint (refused.status, ==, 507);
  g_assert_cmpstr (am_error_reason (error), ==, "InsufficientStorage");
}

static void
test_trust (Fixture *self, gconstpointer data)
{
  g_autoptr (HttpClient) stranger = new_client (NULL, FALSE);
  g_autoptr (HttpClient) trusting = new_client (self->certificate, FALSE);
  g_autofree char *url = g_strdup_printf ("https://127.0.0.1:%u/blob/1", self->port);
  g_autofree char *other_name = g_strdup_printf ("https://localhost:%u/blob/1", self->port);
  g_autofree char *downgrade = g_strdup_printf ("https://127.0.0.1:%u/downgrade", self->port);
  g_autoptr (GError) unknown = NULL, wrong_name = NULL, downgraded = NULL;
  g_auto (HttpReply) reply = { 0 };
  HttpCall call = { .method = "GET", .url = url };
  g_assert_false (http_client_call (self->ctx, stranger, &call, &reply, &unknown));
  g_assert_true (am_error_has_reason (unknown, "CertificateNotTrusted"));
  g_test_message ("%s", unknown->message);
  g_assert_nonnull (strstr (unknown->message, "signed by \"CN = "));
  call.url = other_name;
  g_assert_false (http_client_call (self->ctx, trusting, &call, &reply, &wrong_name));
  g_assert_true (am_error_has_reason (wrong_name, "CertificateNotTrusted"));
  call.url = downgrade;
  g_assert_false (http_client_call (self->ctx, trusting, &call, &reply, &downgraded));
  g_assert_true (am_error_is (downgraded, AM_ERROR_FAILED_PRECONDITION));
}

/* The machine is another than the URL's, the name in its certificate is not. */
static void
test_connect_to (Fixture *self, gconstpointer data)
{
  g_autoptr (HttpClient) trusting = new_client (self->certificate, FALSE);
  g_autofree char *machine = g_strdup_printf ("127.0.0.1:%u", self->port);
  g_autoptr (GError) error = NULL, wrong_name = NULL;
  g_auto (HttpReply) reply = { 0 };
  HttpCall call = { .method = "GET", .url = "https://127.0.0.1:9/blob/1", .connect_to = machine };
  g_assert_true (http_client_call (self->ctx, trusting, &call, &reply, &error));
  g_assert_no_error (error);
  call.url = "https://registry.invalid/blob/1";
  g_assert_false (http_client_call (self->ctx, trusting, &call, &reply, &wrong_name));
  g_assert_true (am_error_has_reason (wrong_name, "CertificateNotTrusted"));
}

static void
test_bad_handshakes (Fixture *self, gconstpointer data)
{
  am_autofd int plain = raw_connect (self->port);
  raw_send (plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  g_assert_true (raw_closes_within (plain, 1900));
  /* Half a handshake is a head like another. */
  am_autofd int half = raw_connect (self->port);
  g_assert_true (raw_try_send (half, "\x16\x03\x01\x02\x00\x01", 6));
  gint64 start_us = g_get_monotonic_time ();
  g_assert_true (raw_closes_within (half, 4000));
  g_assert_cmpint (g_get_monotonic_time () - start_us, >, 1900 * 1000);
  g_autofree char *name = shown_name (self->port);
  g_assert_cmpstr (name, ==, "first");
}

static void
test_bad_files (Fixture *self, gconstpointer data)
{
  g_autofree char *other = g_build_filename (self->dir, "other.crt", NULL);
  g_autofree char *other_key = g_build_filename (self->dir, "other.key", NULL);
  fixture_make_certificate ("other", other, other_key);
  const struct {
    const char *certificate, *key;
  } rows[] = {
    { self->certificate, NULL },      { NULL, self->key },
    { self->certificate, other_key }, { self->key, self->key },
    { self->certificate, "/none" },   { "/dev/null", self->key },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      HttpServerConfig config = { .listen_address = "127.0.0.1:0",
                                  .tls_certificate_file = rows[i].certificate,
                                  .tls_key_file = rows[i].key };
      g_assert_null (http_server_start (self->ctx, &config, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
    }
}

/* As a kubelet does it: the names are links into ..data, which is a link that is renamed over. */
static void
swap_data (Fixture *self, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *version = g_build_filename (self->dir, name, NULL);
  g_autofree char *certificate = g_build_filename (version, "tls.crt", NULL);
  g_autofree char *key = g_build_filename (version, "tls.key", NULL);
  g_autofree char *fresh = g_build_filename (self->dir, "..data_tmp", NULL);
  g_autofree char *current = g_build_filename (self->dir, "..data", NULL);
  g_assert_true (file_make_dirs (version, NULL, &error));
  fixture_make_certificate (name, certificate, key);
  g_assert_cmpint (symlink (name, fresh), ==, 0);
  g_assert_cmpint (rename (fresh, current), ==, 0);
}

static void
test_reload (Fixture *self, gconstpointer data)
{
  g_autoptr (HttpClient) client = new_client (NULL, TRUE);
  g_autofree char *url = g_strdup_printf ("https://127.0.0.1:%u/blob/1", self->port);
  g_autoptr (GError) error = NULL;
  HttpCall call = { .method = "GET", .url = url };
  /* Replaced in place. */
  wait_for_name (self->port, "first");
  fixture_make_certificate ("second", self->certificate, self->key);
  wait_for_name (self->port, "second");
  /* Half-written: the old one stays, connections are made. */
  g_assert_true (g_file_set_contents (self->certificate, "-----BEGIN CERTIFICATE-----\nMIIB", -1, &error));
  g_usleep (1500 * 1000);
  wait_for_name (self->port, "second");
  /* Mended as links. */
  swap_data (self, "third");
  g_assert_cmpint (unlink (self->certificate), ==, 0);
  g_assert_cmpint (unlink (self->key), ==, 0);
  g_assert_cmpint (symlink ("..data/tls.crt", self->certificate), ==, 0);
  g_assert_cmpint (symlink ("..data/tls.key", self->key), ==, 0);
  wait_for_name (self->port, "third");
  swap_data (self, "fourth");
  wait_for_name (self->port, "fourth");
  g_auto (HttpReply) reply = { 0 };
  g_assert_true (http_client_call (self->ctx, client, &call, &reply, &error));
}

typedef struct {
  Fixture *fixture;
  gint stop;
  gint n_calls;
} Load;

static gpointer
make_load (gpointer data)
{
  Load *self = data;
  while (!g_atomic_int_get (&self->stop))
    {
      /* A new client is a new connection: a full handshake. */
      g_autoptr (HttpClient) client = new_client (NULL, TRUE);
      g_autofree char *url = g_strdup_printf ("https://127.0.0.1:%u/blob/100000", self->fixture->port);
      for (guint i = 0; i < 3; i++)
        {
          g_autoptr (GError) error = NULL;
          g_auto (HttpReply) reply = { 0 };
          HttpCall call = { .method = "POST", .url = url, .accept_statuses = (const guint[]){ 405, 0 } };
          if (i > 0)
            call.method = "GET";
          if (!http_client_call (self->fixture->ctx, client, &call, &reply, &error))
            g_error ("%s", error->message);
          g_atomic_int_inc (&self->n_calls);
        }
    }
  return NULL;
}

static void
test_reload_under_load (Fixture *self, gconstpointer data)
{
  Load load = { self };
  GThread *threads[2];
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("load", make_load, &load);
  for (guint i = 0; i < 100; i++)
    {
      g_autofree char *name = g_strdup_printf ("swap-%u", i);
      if (i % 3 == 0) /* now and then the two do not belong together for a moment */
        fixture_make_certificate (name, self->certificate, self->key);
      else
        {
          g_autofree char *certificate = g_strconcat (self->certificate, ".new", NULL);
          g_autofree char *key = g_strconcat (self->key, ".new", NULL);
          fixture_make_certificate (name, certificate, key);
          g_assert_cmpint (rename (certificate, self->certificate), ==, 0);
          g_usleep (10 * 1000);
          g_assert_cmpint (rename (key, self->key), ==, 0);
        }
      g_usleep (20 * 1000);
    }
  wait_for_name (self->port, "swap-99");
  g_atomic_int_set (&load.stop, 1);
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_test_message ("%d calls", load.n_calls);
  g_assert_cmpint (load.n_calls, >, 50);
}

int
main (int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*func) (Fixture *, gconstpointer);
  } tests[] = {
    { "bulk", test_bulk },
    { "trust", test_trust },
    { "connect-to", test_connect_to },
    { "bad-handshakes", test_bad_handshakes },
    { "bad-files", test_bad_files },
    { "reload", test_reload },
    { "reload-under-load", test_reload_under_load },
  };
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strconcat ("/http-tls/", tests[i].name, NULL);
      g_test_add (path, Fixture, NULL, set_up, tests[i].func, tear_down);
    }
  return g_test_run ();
}
