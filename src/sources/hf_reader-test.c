/* Reading a large file in order, out of order, and where the hub stops in the middle; under the thread sanitizer too. */
#include <string.h>

#include "net/http_range.h"
#include "net/net_fixture.h"
#include "sources/hf_hub.h"

#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define HEX64 "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define FILE_BYTES ((40u << 20) + 123)
#define STEP_BYTES (1u << 20)

typedef struct {
  gint broken_from; /* bytes from there on cannot be had; 0: all can; atomic */
  gint n_requests;
  gint n_bytes; /* in KiB */
} Place;

static gboolean
serve_file (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Place *place = http_request_service (req);
  guint64 first = 0, length = FILE_BYTES;
  g_atomic_int_inc (&place->n_requests);
  guint64 broken_from = (guint64) g_atomic_int_get (&place->broken_from);
  gboolean is_part = http_range_parse (http_request_header (req, "Range"), FILE_BYTES, &first, &length)
                     == HTTP_RANGE_PART;
  if (broken_from != 0 && first + length > broken_from && is_part)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "broken");
  if (strcmp (http_request_method (req), "HEAD") == 0)
    length = FILE_BYTES;
  g_autofree guint8 *bytes = g_malloc (length);
  for (guint64 i = 0; i < length; i++)
    bytes[i] = (guint8) fixture_byte (first + i);
  g_atomic_int_add (&place->n_bytes, is_part ? (gint) (length >> 10) : 0);
  g_autoptr (GBytes) body = g_bytes_new_take (g_steal_pointer (&bytes), length);
  if (is_part)
    {
      http_response_status (res, 206);
      http_response_headerf (res, "Content-Range", "bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT "/%u", first,
                             first + length - 1, FILE_BYTES);
    }
  http_response_bytes (res, "application/octet-stream", body);
  return TRUE;
}

static const HttpRoute routes[] = { { "GET", "/{path+}", serve_file, 0, FALSE } };

typedef struct {
  Ctx *ctx;
  Place place;
  HttpServer *server;
  HfHub *hub;
  Reader *reader;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  HttpServerConfig server = {
    .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = 1, .service = &self->place
  };
  HfInfo info = { .id = (char *) "owner/name", .commit = (char *) HEX40 };
  HfFile file = { (char *) "m.gguf", FILE_BYTES, (char *) HEX64, NULL };
  self->ctx = ctx_new ();
  self->server = http_server_start (self->ctx, &server, &error);
  g_assert_no_error (error);
  g_autofree char *endpoint = g_strdup_printf ("http://127.0.0.1:%u", http_server_port (self->server));
  HfHubConfig config = { .endpoint = endpoint, .retry_base_ms = 1 };
  self->hub = hf_hub_new (&config, &error);
  g_assert_no_error (error);
  self->reader = hf_hub_open (self->hub, &info, &file, NULL);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  reader_free (self->reader);
  hf_hub_free (self->hub);
  http_server_free (self->server);
  ctx_unref (self->ctx);
}

/* Reads [from, to) in steps and compares; FALSE with the reader's error. */
static gboolean
read_in_order (Fixture *self, Ctx *ctx, guint64 from, guint64 to, guint64 *out_reached, GError **error)
{
  g_autofree guint8 *buffer = g_malloc (STEP_BYTES);
  for (guint64 at = from; at < to; at += STEP_BYTES)
    {
      gsize size = (gsize) MIN (STEP_BYTES, to - at);
      *out_reached = at;
      if (!reader_read_at (ctx, self->reader, at, buffer, size, error))
        return FALSE;
      for (gsize i = 0; i < size; i++)
        if (buffer[i] != (guint8) fixture_byte (at + i))
          g_error ("byte %" G_GUINT64_FORMAT " is another", at + i);
    }
  *out_reached = to;
  return TRUE;
}

static void
test_in_order (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  guint64 reached;
  g_assert_true (read_in_order (self, self->ctx, 0, FILE_BYTES, &reached, &error));
  /* Every byte once, in windows. */
  g_assert_cmpint (self->place.n_bytes, <=, (FILE_BYTES >> 10) + 1);
  g_assert_cmpint (self->place.n_requests, <, 26);
}

static void
test_jumps (Fixture *self, gconstpointer data)
{
  static const guint64 starts[] = { 0, 17u << 20, 3u << 20, FILE_BYTES - STEP_BYTES, 1 };
  g_autoptr (GError) error = NULL;
  guint64 reached;
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++)
    g_assert_true (
      read_in_order (self, self->ctx, starts[i], MIN (starts[i] + (12u << 20), FILE_BYTES), &reached, &error));
}

/* Whoever cuts the content into chunks asks for less than a window at a time. */
static void
test_small_steps (Fixture *self, gconstpointer data)
{
  g_autofree guint8 *piece = g_malloc (100000);
  for (guint64 at = 0; at < FILE_BYTES; at += 100000)
    {
      gsize size = (gsize) MIN (100000, FILE_BYTES - at);
      g_assert_true (reader_read_at (self->ctx, self->reader, at, piece, size, NULL));
      g_assert_cmpuint (piece[size - 1], ==, (guint8) fixture_byte (at + size - 1));
    }
  g_assert_cmpint (self->place.n_requests, <, 30);
}

/* Headers are read in small pieces, which are not one request each. */
static void
test_small_pieces (Fixture *self, gconstpointer data)
{
  guint8 piece[100];
  for (guint64 at = 0; at < 200000; at += sizeof piece)
    {
      g_assert_true (reader_read_at (self->ctx, self->reader, at, piece, sizeof piece, NULL));
      g_assert_cmpuint (piece[99], ==, (guint8) fixture_byte (at + 99));
    }
  g_assert_cmpint (self->place.n_requests, ==, 2);
  g_assert_true (reader_read_at (self->ctx, self->reader, FILE_BYTES - 1, piece, 1, NULL));
  g_assert_cmpuint (piece[0], ==, (guint8) fixture_byte (FILE_BYTES - 1));
}

/* Pitfalls A14. */
static void
test_breaks_in_the_middle (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  guint64 reached = 0;
  g_atomic_int_set (&self->place.broken_from, 20 << 20);
  g_assert_false (read_in_order (self, self->ctx, 0, FILE_BYTES, &reached, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "HubForbidden");
  g_assert_cmpuint (reached, >=, 8u << 20);
  /* Once it is mended, reading goes on. */
  g_clear_error (&error);
  g_atomic_int_set (&self->place.broken_from, 0);
  g_assert_true (read_in_order (self, self->ctx, reached, FILE_BYTES, &reached, &error));
}

static void
test_cancelled (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) child = ctx_new_child (self->ctx, -1);
  guint64 reached;
  g_assert_true (read_in_order (self, child, 0, 10u << 20, &reached, &error));
  ctx_cancel (child);
  g_assert_false (read_in_order (self, child, reached, FILE_BYTES, &reached, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_CANCELLED);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/hf_reader/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("in-order", test_in_order);
  ADD ("jumps", test_jumps);
  ADD ("small-steps", test_small_steps);
  ADD ("small-pieces", test_small_pieces);
  ADD ("breaks-in-the-middle", test_breaks_in_the_middle);
  ADD ("cancelled", test_cancelled);
  return g_test_run ();
}
