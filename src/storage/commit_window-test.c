/* Commits beside each other: what counts as stored is stored, and a failure does not hide behind a success. */
#include "storage/commit_window.h"

#include <string.h>

#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"

static gboolean
add (StorageFixture *self, CommitWindow *window, guint i, GError **error)
{
  g_autofree char *key = g_strdup_printf ("t/%03u", i);
  ObjectWriter *writer = object_store_create (NULL, self->fs, error);
  g_assert_nonnull (writer);
  g_assert_true (object_writer_append (NULL, writer, key, strlen (key), error));
  return commit_window_add (NULL, window, writer, strlen (key), key, OBJECT_COMMIT_LAZY, error);
}

static void
test_all_stored (StorageFixture *self, gconstpointer data)
{
  static const gsize rooms[] = { 1, 12, 1000 }; /* for one that is too large, for two, for all */
  for (gsize k = 0; k < G_N_ELEMENTS (rooms); k++)
    {
      g_autoptr (CommitWindow) window = commit_window_new (4, rooms[k]);
      g_autoptr (GError) error = NULL;
      for (guint i = 0; i < 50; i++)
        fixture_assert_ok (add (self, window, i, &error), error);
      fixture_assert_ok (commit_window_drain (NULL, window, &error), error);
      g_assert_cmpuint (commit_window_n_stored (window), ==, 50);
      g_assert_cmpuint (fixture_count (self->fs, "t/"), ==, 50);
      fixture_assert_ok (object_store_remove_prefix (NULL, self->fs, "t/", &error), error);
    }
}

/* A writer whose commit waits to be let through, or for its context to end. */
typedef struct {
  ObjectWriter base;
  gint *gate; /* 0 closed, 1 open, 2 fails */
} Waiting;

static gboolean
commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  Waiting *self = (Waiting *) base;
  while (g_atomic_int_get (self->gate) == 0)
    if (!ctx_sleep_ms (ctx, 2, error))
      return FALSE;
  return g_atomic_int_get (self->gate) == 1 || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "object %s: no", key);
}

static ObjectWriter *
waiting (gint *gate)
{
  static const ObjectWriterClass klass = { .commit = commit, .free = (void (*) (ObjectWriter *)) g_free };
  Waiting *self = g_new0 (Waiting, 1);
  *self = (Waiting){ { &klass }, gate };
  return &self->base;
}

/* The second of three fails: the third is stored, and counts for nothing. */
static void
test_failure (StorageFixture *self, gconstpointer data)
{
  gint gates[3] = { 0, 2, 1 };
  g_autoptr (CommitWindow) window = commit_window_new (4, 100);
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 3; i++)
    fixture_assert_ok (commit_window_add (NULL, window, waiting (&gates[i]), 1, "t/x", 0, &error), error);
  g_assert_cmpuint (commit_window_n_stored (window), ==, 0);
  g_atomic_int_set (&gates[0], 1);
  g_assert_false (commit_window_drain (NULL, window, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL);
  g_assert_cmpuint (commit_window_n_stored (window), ==, 1);
  g_assert_false (commit_window_add (NULL, window, waiting (&gates[0]), 1, "t/x", 0, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL);
}

/* Who waits for room may be told to stop; what is under way goes on, until the window is freed. */
static void
test_patience (StorageFixture *self, gconstpointer data)
{
  gint gates[3] = { 0, 0, 0 };
  CommitWindow *window = commit_window_new (2, 100);
  g_autoptr (Ctx) hurried = ctx_new_child (NULL, 30);
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 2; i++)
    fixture_assert_ok (commit_window_add (hurried, window, waiting (&gates[i]), 1, "t/x", 0, &error), error);
  g_assert_false (commit_window_add (hurried, window, waiting (&gates[2]), 1, "t/x", 0, &error));
  fixture_assert_error (&error, AM_ERROR_DEADLINE_EXCEEDED, NULL);
  g_atomic_int_set (&gates[0], 1);
  fixture_assert_ok (commit_window_add (NULL, window, waiting (&gates[2]), 1, "t/x", 0, &error), error);
  g_assert_cmpuint (commit_window_n_stored (window), ==, 1);
  commit_window_free (window);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/commit-window/all-stored", test_all_stored);
  STORAGE_TEST ("/commit-window/failure", test_failure);
  STORAGE_TEST ("/commit-window/patience", test_patience);
  return g_test_run ();
}
