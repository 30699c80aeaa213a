/* Fetching recipes and chunk frames from a registry that lies about them. */
#include <string.h>

#include "oci/media_types.h"
#include "registry/registry_fixture.h"
#include "registry/repository_local.h"
#include "registry/scripted_registry.h"

#define MIB (1024u * 1024u)
#define BLOB_BYTES (9 * MIB)
#define FRAMES "Content-Type: " WIRE_CHUNKS "\n"
#define WHOLE WIRE_RANGE_HEADER ": 0-9437183"

typedef struct {
  StoreFixture store;
  GBytes *blob;
  Digest digest;
  Recipe *recipe;
  GBytes *recipe_bytes;
  GBytes *frames[2]; /* of its two chunks */
  ScriptedRegistry home;
  Repository *repository;
} Fixture;

static GBytes *
stored_frame (Fixture *self, guint index)
{
  g_autoptr (GError) error = NULL;
  const RecipeEntry *entry = &g_array_index (self->recipe->entries, RecipeEntry, index);
  g_autoptr (GString) hex = g_string_new (NULL);
  for (guint i = 0; i < sizeof entry->digest; i++)
    g_string_append_printf (hex, "%02x", entry->digest[i]);
  g_autofree char *key = g_strdup_printf ("_ai_models/chunks/%.2s/%s", hex->str, hex->str);
  GBytes *frame = object_store_get (NULL, self->store.objects, key, 2 * BLOB_BYTES, &error);
  g_assert_no_error (error);
  return frame;
}

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  store_fixture_init (&self->store);
  g_autoptr (Repository) local = repository_local_new (self->store.blobs, "m", NULL);
  self->blob = fixture_noise (BLOB_BYTES, 1);
  g_autoptr (Reader) content = reader_new_bytes (self->blob);
  g_assert_true (repository_push_blob (NULL, local, content, NULL, NULL, NULL, NULL, &self->digest, &error));
  self->recipe = repository_get_recipe (NULL, local, &self->digest, &error);
  g_assert_cmpuint (self->recipe->entries->len, ==, 2);
  self->recipe_bytes = recipe_write (self->recipe);
  for (guint i = 0; i < 2; i++)
    self->frames[i] = stored_frame (self, i);
}

static void
stop (Fixture *self)
{
  g_clear_pointer (&self->repository, repository_free);
  scripted_registry_stop (&self->home);
  self->home = (ScriptedRegistry){ 0 };
}

static void
start (Fixture *self, const ScriptRule *rules, guint n_rules)
{
  stop (self);
  scripted_registry_start (&self->home, rules, n_rules, NULL);
  self->repository = scripted_registry_client (&self->home, 0);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  stop (self);
  for (guint i = 0; i < 2; i++)
    g_bytes_unref (self->frames[i]);
  g_bytes_unref (self->recipe_bytes);
  recipe_free (self->recipe);
  g_bytes_unref (self->blob);
  store_fixture_clear (&self->store);
}

static GBytes *
joined (GBytes *a, GBytes *b)
{
  GByteArray *bytes = g_byte_array_new ();
  g_byte_array_append (bytes, g_bytes_get_data (a, NULL), (guint) g_bytes_get_size (a));
  g_byte_array_append (bytes, g_bytes_get_data (b, NULL), (guint) g_bytes_get_size (b));
  return g_byte_array_free_to_bytes (bytes);
}

static GBytes *
flipped (GBytes *bytes, gsize at)
{
  gsize size = 0;
  guint8 *copy = g_bytes_unref_to_data (g_bytes_ref (bytes), &size);
  copy[at] ^= 1;
  return g_bytes_new_take (copy, size);
}

static void
test_recipes (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) damaged = flipped (self->recipe_bytes, 20);
  g_autoptr (GBytes) cut = g_bytes_new_from_bytes (self->recipe_bytes, 0, 100);
  Digest other;
  digest_of (DIGEST_SHA256, "x", 1, &other);
  const struct {
    GBytes *bytes;
    const char *headers;
    const Digest *digest;
    const char *reason; /* NULL with a recipe or with none */
    gboolean has_recipe;
  } rows[] = {
    { self->recipe_bytes, "Content-Type: " WIRE_RECIPE, &self->digest, NULL, TRUE },
    { self->recipe_bytes, "Content-Type: " WIRE_RECIPE "; v=1", &self->digest, NULL, TRUE },
    { self->recipe_bytes, "Content-Type: " OCTET_STREAM, &self->digest, NULL, FALSE },
    { self->recipe_bytes, "Content-Type: " WIRE_RECIPE, &other, "RecipeCorrupt", FALSE },
    { damaged, "Content-Type: " WIRE_RECIPE, &self->digest, "RecipeCorrupt", FALSE },
    { cut, "Content-Type: " WIRE_RECIPE, &self->digest, "RecipeCorrupt", FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = { { "GET", "*", .status = 200, .headers = rows[i].headers, .blob = rows[i].bytes } };
      g_autoptr (GError) error = NULL;
      start (self, rules, 1);
      g_autoptr (Recipe) recipe = repository_get_recipe (NULL, self->repository, rows[i].digest, &error);
      g_assert_cmpint (recipe != NULL, ==, rows[i].has_recipe);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_true (error == NULL || strstr (error->message, self->repository->display) != NULL);
    }
}

static gboolean
fetch (Fixture *self, ChunkCollector *collector, GError **error)
{
  static const guint8 wanted[] = { 1, 1 };
  chunk_collector_init (collector, BLOB_BYTES);
  return repository_read_chunks (NULL, self->repository, self->recipe, wanted, chunk_collector_take, NULL, collector,
                                 error);
}

/* After a break only what did not come is asked for again, and no chunk is handed on twice. */
static void
test_breaks (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) all = joined (self->frames[0], self->frames[1]);
  const ScriptRule rules[] = {
    { "GET", "*", .times = 1, .status = 503 },
    { "GET", "*", .times = 1, .status = 200, .headers = FRAMES WHOLE, .blob = all, .cut_after = MIB },
    { "GET", "*", .times = 1, .status = 200, .headers = FRAMES WHOLE, .blob = all,
      .cut_after = g_bytes_get_size (self->frames[0]) + 100 },
    { "GET", "*", .status = 200, .headers = FRAMES WIRE_RANGE_HEADER ": 8388608-9437183", .blob = self->frames[1] },
  };
  ChunkCollector collector;
  g_autoptr (GError) error = NULL;
  start (self, rules, G_N_ELEMENTS (rules));
  fetch (self, &collector, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (collector.bytes->data, collector.bytes->len, g_bytes_get_data (self->blob, NULL), BLOB_BYTES);
  g_assert_cmpuint (collector.n_chunks, ==, 2);
  g_assert_cmpuint (collector.n_again, ==, 0);
  g_assert_cmpuint (scripted_registry_count (&self->home, "*range=bytes=8388608-9437183*"), ==, 1);
  chunk_collector_clear (&collector);
}

/* No byte of a lie reaches the sink: at most the true chunk before it does. */
static void
test_lies (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) all = joined (self->frames[0], self->frames[1]);
  g_autoptr (GBytes) swapped = joined (self->frames[1], self->frames[0]);
  g_autoptr (GBytes) more = joined (all, self->frames[1]);
  g_autoptr (GBytes) bad_header = flipped (all, 10);
  g_autoptr (GBytes) bad_bytes = flipped (all, MIB);
  g_autoptr (GBytes) rubbish = fixture_noise (BLOB_BYTES, 2);
  const struct {
    const char *headers;
    GBytes *frames;
    guint n_chunks; /* true ones */
  } rows[] = {
    { FRAMES WHOLE, swapped, 0 },
    { FRAMES WHOLE, more, 2 },
    { FRAMES WHOLE, bad_header, 0 },
    { FRAMES WHOLE, bad_bytes, 0 },
    { FRAMES WHOLE, rubbish, 0 },
    { FRAMES, all, 0 },
    { FRAMES WIRE_RANGE_HEADER ": 0-9437184", all, 0 },
    { FRAMES WIRE_RANGE_HEADER ": 1-9437183", all, 0 },
    { "Content-Type: " OCTET_STREAM "\n" WHOLE, all, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = { { "GET", "*", .status = 200, .headers = rows[i].headers,
                                     .blob = rows[i].frames } };
      ChunkCollector collector;
      g_autoptr (GError) error = NULL;
      start (self, rules, 1);
      g_assert_false (fetch (self, &collector, &error));
      g_test_message ("row %u: %s", i, error->message);
      g_assert_true (am_error_has_reason (error, "ChunkCorrupt"));
      g_assert_nonnull (strstr (error->message, self->repository->display));
      g_assert_cmpuint (collector.n_chunks, ==, rows[i].n_chunks);
      g_assert_cmpuint (scripted_registry_count (&self->home, "*"), ==, 1);
      chunk_collector_clear (&collector);
    }
}

/* An answer that ends early, and honestly says so, is asked for again, but not for ever. */
static void
test_too_little (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) nothing = g_bytes_new_static ("", 0);
  const ScriptRule rules[] = { { "GET", "*", .status = 200, .headers = FRAMES WHOLE, .blob = nothing } };
  ChunkCollector collector;
  g_autoptr (GError) error = NULL;
  start (self, rules, 1);
  g_assert_false (fetch (self, &collector, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_nonnull (strstr (error->message, "ended before chunk 0"));
  g_assert_cmpuint (scripted_registry_count (&self->home, "*"), <=, 6);
  chunk_collector_clear (&collector);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/remote-chunks/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("recipes", test_recipes);
  ADD ("breaks", test_breaks);
  ADD ("lies", test_lies);
  ADD ("too-little", test_too_little);
  return g_test_run ();
}
