/* Ollama's registry: what it is asked, what its answers mean, and tokens that run out while several files are read; under the
 * thread sanitizer too. */
#include "sources/ollama_registry.h"

#include <string.h>

#include "base/workers.h"
#include "net/http_range.h"
#include "net/net_fixture.h"

#define CONFIG "{\"model_format\":\"gguf\",\"model_family\":\"llama\",\"file_type\":\"Q4_0\"}"
#define PARAMS "{\"num_ctx\":4096}"
#define LICENSE "MIT License"
#define FILE_BYTES ((3u << 20) + 17)
#define N_READERS 6u

/* A part of an answer, as a range of one byte or of all. */
static char *
part (const char *body, gsize size)
{
  g_autofree char *headers = g_strdup_printf ("Content-Range: bytes 0-%zu/%zu\r\n", size - 1, strlen (body));
  g_autofree char *some = g_strndup (body, size);
  return raw_answer ("206 Partial Content", headers, some);
}

static char *
layer (const char *kind, const char *body)
{
  char text[DIGEST_STRING_SIZE];
  Digest digest;
  digest_of (DIGEST_SHA256, body, strlen (body), &digest);
  return g_strdup_printf ("{\"mediaType\":\"application/vnd.ollama.image.%s\",\"digest\":\"%s\",\"size\":%zu}", kind,
                          digest_format (&digest, text), strlen (body));
}

static char *
manifest (void)
{
  g_autofree char *config = layer ("config", CONFIG), *model = layer ("model", "GGUF"),
                  *params = layer ("params", PARAMS);
  g_autofree char *license = layer ("license", LICENSE);
  g_autofree char *text = g_strdup_printf ("{\"schemaVersion\":2,\"config\":%s,\"layers\":[%s,%s,%s]}", config, model,
                                           params, license);
  return raw_answer ("200 OK", "Content-Type: text/plain\r\n", text);
}

static OllamaRegistry *
registry_at (const char *endpoint, const char *user_agent)
{
  g_autoptr (GError) error = NULL;
  OllamaConfiguration configuration = {
    .endpoint = endpoint, .user_agent = user_agent, .retry_base_ms = 1, .no_progress_timeout_ms = 5000
  };
  OllamaRegistry *registry = ollama_registry_new (&configuration, &error);
  g_assert_no_error (error);
  return registry;
}

/* Plays `answers` and asks for library/tiny:8b. */
static OllamaModel *
find (RawScript *script, const char *const *answers, const char *user_agent, GError **error)
{
  RawServer *server = raw_script_start (script, answers);
  g_autofree char *endpoint = fixture_url (server, "/mirror/");
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (OllamaRegistry) registry = registry_at (endpoint, user_agent);
  OllamaUrl url = { (char *) "library", (char *) "tiny", (char *) "8b" };
  return ollama_registry_find (ctx, registry, &url, error);
}

static gboolean
asked (RawScript *script, guint n, const char *text)
{
  return strstr (raw_script_request (script, n), text) != NULL;
}

static void
test_find (void)
{
  const char *const answers[] = {
    manifest (),
    part (CONFIG, 1),
    part (CONFIG, strlen (CONFIG)),
    part (PARAMS, 1),
    part (PARAMS, strlen (PARAMS)),
    part (LICENSE, 1),
    part (LICENSE, strlen (LICENSE)),
    NULL,
  };
  g_auto (RawScript) script = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OllamaModel) model = find (&script, answers, "ollama/0.12.0", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (model->repository, ==, "library/tiny");
  g_assert_cmpstr (model->config.family, ==, "llama");
  g_assert_cmpuint (model->context_tokens, ==, 4096);
  g_assert_cmpstr (model->license, ==, "mit");
  g_assert_cmpuint (model->files->len, ==, 3);
  g_assert_cmpstr (g_array_index (model->files, OllamaFile, 0).path, ==, "tiny-8b-q4_0.gguf");
  g_assert_true (asked (&script, 0, "GET /mirror/v2/library/tiny/manifests/8b HTTP"));
  g_assert_true (asked (&script, 0, "Accept: application/vnd.docker.distribution.manifest.v2+json, "));
  g_assert_true (asked (&script, 0, "User-Agent: ollama/0.12.0\r\n"));
  g_assert_true (asked (&script, 1, "GET /mirror/v2/library/tiny/blobs/sha256:"));
  g_assert_true (asked (&script, 1, "Range: bytes=0-0\r\n"));
}

static const struct {
  const char *status, *headers, *body;
  AmErrorCode code;
  const char *reason, *says;
  guint n_requests; /* 0: any */
} refusals[] = {
  { "404 x", "", "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\",\"message\":\"no such manifest\"}]}",
    AM_ERROR_NOT_FOUND, "HubNotFound", "no such manifest", 1 },
  { "404 x", "Content-Type: text/html\r\n", "<html>", AM_ERROR_NOT_FOUND, "HubNotFound", "check the name and the tag",
    1 },
  { "404 x", "", "", AM_ERROR_NOT_FOUND, "HubNotFound", "/mirror/library/tiny:8b is not there", 1 },
  { "400 x", "", "{\"errors\":[{\"code\":\"NAME_INVALID\"}]}", AM_ERROR_INVALID_ARGUMENT, "HubNotFound", "no name",
    1 },
  { "401 x", "", "", AM_ERROR_UNAUTHENTICATED, "HubUnauthorized", "private", 1 },
  { "401 x", "WWW-Authenticate: Basic realm=\"x\"\r\n", "", AM_ERROR_UNAUTHENTICATED, "HubUnauthorized", "private",
    1 },
  { "403 x", "", "", AM_ERROR_PERMISSION_DENIED, "HubForbidden", "login", 1 },
  { "412 x", "Content-Type: text/plain\r\n", "get a\tnewer\n\x1b[31mversion", AM_ERROR_FAILED_PRECONDITION,
    "HubClientRefused", "get a newer  [31mversion", 1 },
  { "429 x", "", "", AM_ERROR_UNAVAILABLE, "HubRateLimited", "wait", 5 },
  { "503 x", "", "", AM_ERROR_UNAVAILABLE, "HubTrouble", "trouble", 5 },
  { "200 OK", "Content-Type: text/html\r\n", "<html>", AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "web page", 1 },
  { "401 x", "WWW-Authenticate: Bearer realm=\"https://127.0.0.1/token\"\r\n", "", AM_ERROR_FAILED_PRECONDITION,
    "RealmRefused", "https://127.0.0.1:443", 1 },
  { "401 x", "WWW-Authenticate: Bearer realm=\"https://ollama.com/token\"\r\n", "", AM_ERROR_FAILED_PRECONDITION,
    "RealmRefused", "ollama.com", 1 },
  { "401 x", "WWW-Authenticate: Bearer realm=\"/token\"\r\n", "", AM_ERROR_FAILED_PRECONDITION, "RealmRefused",
    "no web address", 1 },
  { "307 x", "Location: http://127.0.0.1:1/elsewhere\r\n", "", AM_ERROR_UNAVAILABLE, "HostUnreachable", "127.0.0.1:1",
    0 },
};

static void
test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      const char *const answers[] = { raw_answer (refusals[i].status, refusals[i].headers, refusals[i].body), NULL };
      g_auto (RawScript) script = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (OllamaModel) model = find (&script, answers, NULL, &error);
      g_test_message ("row %u: %s", i, error->message);
      g_assert_null (model);
      g_assert_true (am_error_is (error, refusals[i].code));
      g_assert_cmpstr (am_error_reason (error), ==, refusals[i].reason);
      g_assert_nonnull (strstr (error->message, refusals[i].says));
      if (refusals[i].n_requests > 0)
        g_assert_cmpuint (script.requests->len, ==, refusals[i].n_requests);
    }
}

/* A manifest that another host gives is none of the registry's. */
static void
test_manifest_from_elsewhere (void)
{
  const char *const others[] = { manifest (), NULL };
  g_auto (RawScript) script = { 0 }, other = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *url = fixture_url (raw_script_start (&other, others), "/m");
  g_autofree char *headers = g_strdup_printf ("Location: %s\r\n", url);
  const char *const answers[] = { raw_answer ("302 x", headers, ""), NULL };
  g_autoptr (OllamaModel) model = find (&script, answers, NULL, &error);
  g_assert_null (model);
  g_assert_cmpstr (am_error_reason (error), ==, "HubAnswer");
}

static void
test_damaged_part (void)
{
  g_autofree char *damaged = g_strdup (CONFIG);
  damaged[2] ^= 1;
  const char *const forever[] = { manifest (), part (damaged, 1), part (damaged, strlen (CONFIG)), NULL };
  const char *const once[] = {
    manifest (),
    part (CONFIG, 1),
    part (damaged, strlen (CONFIG)),
    part (CONFIG, strlen (CONFIG)),
    part (PARAMS, 1),
    part (PARAMS, strlen (PARAMS)),
    part (LICENSE, 1),
    part (LICENSE, strlen (LICENSE)),
    NULL,
  };
  g_auto (RawScript) bad = { 0 }, good = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OllamaModel) none = find (&bad, forever, NULL, &error);
  g_assert_null (none);
  g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
  g_assert_cmpstr (am_error_reason (error), ==, "SourceCorrupt");
  g_clear_error (&error);
  g_autoptr (OllamaModel) model = find (&good, once, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (model);
}

/* A registry of one part, whose tokens are good for a few calls. */
typedef struct {
  GMutex lock;
  guint n_calls_of_each, n_tokens, n_left;
  guint16 port;
} Place;

static gboolean
is_allowed (Place *place, const char *authorization)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&place->lock);
  g_autofree char *wanted = g_strdup_printf ("Bearer token%u", place->n_tokens);
  if (place->n_left == 0 || g_strcmp0 (authorization, wanted) != 0)
    return FALSE;
  place->n_left--;
  return TRUE;
}

static gboolean
serve_token (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Place *place = http_request_service (req);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&place->lock);
  g_assert_cmpstr (http_request_query (req, "scope"), ==, "repository:library/tiny:pull");
  g_assert_cmpstr (http_request_query (req, "service"), ==, "the service");
  place->n_left = place->n_calls_of_each;
  g_autofree char *text = g_strdup_printf ("{\"token\":\"token%u\"}", ++place->n_tokens);
  http_response_text (res, "application/json", text);
  return TRUE;
}

static gboolean
serve_part (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Place *place = http_request_service (req);
  guint64 first = 0, length = FILE_BYTES;
  if (!is_allowed (place, http_request_header (req, "Authorization")))
    {
      http_response_status (res, 401);
      http_response_headerf (res, "WWW-Authenticate",
                             "Bearer realm=\"http://127.0.0.1:%u/token\",service=\"the service\"", place->port);
      return TRUE;
    }
  g_assert_cmpint (http_range_parse (http_request_header (req, "Range"), FILE_BYTES, &first, &length), ==,
                   HTTP_RANGE_PART);
  g_autofree guint8 *bytes = g_malloc (length);
  for (guint64 i = 0; i < length; i++)
    bytes[i] = (guint8) fixture_byte (first + i);
  g_autoptr (GBytes) body = g_bytes_new_take (g_steal_pointer (&bytes), length);
  http_response_status (res, 206);
  http_response_headerf (res, "Content-Range", "bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT "/%u", first,
                         first + length - 1, FILE_BYTES);
  http_response_bytes (res, "application/octet-stream", body);
  return TRUE;
}

static const HttpRoute routes[] = {
  { "GET", "/token", serve_token, 0, FALSE },
  { "GET", "/v2/library/tiny/blobs/{digest}", serve_part, 0, FALSE },
};

static gboolean
read_all (Ctx *ctx, gpointer data, GError **error)
{
  OllamaModel model = { .repository = (char *) "library/tiny", .name = (char *) "tiny" };
  OllamaFile file = { .layer = { .size_bytes = FILE_BYTES } };
  g_autoptr (Reader) reader = ollama_registry_open (data, &model, &file);
  g_autoptr (GBytes) bytes = reader_read_all (ctx, reader, error);
  if (bytes == NULL)
    return FALSE;
  const guint8 *content = g_bytes_get_data (bytes, NULL);
  for (gsize i = 0; i < FILE_BYTES; i++)
    if (content[i] != (guint8) fixture_byte (i))
      g_error ("byte %zu is another", i);
  return TRUE;
}

typedef struct {
  Ctx *ctx;
  Place place;
  HttpServer *server;
  OllamaRegistry *registry;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = {
    .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = G_N_ELEMENTS (routes), .service = &self->place
  };
  g_mutex_init (&self->place.lock);
  self->place.n_calls_of_each = GPOINTER_TO_UINT (data);
  self->ctx = ctx_new ();
  self->server = http_server_start (self->ctx, &config, &error);
  g_assert_no_error (error);
  self->place.port = http_server_port (self->server);
  g_autofree char *endpoint = g_strdup_printf ("http://127.0.0.1:%u", self->place.port);
  self->registry = registry_at (endpoint, NULL);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  ollama_registry_free (self->registry);
  http_server_free (self->server);
  ctx_unref (self->ctx);
  g_mutex_clear (&self->place.lock);
}

/* Tokens that run out in the middle are replaced. */
static void
test_tokens_run_out (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 3; i++)
    {
      read_all (self->ctx, self->registry, &error);
      g_assert_no_error (error);
    }
  g_assert_cmpuint (self->place.n_tokens, >=, 2);
}

/* One token is enough for all who were refused together. */
static void
test_tokens_at_once (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  workers_run (self->ctx, N_READERS, read_all, self->registry, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (self->place.n_tokens, ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ollama_registry/find", test_find);
  g_test_add_func ("/ollama_registry/refusals", test_refusals);
  g_test_add_func ("/ollama_registry/manifest-from-elsewhere", test_manifest_from_elsewhere);
  g_test_add_func ("/ollama_registry/damaged-part", test_damaged_part);
  g_test_add ("/ollama_registry/tokens-run-out", Fixture, GUINT_TO_POINTER (3), set_up, test_tokens_run_out,
              tear_down);
  g_test_add ("/ollama_registry/tokens-at-once", Fixture, GUINT_TO_POINTER (G_MAXINT), set_up, test_tokens_at_once,
              tear_down);
  return g_test_run ();
}
