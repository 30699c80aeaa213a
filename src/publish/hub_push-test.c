/* A whole push from a hub into a store, with every call to the hub failing in turn, in every way: it ends well after another
 * attempt, or with a reason, leaves nothing half visible, and the next one goes on. */
#include <string.h>

#include "net/http_range.h"
#include "net/net_fixture.h"
#include "publish/hub_source.h"
#include "publish/publish.h"
#include "registry/registry_fixture.h"
#include "registry/repository_local.h"
#include "storage/repository_links.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define CONFIG "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"}"
#define TIMEOUT_MS 400

typedef enum { FAULT_NONE, FAULT_STATUS, FAULT_CUT, FAULT_CUT_AT_ONCE, FAULT_SHIFT, FAULT_WHOLE, FAULT_SILENT } Fault;

typedef struct {
  Ctx *ctx;
  HttpServer *server;
  char *endpoint, *tree;
  GBytes *config, *weights;
  gint n_calls; /* atomic; and these two */
  gint fault_from, fault_to;
  Fault fault;
} Place;

/* A body that breaks off. */
typedef struct {
  GBytes *bytes;
  gsize position, end;
} Broken;

static gssize
broken_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  Broken *self = data;
  gsize n = MIN (size, self->end - self->position);
  if (n == 0)
    {
      am_fail (error, AM_ERROR_DATA_LOSS, NULL, "cut");
      return -1;
    }
  memcpy (buffer, (const guint8 *) g_bytes_get_data (self->bytes, NULL) + self->position, n);
  self->position += n;
  return (gssize) n;
}

static void
broken_free (gpointer data)
{
  g_bytes_unref (((Broken *) data)->bytes);
  g_free (data);
}

static void
answer (HttpResponse *res, GBytes *body, Fault fault)
{
  static const HttpBodySource source = { broken_read, broken_free };
  gsize size = g_bytes_get_size (body);
  if ((fault != FAULT_CUT && fault != FAULT_CUT_AT_ONCE) || size == 0)
    {
      http_response_bytes (res, "application/octet-stream", body);
      return;
    }
  Broken *broken = g_new0 (Broken, 1);
  broken->bytes = g_bytes_ref (body);
  broken->end = fault == FAULT_CUT ? size / 2 : 0;
  http_response_stream (res, "application/octet-stream", size, &source, broken);
}

static void
serve_bytes (HttpRequest *req, HttpResponse *res, GBytes *bytes, Fault fault)
{
  guint64 total = g_bytes_get_size (bytes), first = 0, length = total;
  gboolean is_part = http_range_parse (http_request_header (req, "Range"), total, &first, &length) == HTTP_RANGE_PART
                     && fault != FAULT_WHOLE;
  if (!is_part)
    first = 0, length = total;
  if (is_part && fault == FAULT_SHIFT)
    first += first + length < total ? 1 : 0, length -= first + length > total ? 1 : 0;
  g_autoptr (GBytes) body = g_bytes_new_from_bytes (bytes, first, length);
  if (is_part)
    {
      http_response_status (res, 206);
      http_response_headerf (res, "Content-Range",
                             "bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, first,
                             first + length - 1, total);
    }
  answer (res, body, fault);
}

static gboolean
serve (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Place *self = http_request_service (req);
  const char *path = http_request_path (req);
  gint n = g_atomic_int_add (&self->n_calls, 1);
  Fault fault = n >= g_atomic_int_get (&self->fault_from) && n < g_atomic_int_get (&self->fault_to) ? self->fault
                                                                                                    : FAULT_NONE;
  if (fault == FAULT_STATUS)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "trouble");
  if (fault == FAULT_SILENT && !ctx_sleep_ms (ctx, 2 * TIMEOUT_MS, error))
    return FALSE;
  if (g_str_has_suffix (path, "/model.safetensors"))
    serve_bytes (req, res, self->weights, fault);
  else if (g_str_has_suffix (path, "/config.json"))
    serve_bytes (req, res, self->config, fault);
  else
    {
      const char *text = strstr (path, "/tree/") != NULL ? self->tree
                                                         : "{\"id\":\"o/n\",\"sha\":\"" COMMIT
                                                           "\",\"siblings\":[{\"rfilename\":\"config.json\"},"
                                                           "{\"rfilename\":\"model.safetensors\"}]}";
      g_autoptr (GBytes) body = g_bytes_new (text, strlen (text));
      answer (res, body, fault);
    }
  return TRUE;
}

static const HttpRoute routes[] = { { "GET", "/{path+}", serve, 0, FALSE } };

static char *
blob_id (GBytes *bytes)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  g_autofree char *head = g_strdup_printf ("blob %zu", size);
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA1);
  g_checksum_update (sum, (const guchar *) head, (gssize) strlen (head) + 1);
  g_checksum_update (sum, data, (gssize) size);
  return g_strdup (g_checksum_get_string (sum));
}

static void
set_up (Place *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  HttpServerConfig config = { .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = 1, .service = self };
  self->ctx = ctx_new ();
  self->config = g_bytes_new_static (CONFIG, strlen (CONFIG));
  self->weights = fixture_model (3, 1u << 20, 1, 0);
  g_autofree char *id = blob_id (self->config);
  g_autofree char *sum = g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, self->weights);
  gsize size = g_bytes_get_size (self->weights);
  self->tree = g_strdup_printf ("[{\"type\":\"file\",\"path\":\"config.json\",\"size\":%zu,\"oid\":\"%s\"},"
                                "{\"type\":\"file\",\"path\":\"model.safetensors\",\"size\":%zu,\"oid\":\"%s\","
                                "\"lfs\":{\"oid\":\"%s\",\"size\":%zu,\"pointerSize\":130}}]",
                                strlen (CONFIG), id, size, id, sum, size);
  self->server = http_server_start (self->ctx, &config, &error);
  g_assert_no_error (error);
  self->endpoint = g_strdup_printf ("http://127.0.0.1:%u", http_server_port (self->server));
}

static void
tear_down (Place *self, gconstpointer data)
{
  http_server_free (self->server);
  ctx_unref (self->ctx);
  g_bytes_unref (self->config);
  g_bytes_unref (self->weights);
  g_free (self->endpoint);
  g_free (self->tree);
}

static gboolean
push (Place *self, StoreFixture *store, Digest *out_digest, GError **error)
{
  HfHubConfig config = { .endpoint = self->endpoint, .retry_base_ms = 1, .no_progress_timeout_ms = TIMEOUT_MS };
  g_autofree char *url = g_strconcat (self->endpoint, "/o/n", NULL);
  g_autoptr (Repository) repository = repository_local_new (store->blobs, "team/m", NULL);
  g_auto (PublishResult) result = { 0 };
  ModelSource *source = hub_source_open (self->ctx, &config, url, NULL, error);
  g_autoptr (PublishPlan) plan = source != NULL ? publish_plan_new (self->ctx, source, NULL, error) : NULL;
  if (plan == NULL || !publish_run (self->ctx, plan, repository, "v1", NULL, &result, error))
    return FALSE;
  *out_digest = result.digest;
  return TRUE;
}

/* A fault for the calls [from, to): the push ends well, or says why not and is mended by the next one. TRUE: ended well. */
static gboolean
push_with (Place *self, Fault fault, gint from, gint to, const Digest *wanted)
{
  StoreFixture store;
  Digest digest;
  g_autoptr (GError) error = NULL;
  store_fixture_init (&store);
  self->fault = fault;
  g_atomic_int_set (&self->fault_from, from);
  g_atomic_int_set (&self->fault_to, to);
  g_atomic_int_set (&self->n_calls, 0);
  gboolean done = push (self, &store, &digest, &error);
  if (!done)
    {
      g_assert_nonnull (error);
      g_assert_cmpint (error->domain, ==, AM_ERROR);
      g_autoptr (Repository) repository = repository_local_new (store.blobs, "team/m", NULL);
      g_assert_null (repository_get_manifest (self->ctx, repository, "v1", NULL, NULL, NULL));
      g_clear_error (&error);
      g_atomic_int_set (&self->fault_to, 0);
      g_assert_true (push (self, &store, &digest, &error));
    }
  g_assert_no_error (error);
  g_assert_true (digest_equal (&digest, wanted));
  g_assert_cmpuint (store_fixture_count (&store, "_ai_models/uploads/"), ==, 0);
  store_fixture_clear (&store);
  return done;
}

/* Calls of a push where nothing fails, and what it makes. */
static gint
count_calls (Place *self, Digest *out_digest)
{
  StoreFixture store;
  g_autoptr (GError) error = NULL;
  store_fixture_init (&store);
  g_assert_true (push (self, &store, out_digest, &error));
  g_assert_no_error (error);
  store_fixture_clear (&store);
  return g_atomic_int_get (&self->n_calls);
}

static void
test_each_call_fails_once (Place *self, gconstpointer data)
{
  Digest wanted;
  gint n_calls = count_calls (self, &wanted);
  g_assert_cmpint (n_calls, >=, 6);
  for (Fault fault = FAULT_STATUS; fault <= FAULT_SILENT; fault++)
    for (gint n = 0; n < n_calls; n++)
      g_assert_true (push_with (self, fault, n, n + 1, &wanted));
}

static void
test_each_call_fails_for_good (Place *self, gconstpointer data)
{
  Digest wanted;
  gint n_calls = count_calls (self, &wanted);
  guint n_failed = 0;
  for (Fault fault = FAULT_STATUS; fault < FAULT_SILENT; fault++)
    for (gint n = 0; n < n_calls; n++)
      n_failed += push_with (self, fault, n, G_MAXINT, &wanted) ? 0 : 1;
  g_assert_cmpuint (n_failed, >=, 3 * (guint) n_calls);
  g_assert_false (push_with (self, FAULT_SILENT, n_calls - 1, G_MAXINT, &wanted));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/hub-push/" name, Place, NULL, set_up, func, tear_down)
  ADD ("each-call-fails-once", test_each_call_fails_once);
  ADD ("each-call-fails-for-good", test_each_call_fails_for_good);
  return g_test_run ();
}
