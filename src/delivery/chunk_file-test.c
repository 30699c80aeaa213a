/* Writers that run far ahead of the hash wait for it, and never for a chunk that nobody brings. */
#include "delivery/chunk_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES (8u << 20)
#define N_CHUNKS 14u /* further than a writer may run ahead */

typedef struct {
  Ctx *ctx;
  int fd;
  guint8 *chunk;
  Digest digest;
  Recipe *recipe;
  ChunkFile *file;
} Fixture;

/* Every chunk is the same bytes: the recipe's digests are the reader's business, not this file's. */
static void
set_up (Fixture *self, gconstpointer data)
{
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "chunk-file-XXXXXX", NULL);
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (RecipeEntry));
  g_autoptr (Hasher) hasher = hasher_new (DIGEST_SHA256);
  RecipeEntry entry = { .decoded_size = CHUNK_BYTES, .encoded_size = CHUNK_BYTES };
  self->fd = g_mkstemp (path);
  g_assert_cmpint (self->fd, >=, 0);
  unlink (path);
  self->chunk = g_malloc (CHUNK_BYTES);
  memset (self->chunk, 7, CHUNK_BYTES);
  for (guint i = 0; i < N_CHUNKS; i++)
    {
      g_array_append_val (entries, entry);
      hasher_update (hasher, self->chunk, CHUNK_BYTES);
    }
  hasher_finish (hasher, &self->digest);
  self->recipe = recipe_new (&self->digest, (guint64) N_CHUNKS * CHUNK_BYTES, entries);
  self->ctx = ctx_new_child (NULL, -1);
  self->file = chunk_file_new (self->ctx, self->fd, self->recipe, "file");
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  chunk_file_free (self->file);
  recipe_free (self->recipe);
  ctx_unref (self->ctx);
  g_free (self->chunk);
  close (self->fd);
}

static void
write_chunk (Fixture *self, guint index)
{
  GError *error = NULL;
  chunk_file_write (self->file, (guint64) index * CHUNK_BYTES, self->chunk, CHUNK_BYTES, &error);
  g_assert_no_error (error);
  g_assert_true (chunk_file_has (self->file, index));
}

static void
check_digest (Fixture *self)
{
  GError *error = NULL;
  Digest actual;
  chunk_file_finish (self->file, &actual, &error);
  g_assert_no_error (error);
  g_assert_true (digest_equal (&actual, &self->digest));
}

static void
test_in_order (Fixture *self, gconstpointer data)
{
  for (guint i = 0; i < N_CHUNKS; i++)
    write_chunk (self, i);
  check_digest (self);
}

/* The only writer brings last what the hash waits for first. */
static void
test_backwards (Fixture *self, gconstpointer data)
{
  for (guint i = N_CHUNKS; i > 0; i--)
    write_chunk (self, i - 1);
  check_digest (self);
}

static gpointer
write_odd (gpointer data)
{
  for (guint i = 1; i < N_CHUNKS; i += 2)
    write_chunk (data, i);
  return NULL;
}

static void
test_two_writers (Fixture *self, gconstpointer data)
{
  GThread *thread = g_thread_new ("odd", write_odd, self);
  for (guint i = N_CHUNKS; i > 0; i -= 2)
    write_chunk (self, i - 2);
  g_thread_join (thread);
  check_digest (self);
}

/* Nobody waits for a hash that has ended. */
static void
test_cancelled (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Digest actual;
  ctx_cancel (self->ctx);
  for (guint i = 0; i < N_CHUNKS; i++)
    write_chunk (self, i);
  g_assert_false (chunk_file_finish (self->file, &actual, &error));
  g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
}

#define ADD(name, func) g_test_add ("/delivery/chunk_file/" name, Fixture, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("in-order", test_in_order);
  ADD ("backwards", test_backwards);
  ADD ("two-writers", test_two_writers);
  ADD ("cancelled", test_cancelled);
  return g_test_run ();
}
