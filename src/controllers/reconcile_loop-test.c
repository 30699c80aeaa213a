/* The loop looks at every key, again when that failed or was asked for, and ends with its term. */
#include "controllers/reconcile_loop.h"

#include <string.h>

#include "base/error.h"

#define PATIENCE_MS 20000
#define N_KEYS 40

typedef struct {
  GMutex lock;
  GHashTable *n_looks; /* key -> number */
  gint n_looked;
  Ctx *term;
} Scene;

static guint
count (Scene *self, const char *key, guint more)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (self->n_looks, key)) + more;
  g_hash_table_replace (self->n_looks, g_strdup (key), GUINT_TO_POINTER (n));
  return n;
}

/* Of each four keys one is fine at once, one fails once, one is looked at three times, one asks for that and fails. */
static gboolean
look (Ctx *ctx, gpointer data, const char *key, gint64 *out_again_ms, GError **error)
{
  Scene *self = data;
  guint n = count (self, key, 1);
  int kind = key[strlen (key) - 1] % 4;
  if (kind >= 2 && n < 3)
    *out_again_ms = 1;
  return !((kind == 1 && n == 1) || (kind == 3 && n < 3)) || am_fail (error, AM_ERROR_ABORTED, NULL, "not yet");
}

static guint
wanted (const char *key)
{
  static const guint looks[] = { 1, 2, 3, 3 };
  return looks[key[strlen (key) - 1] % 4];
}

static void
looked (gpointer data)
{
  Scene *self = data;
  g_atomic_int_inc (&self->n_looked);
  for (guint i = 0; i < N_KEYS; i++)
    {
      g_autofree char *key = g_strdup_printf ("Kind/n/%u", i);
      if (count (self, key, 0) < wanted (key))
        return;
    }
  ctx_cancel (self->term);
}

static void
test_loop (void)
{
  g_autoptr (Ctx) term = ctx_new_child (NULL, PATIENCE_MS);
  WorkQueueConfig quick = { .base_delay_ms = 1 };
  g_autoptr (WorkQueue) queue = work_queue_new (&quick);
  Scene scene = { .n_looks = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL), .term = term };
  ReconcileLoop loop = { queue, 3, look, looked, &scene, PATIENCE_MS };
  g_mutex_init (&scene.lock);
  for (guint i = 0; i < N_KEYS; i++)
    {
      g_autofree char *key = g_strdup_printf ("Kind/n/%u", i);
      work_queue_add (queue, key);
    }
  gint64 begin_us = g_get_monotonic_time ();
  reconcile_loop_run (term, &loop);
  g_assert_cmpint (g_get_monotonic_time () - begin_us, <, (PATIENCE_MS / 2) * 1000);
  gint total = 0;
  for (guint i = 0; i < N_KEYS; i++)
    {
      g_autofree char *key = g_strdup_printf ("Kind/n/%u", i);
      g_assert_cmpuint (count (&scene, key, 0), ==, wanted (key));
      total += (gint) wanted (key);
    }
  g_assert_cmpint (scene.n_looked, ==, total);
  g_hash_table_unref (scene.n_looks);
  g_mutex_clear (&scene.lock);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/reconcile_loop/loop", test_loop);
  return g_test_run ();
}
