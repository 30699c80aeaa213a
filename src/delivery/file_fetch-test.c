/* Bringing a blob into a file from a repository that may lie. */
#include "delivery/file_fetch.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/blake3.h"
#include "base/file.h"

#define BLOB_BYTES 3000000u
#define CHUNK_BYTES 1000000u
#define N_CHUNKS 3u

/* A repository with one blob, and what is wrong with it. */
typedef struct {
  Repository base;
  guint8 *content;
  Digest digest;
  gboolean has_recipe;
  gboolean sends_wrong_bytes; /* in a stream */
  gboolean recipe_lies;       /* its chunks are good, but are not the blob */
  gboolean stops_early;       /* without an error, as a broken adapter would */
  guint64 n_streamed_bytes;
  guint n_chunks_sent;
} Fake;

static gboolean
fake_read_blob (Ctx *ctx, Repository *base, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                BlobSink sink, gpointer data, GError **error)
{
  Fake *self = (Fake *) base;
  g_autofree guint8 *copy = g_memdup2 (self->content + offset_bytes, size_bytes);
  copy[size_bytes / 2] ^= self->sends_wrong_bytes;
  self->n_streamed_bytes += size_bytes;
  return sink (ctx, data, copy, size_bytes, error);
}

static Recipe *
fake_get_recipe (Ctx *ctx, Repository *base, const Digest *digest, GError **error)
{
  Fake *self = (Fake *) base;
  if (!self->has_recipe)
    return NULL;
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  for (guint i = 0; i < N_CHUNKS; i++)
    {
      guint from = self->recipe_lies ? 0 : i;
      RecipeEntry entry = { .decoded_size = CHUNK_BYTES, .encoded_size = CHUNK_BYTES };
      blake3_of (self->content + from * CHUNK_BYTES, CHUNK_BYTES, entry.digest);
      g_array_append_val (entries, entry);
    }
  return recipe_new (&self->digest, BLOB_BYTES, entries);
}

static gboolean
fake_read_chunks (Ctx *ctx, Repository *base, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                  TransferProgress progress, gpointer data, GError **error)
{
  Fake *self = (Fake *) base;
  for (guint i = N_CHUNKS; i-- > 0;) /* backwards: order must not matter */
    {
      guint from = self->recipe_lies ? 0 : i;
      if (!wanted[i] || (self->stops_early && i == 0))
        continue;
      self->n_chunks_sent++;
      if (!sink (ctx, data, i * CHUNK_BYTES, self->content + from * CHUNK_BYTES, CHUNK_BYTES, error))
        return FALSE;
      progress (CHUNK_BYTES, CHUNK_BYTES / 2, data);
    }
  return TRUE;
}

static const RepositoryClass fake_class = { .read_blob = fake_read_blob,
                                            .get_recipe = fake_get_recipe,
                                            .read_chunks = fake_read_chunks };

typedef struct {
  Fake fake;
  GMutex heavy;
  FetchSource source;
  FetchCounts counts;
  char *path;
  int fd;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  *self = (Fixture){ 0 };
  self->fake = (Fake){ .base = { &fake_class, (char *) "m", (char *) "reg.example/m", FALSE } };
  self->fake.content = g_malloc (BLOB_BYTES);
  for (guint i = 0; i < BLOB_BYTES; i++)
    self->fake.content[i] = (guint8) (i * 2654435761u >> 13);
  digest_of (DIGEST_SHA256, self->fake.content, BLOB_BYTES, &self->fake.digest);
  g_mutex_init (&self->heavy);
  self->source = (FetchSource){ &self->fake.base, NULL, NULL, &self->heavy };
  self->fd = g_file_open_tmp ("fetch-XXXXXX", &self->path, NULL);
  g_assert_cmpint (self->fd, >=, 0);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  close (self->fd);
  g_unlink (self->path);
  g_free (self->path);
  g_free (self->fake.content);
  g_mutex_clear (&self->heavy);
}

static gboolean
fetch (Fixture *self, GError **error)
{
  self->counts = (FetchCounts){ 0 };
  return file_fetch (NULL, &self->source, &self->fake.digest, BLOB_BYTES, self->fd, "file", &self->counts, error);
}

static void
assert_whole (Fixture *self)
{
  g_autofree char *content = NULL;
  gsize size = 0;
  g_autoptr (GError) error = NULL;
  g_assert_true (fetch (self, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (self->path, &content, &size, NULL));
  g_assert_cmpmem (content, size, self->fake.content, BLOB_BYTES);
}

static void
assert_refused (Fixture *self, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (fetch (self, &error));
  g_assert_true (am_error_has_reason (error, reason));
  g_assert_cmpint (lseek (self->fd, 0, SEEK_END), ==, 0); /* nothing to go on from */
}

static void
test_stream (Fixture *self, gconstpointer data)
{
  assert_whole (self);
  g_assert_cmpuint (self->fake.n_streamed_bytes, ==, BLOB_BYTES);
}

static void
test_stream_goes_on (Fixture *self, gconstpointer data)
{
  g_assert_true (file_pwrite_all (self->fd, 0, self->fake.content, 2000000, NULL));
  assert_whole (self);
  g_assert_cmpuint (self->fake.n_streamed_bytes, ==, 1000000);
  g_assert_cmpuint (self->counts.kept_bytes, ==, 2000000);
}

static void
test_stream_over_wrong_bytes (Fixture *self, gconstpointer data)
{
  g_assert_true (file_pwrite_all (self->fd, 0, "wrong", 5, NULL));
  assert_whole (self);
  g_assert_cmpuint (self->counts.kept_bytes, ==, 0);
}

static void
test_stream_over_a_longer_file (Fixture *self, gconstpointer data)
{
  g_assert_cmpint (ftruncate (self->fd, 2 * BLOB_BYTES), ==, 0);
  assert_whole (self);
}

static void
test_lying_stream (Fixture *self, gconstpointer data)
{
  self->fake.sends_wrong_bytes = TRUE;
  assert_refused (self, "DigestMismatch");
  self->fake.sends_wrong_bytes = FALSE;
  assert_whole (self);
}

static void
test_chunks (Fixture *self, gconstpointer data)
{
  self->fake.has_recipe = TRUE;
  assert_whole (self);
  g_assert_cmpuint (self->fake.n_chunks_sent, ==, N_CHUNKS);
  g_assert_cmpuint (self->counts.moved_bytes, ==, BLOB_BYTES / 2);
}

static void
test_chunks_on_disk_are_kept (Fixture *self, gconstpointer data)
{
  self->fake.has_recipe = TRUE;
  g_assert_true (file_pwrite_all (self->fd, CHUNK_BYTES, self->fake.content + CHUNK_BYTES, CHUNK_BYTES, NULL));
  g_assert_true (file_pwrite_all (self->fd, 2 * CHUNK_BYTES, "wrong", 5, NULL));
  assert_whole (self);
  g_assert_cmpuint (self->fake.n_chunks_sent, ==, N_CHUNKS - 1);
  g_assert_cmpuint (self->counts.kept_bytes, ==, CHUNK_BYTES);
}

/* What is small is right before it touches the file: whoever reads or writes it beside us never sees less. */
static void
test_small (Fixture *self, gconstpointer data)
{
  const gsize size = 1000;
  Digest digest;
  g_autofree char *content = NULL;
  gsize n = 0;
  digest_of (DIGEST_SHA256, self->fake.content, size, &digest);
  g_assert_true (file_pwrite_all (self->fd, 0, self->fake.content, 2 * size, NULL));
  for (guint round = 0; round < 3; round++) /* lies, mends, keeps */
    {
      g_autoptr (GError) error = NULL;
      self->fake.sends_wrong_bytes = round == 0;
      self->counts = (FetchCounts){ 0 };
      gboolean done = file_fetch (NULL, &self->source, &digest, size, self->fd, "file", &self->counts, &error);
      g_assert_true (round == 0 ? am_error_has_reason (error, "DigestMismatch") : done);
      g_assert_cmpuint (self->counts.kept_bytes, ==, round == 2 ? size : 0);
      g_assert_cmpuint (self->fake.n_streamed_bytes, ==, MIN (round + 1, 2) * size);
    }
  g_assert_true (g_file_get_contents (self->path, &content, &n, NULL));
  g_assert_cmpmem (content, n, self->fake.content, size);
}

static void
test_lying_recipe (Fixture *self, gconstpointer data)
{
  self->fake.has_recipe = self->fake.recipe_lies = TRUE;
  assert_refused (self, "DigestMismatch");
  self->fake.recipe_lies = FALSE;
  assert_whole (self);
}

static void
test_chunks_that_never_come (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  self->fake.has_recipe = self->fake.stops_early = TRUE;
  g_assert_false (fetch (self, &error));
  g_assert_true (am_error_is (error, AM_ERROR_INTERNAL));
}

static void
test_cancelled (Fixture *self, gconstpointer data)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  self->fake.has_recipe = TRUE;
  ctx_cancel (ctx);
  g_assert_false (
    file_fetch (ctx, &self->source, &self->fake.digest, BLOB_BYTES, self->fd, "file", &self->counts, &error));
  g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
}

#define ADD(name, func) g_test_add ("/delivery/file_fetch/" name, Fixture, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("stream", test_stream);
  ADD ("stream-goes-on", test_stream_goes_on);
  ADD ("stream-over-wrong-bytes", test_stream_over_wrong_bytes);
  ADD ("stream-over-a-longer-file", test_stream_over_a_longer_file);
  ADD ("lying-stream", test_lying_stream);
  ADD ("small", test_small);
  ADD ("chunks", test_chunks);
  ADD ("chunks-on-disk-are-kept", test_chunks_on_disk_are_kept);
  ADD ("lying-recipe", test_lying_recipe);
  ADD ("chunks-that-never-come", test_chunks_that_never_come);
  ADD ("cancelled", test_cancelled);
  return g_test_run ();
}
