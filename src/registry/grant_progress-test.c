#include "registry/grant_progress.h"

#include <glib/gstdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "net/http_server.h"

#define REGISTRY "registry.example"
#define LOGIN "Basic dXNlcjpzZWNyZXQ="

/* Two replicas that say what the test tells them to. */
typedef struct {
  HttpServer *server;
  const char *body;
  guint status;
  gint delay_ms, n_asked;
} Replica;

typedef struct {
  Ctx *ctx;
  char *dir, *peers;
  Replica replicas[2];
} Fixture;

static gboolean
get_grant (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Replica *self = http_request_service (req);
  g_atomic_int_inc (&self->n_asked);
  g_assert_cmpstr (http_request_param (req, "grant"), ==, "job-1.a");
  g_assert_cmpstr (http_request_header (req, "Host"), ==, REGISTRY);
  g_assert_cmpstr (http_request_header (req, "Authorization"), ==, LOGIN);
  if (!ctx_sleep_ms (ctx, g_atomic_int_get (&self->delay_ms), error))
    return FALSE;
  http_response_status (res, self->status);
  http_response_text (res, "application/json", self->body);
  return TRUE;
}

static void
start_replica (Fixture *self, Replica *replica)
{
  static const HttpRoute route = { "GET", "/_ai_models/grants/{grant}", get_grant, 0, FALSE };
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = { .listen_address = "127.0.0.1:0", .routes = &route, .n_routes = 1, .service = replica };
  replica->server = http_server_start (self->ctx, &config, &error);
  g_assert_no_error (error);
  replica->status = 200;
}

static void
write_login (Fixture *self, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (self->dir, name, NULL);
  g_assert_true (file_replace (path, text, strlen (text), NULL));
}

static void
set_up (Fixture *self, gconstpointer data)
{
  self->ctx = ctx_new ();
  self->dir = g_dir_make_tmp ("progress-XXXXXX", NULL);
  write_login (self, "username", "user\n");
  write_login (self, "password", "secret\n");
  for (guint i = 0; i < 2; i++)
    start_replica (self, &self->replicas[i]);
  self->peers = g_strdup_printf ("127.0.0.1:%u, 127.0.0.1:%u", http_server_port (self->replicas[0].server),
                                 http_server_port (self->replicas[1].server));
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  for (guint i = 0; i < 2; i++)
    http_server_free (self->replicas[i].server);
  g_assert_true (file_remove_tree (self->dir, NULL));
  g_free (self->dir);
  g_free (self->peers);
  ctx_unref (self->ctx);
}

static GrantProgress *
new_progress (Fixture *self, gint64 max_age_ms)
{
  GrantProgressConfig config = {
    .registry = REGISTRY, .peers = self->peers, .plain_http = TRUE, .login_dir = self->dir, .max_age_ms = max_age_ms
  };
  return grant_progress_new (&config);
}

static void
say (Fixture *self, const char *first, const char *second)
{
  self->replicas[0].body = first;
  self->replicas[1].body = second;
  g_usleep (2000); /* longer than answers are believed */
}

static void
expect (Fixture *self, GrantProgress *progress, guint64 expected)
{
  g_autoptr (GError) error = NULL;
  guint64 read_bytes = 1;
  g_assert_true (grant_progress_read (self->ctx, progress, "job-1.a", &read_bytes, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (read_bytes, ==, expected);
}

static void
expect_unknown (Fixture *self, GrantProgress *progress, AmErrorCode code)
{
  g_autoptr (GError) error = NULL;
  guint64 read_bytes = 7;
  g_assert_false (grant_progress_read (self->ctx, progress, "job-1.a", &read_bytes, &error));
  g_test_message ("%s", error->message);
  g_assert_error (error, AM_ERROR, (int) code);
  g_assert_cmpuint (read_bytes, ==, 7);
  g_assert_null (strstr (error->message, "127.0.0.1"));
  g_assert_null (strstr (error->message, REGISTRY));
  g_assert_null (strstr (error->message, "job-1"));
  g_assert_null (strstr (error->message, "secret"));
}

static void
test_sum (Fixture *self, gconstpointer data)
{
  g_autoptr (GrantProgress) progress = new_progress (self, 1);
  say (self, "{\"readBytes\":0}", "{\"readBytes\":0}");
  expect (self, progress, 0);
  say (self, "{\"readBytes\":1000}", "{\"readBytes\":18}");
  expect (self, progress, 1018);
  /* The first was replaced: it counts from the start, what it had sent was sent. */
  say (self, "{\"readBytes\":5}", "{\"readBytes\":18}");
  expect (self, progress, 1023);
  say (self, "{\"readBytes\":50,\"more\":[]}", "{\"readBytes\":20}");
  expect (self, progress, 1070);
}

static void
test_not_asked_again (Fixture *self, gconstpointer data)
{
  g_autoptr (GrantProgress) progress = new_progress (self, 60000);
  say (self, "{\"readBytes\":1}", "{\"readBytes\":2}");
  for (guint i = 0; i < 5; i++)
    expect (self, progress, 3);
  g_assert_cmpint (self->replicas[0].n_asked, ==, 1);
  g_assert_cmpint (self->replicas[1].n_asked, ==, 1);
  g_autoptr (GrantProgress) other = new_progress (self, 60000);
  say (self, "{}", "{\"readBytes\":2}");
  for (guint i = 0; i < 5; i++)
    expect_unknown (self, other, AM_ERROR_DATA_LOSS);
  g_assert_cmpint (self->replicas[0].n_asked, ==, 2);
}

static void
test_unknown (Fixture *self, gconstpointer data)
{
  static const struct {
    guint status;
    const char *body;
    AmErrorCode code;
  } rows[] = {
    { 200, "", AM_ERROR_DATA_LOSS },
    { 200, "[]", AM_ERROR_DATA_LOSS },
    { 200, "{\"readBytes\":-1}", AM_ERROR_DATA_LOSS },
    { 200, "{\"readBytes\":\"5\"}", AM_ERROR_DATA_LOSS },
    { 200, "{\"readBytes\":1", AM_ERROR_DATA_LOSS },
    { 204, "", AM_ERROR_DATA_LOSS },
    { 401, "{}", AM_ERROR_UNAUTHENTICATED },
    { 404, "{}", AM_ERROR_NOT_FOUND }, /* one of a version that does not count yet */
    { 500, "{}", AM_ERROR_UNAVAILABLE },
    { 503, "{}", AM_ERROR_UNAVAILABLE },
  };
  g_autoptr (GrantProgress) progress = new_progress (self, 1);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      say (self, "{\"readBytes\":9}", rows[i].body);
      self->replicas[1].status = rows[i].status;
      expect_unknown (self, progress, rows[i].code);
    }
  self->replicas[1].status = 200;
  say (self, "{\"readBytes\":9}", "{\"readBytes\":1}");
  expect (self, progress, 10);
}

static void
test_trouble (Fixture *self, gconstpointer data)
{
  g_autoptr (GrantProgress) progress = new_progress (self, 1);
  g_autoptr (GError) bad_id = NULL;
  guint64 read_bytes;
  gint64 began_us = g_get_monotonic_time ();
  say (self, "{\"readBytes\":9}", "{\"readBytes\":1}");
  g_atomic_int_set (&self->replicas[1].delay_ms, 60000);
  expect_unknown (self, progress, AM_ERROR_DEADLINE_EXCEEDED);
  g_assert_cmpint (g_get_monotonic_time () - began_us, <, 10 * G_USEC_PER_SEC);
  http_server_free (g_steal_pointer (&self->replicas[1].server));
  g_usleep (2000);
  expect_unknown (self, progress, AM_ERROR_UNAVAILABLE);
  g_autofree char *password = g_build_filename (self->dir, "password", NULL);
  g_assert_cmpint (g_unlink (password), ==, 0);
  g_usleep (2000);
  expect_unknown (self, progress, AM_ERROR_UNAVAILABLE);
  g_assert_false (grant_progress_read (self->ctx, progress, "../v2", &read_bytes, &bad_id));
  g_assert_true (am_error_is (bad_id, AM_ERROR_INVALID_ARGUMENT));
}

#define ADD(name, func) g_test_add ("/registry/grant-progress/" name, Fixture, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  ADD ("sum", test_sum);
  ADD ("not-asked-again", test_not_asked_again);
  ADD ("unknown", test_unknown);
  ADD ("trouble", test_trouble);
  return g_test_run ();
}
