#include "delivery/materialize_fixture.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blake3.h"
#include "base/file.h"
#include "delivery/volume_marker.h"
#include "oci/media_types.h"
#include "oci/modelpack.h"

typedef struct {
  Repository base;
  MaterializeFixture *fixture;
} Fake;

static const char *const small_texts[] = { "{\"small\":1}", "one", "" };
static const char *const small_paths[] = { "config.json", "deep/er/file.json", "deep/empty.json" };

static gboolean
find_blob (MaterializeFixture *self, const Digest *digest, gconstpointer *out_bytes, gsize *out_size)
{
  Digest own;
  for (guint i = 0; i < G_N_ELEMENTS (small_texts); i++)
    {
      digest_of (DIGEST_SHA256, small_texts[i], strlen (small_texts[i]), &own);
      *out_bytes = small_texts[i];
      *out_size = strlen (small_texts[i]);
      if (digest_equal (digest, &own))
        return TRUE;
    }
  *out_bytes = self->weights;
  *out_size = FIXTURE_WEIGHTS_BYTES;
  return TRUE;
}

static gboolean
fake_read_blob (Ctx *ctx, Repository *base, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                BlobSink sink, gpointer data, GError **error)
{
  gconstpointer bytes;
  gsize size;
  find_blob (((Fake *) base)->fixture, digest, &bytes, &size);
  g_assert_cmpuint (offset_bytes + size_bytes, <=, size);
  return sink (ctx, data, (const guint8 *) bytes + offset_bytes, size_bytes, error);
}

static Recipe *
fake_get_recipe (Ctx *ctx, Repository *base, const Digest *digest, GError **error)
{
  MaterializeFixture *self = ((Fake *) base)->fixture;
  g_usleep (self->verify_ms * 1000);
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  for (guint at = 0; at < FIXTURE_WEIGHTS_BYTES; at += FIXTURE_CHUNK_BYTES)
    {
      RecipeEntry entry = { .decoded_size = FIXTURE_CHUNK_BYTES, .encoded_size = FIXTURE_CHUNK_BYTES };
      blake3_of (self->weights + at, FIXTURE_CHUNK_BYTES, entry.digest);
      g_array_append_val (entries, entry);
    }
  return recipe_new (digest, FIXTURE_WEIGHTS_BYTES, entries);
}

static gboolean
fake_read_chunks (Ctx *ctx, Repository *base, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                  TransferProgress progress, gpointer data, GError **error)
{
  MaterializeFixture *self = ((Fake *) base)->fixture;
  for (guint i = 0; i < recipe->entries->len; i++)
    {
      if (!wanted[i])
        continue;
      if (!ctx_check (ctx, error))
        return FALSE;
      if (self->fails_after > 0 && (guint) g_atomic_int_get (&self->n_chunks_sent) >= self->fails_after)
        {
          if (!self->stays_away)
            self->fails_after = 0;
          return am_fail (error, self->failure, NULL, "the registry's trouble");
        }
      g_atomic_int_inc (&self->n_chunks_sent);
      if (!sink (ctx, data, i * FIXTURE_CHUNK_BYTES, self->weights + i * FIXTURE_CHUNK_BYTES, FIXTURE_CHUNK_BYTES,
                 error))
        return FALSE;
      progress (FIXTURE_CHUNK_BYTES, FIXTURE_CHUNK_BYTES, data);
    }
  return TRUE;
}

static GBytes *
fake_get_manifest (Ctx *ctx, Repository *base, const char *reference, char **out_media_type, Digest *out_digest,
                   GError **error)
{
  MaterializeFixture *self = ((Fake *) base)->fixture;
  g_assert_cmpstr (reference, ==, self->digest);
  g_assert_true (digest_parse (self->digest, out_digest, NULL));
  *out_media_type = g_strdup (OCI_MANIFEST);
  return g_bytes_ref (self->manifest);
}

static void
fake_free (Repository *base)
{
  g_free (base);
}

static const RepositoryClass fake_class = {
  .read_blob = fake_read_blob,
  .get_recipe = fake_get_recipe,
  .read_chunks = fake_read_chunks,
  .get_manifest = fake_get_manifest,
  .free = fake_free,
};

static Repository *
open_fake (gpointer data, GError **error)
{
  MaterializeFixture *self = data;
  Fake *fake = g_new0 (Fake, 1);
  fake->base = (Repository){ &fake_class, g_strdup ("m"), g_strdup ("reg.example/m"), FALSE };
  fake->fixture = self;
  g_atomic_int_inc (&self->n_opened);
  return &fake->base;
}

static void
make_manifest (MaterializeFixture *self)
{
  ModelpackFile files[FIXTURE_N_FILES] = { { "model.safetensors", { 0 }, FIXTURE_WEIGHTS_BYTES } };
  g_auto (ModelpackFacts) facts = { 0 };
  g_autoptr (GBytes) config = NULL;
  g_autoptr (GError) error = NULL;
  Digest digest;
  digest_of (DIGEST_SHA256, self->weights, FIXTURE_WEIGHTS_BYTES, &files[0].digest);
  for (guint i = 0; i < G_N_ELEMENTS (small_texts); i++)
    {
      files[i + 1] = (ModelpackFile){ small_paths[i], { 0 }, strlen (small_texts[i]) };
      digest_of (DIGEST_SHA256, small_texts[i], strlen (small_texts[i]), &files[i + 1].digest);
    }
  modelpack_build (files, FIXTURE_N_FILES, &facts, &config, &self->manifest, &error);
  g_assert_no_error (error);
  digest_of (DIGEST_SHA256, g_bytes_get_data (self->manifest, NULL), g_bytes_get_size (self->manifest), &digest);
  self->digest = digest_to_string (&digest);
}

void
materialize_fixture_set_up (MaterializeFixture *self, gconstpointer data)
{
  static const VolumeTimes times = { .beat_ms = 50, .stale_ms = 400, .poll_ms = 10 };
  *self = (MaterializeFixture){ 0 };
  /* In memory where that is: thousands of runs, each synced many times. */
  const char *folder = access ("/dev/shm", W_OK) == 0 ? "/dev/shm" : g_get_tmp_dir ();
  self->volume = g_build_filename (folder, "volume-XXXXXX", NULL);
  g_assert_nonnull (g_mkdtemp (self->volume));
  self->weights = g_malloc (FIXTURE_WEIGHTS_BYTES);
  for (guint i = 0; i < FIXTURE_WEIGHTS_BYTES; i++)
    self->weights[i] = (guint8) (i * 2654435761u >> 13);
  make_manifest (self);
  self->order = (MaterializeOrder){ .open = open_fake,
                                    .open_data = self,
                                    .digest = self->digest,
                                    .volume = self->volume,
                                    .patience_ms = 10000,
                                    .times = &times };
}

void
materialize_fixture_tear_down (MaterializeFixture *self, gconstpointer data)
{
  g_assert_true (file_remove_tree (self->volume, NULL));
  g_free (self->volume);
  g_free (self->weights);
  g_bytes_unref (self->manifest);
  g_free (self->digest);
}

gboolean
materialize_fixture_shows_model (MaterializeFixture *self)
{
  g_autofree char *path = g_build_filename (self->volume, "model", NULL);
  return g_file_test (path, G_FILE_TEST_EXISTS);
}

static void
check_file (MaterializeFixture *self, const char *path, gconstpointer wanted, gsize wanted_size)
{
  g_autofree char *full = g_build_filename (self->volume, "model", path, NULL), *content = NULL;
  gsize size = 0;
  g_assert_true (g_file_get_contents (full, &content, &size, NULL));
  g_assert_cmpmem (content, size, wanted, wanted_size);
}

static guint
count_below (const char *path)
{
  guint n = 0;
  const char *name;
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);
      n += g_file_test (child, G_FILE_TEST_IS_DIR) ? count_below (child) : 1;
    }
  return n;
}

void
materialize_fixture_check (MaterializeFixture *self, gboolean is_whole)
{
  g_autofree char *model = g_build_filename (self->volume, "model", NULL);
  g_autofree char *marker = g_build_filename (self->volume, VOLUME_MARKER, NULL);
  gboolean is_marked = g_file_test (marker, G_FILE_TEST_EXISTS), is_shown = materialize_fixture_shows_model (self);
  g_assert_true (is_shown || !is_marked);
  g_assert_true (!is_whole || (is_shown && is_marked));
  if (!is_shown)
    return;
  check_file (self, "model.safetensors", self->weights, FIXTURE_WEIGHTS_BYTES);
  for (guint i = 0; i < G_N_ELEMENTS (small_texts); i++)
    check_file (self, small_paths[i], small_texts[i], strlen (small_texts[i]));
  g_assert_cmpuint (count_below (model), ==, FIXTURE_N_FILES);
}
