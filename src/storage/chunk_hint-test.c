/* What the hint says is never worse than a question: what was listed or stored is asked about. */
#include "storage/chunk_hint.h"

#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"

static ChunkDigest
numbered (guint i)
{
  return fixture_chunk_digest (&i, sizeof i);
}

static void
store (StorageFixture *self, guint i)
{
  ChunkDigest digest = numbered (i);
  g_autofree char *key = chunk_key (digest.bytes);
  fixture_put (self->fs, key, "x");
}

static gboolean
lacks (ChunkHint *hint, guint i)
{
  ChunkDigest digest = numbered (i);
  return chunk_hint_surely_lacks (hint, digest.bytes);
}

static void
refresh (StorageFixture *self, ChunkHint *hint, guint64 n_requests)
{
  g_autoptr (GError) error = NULL;
  object_store_fault_set (self->objects, 0, FALSE);
  fixture_assert_ok (chunk_hint_refresh (NULL, hint, self->objects, &error), error);
  g_assert_cmpuint (object_store_fault_count (self->objects), ==, n_requests);
}

static void
test_small (StorageFixture *self, gconstpointer data)
{
  g_autoptr (ChunkHint) hint = chunk_hint_new ();
  store (self, 1);
  g_assert_false (lacks (hint, 1)); /* nothing is known */
  g_assert_false (lacks (hint, 2));
  refresh (self, hint, 1);
  g_assert_false (lacks (hint, 1));
  g_assert_true (lacks (hint, 2));
  refresh (self, hint, 0); /* it is young */
  ChunkDigest own = numbered (3);
  g_assert_true (lacks (hint, 3));
  chunk_hint_add (hint, own.bytes);
  g_assert_false (lacks (hint, 3));
}

/* A listing goes on where it stopped; until it is complete everything is asked about. */
static void
test_large (StorageFixture *self, gconstpointer data)
{
  const guint n = 2100;
  g_autoptr (ChunkHint) hint = chunk_hint_new ();
  for (guint i = 0; i < n; i++)
    {
      ChunkDigest digest = numbered (i);
      g_autofree char *key = chunk_key (digest.bytes);
      g_autoptr (GError) error = NULL;
      fixture_assert_ok (object_store_put (NULL, self->fs, key, "x", 1, OBJECT_COMMIT_LAZY, &error), error);
    }
  refresh (self, hint, 2);
  g_assert_false (lacks (hint, n + 1));
  refresh (self, hint, 1);
  g_assert_true (lacks (hint, n + 1));
  guint n_lacking = 0;
  for (guint i = 0; i < n; i++)
    n_lacking += lacks (hint, i);
  g_assert_cmpuint (n_lacking, ==, 0);
  for (guint i = n; i < 2 * n; i++) /* of short forms few meet by chance */
    n_lacking += lacks (hint, i);
  g_assert_cmpuint (n_lacking, >, n - 10);
}

static void
test_failure (StorageFixture *self, gconstpointer data)
{
  g_autoptr (ChunkHint) hint = chunk_hint_new ();
  g_autoptr (GError) error = NULL;
  object_store_fault_set (self->objects, 1, FALSE);
  g_assert_false (chunk_hint_refresh (NULL, hint, self->objects, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL);
  g_assert_false (lacks (hint, 1));
  refresh (self, hint, 1);
  g_assert_true (lacks (hint, 1));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/chunk-hint/small", test_small);
  STORAGE_TEST ("/chunk-hint/large", test_large);
  STORAGE_TEST ("/chunk-hint/failure", test_failure);
  return g_test_run ();
}
