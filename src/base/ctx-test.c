#include "base/ctx.h"

#include <signal.h>
#include <string.h>

#include "base/ctx_wake.h"
#include "base/error.h"

#define LONG_MS 20000
#define WAKE_LIMIT_US (50 * 1000)

static void
test_tree (void)
{
  g_autoptr (Ctx) root = ctx_new ();
  g_autoptr (Ctx) child = ctx_new_child (root, -1);
  g_autoptr (Ctx) grandchild = ctx_new_child (child, 60000);
  g_autoptr (Ctx) sibling = ctx_new_child (root, -1);
  g_autoptr (GError) error = NULL;
  g_assert_true (ctx_check (NULL, &error));
  g_assert_false (ctx_is_cancelled (NULL));
  g_assert_true (ctx_check (grandchild, &error));
  ctx_cancel (child);
  g_assert_true (ctx_is_cancelled (grandchild));
  g_assert_false (ctx_is_cancelled (root));
  g_assert_true (ctx_check (sibling, &error));
  g_assert_false (ctx_check (grandchild, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_CANCELLED);
}

/* A child keeps its parent alive. */
static void
test_lifetime (void)
{
  Ctx *root = ctx_new ();
  g_autoptr (Ctx) child = ctx_new_child (root, -1);
  ctx_cancel (root);
  ctx_unref (root);
  g_assert_true (ctx_is_cancelled (child));
  ctx_unref (NULL);
}

static void
test_deadline (void)
{
  static const struct {
    gint64 parent_ms, child_ms, most_ms;
  } rows[] = {
    { -1, 500, 500 },    { 500, -1, 500 },         { 500, 90000, 500 },
    { 90000, 500, 500 }, { 500, G_MAXINT64, 500 }, { 0, 500, 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (Ctx) parent = ctx_new_child (NULL, rows[i].parent_ms);
      g_autoptr (Ctx) child = ctx_new_child (parent, rows[i].child_ms);
      gint64 left = ctx_remaining_ms (child);
      g_assert_cmpint (left, <=, rows[i].most_ms);
      g_assert_cmpint (left, >=, rows[i].most_ms - 200);
    }
  g_autoptr (Ctx) endless = ctx_new ();
  g_assert_cmpint (ctx_remaining_ms (endless), ==, G_MAXINT64);
  g_assert_cmpint (ctx_remaining_ms (NULL), ==, G_MAXINT64);
  g_autoptr (Ctx) over = ctx_new_child (endless, 0);
  g_autoptr (GError) error = NULL;
  g_assert_false (ctx_check (over, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_DEADLINE_EXCEEDED);
  g_assert_cmpint (ctx_remaining_ms (over), ==, 0);
}

static void
test_sleep (void)
{
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, 150);
  g_autoptr (GError) error = NULL;
  gint64 start = g_get_monotonic_time ();
  g_assert_true (ctx_sleep_ms (ctx, 30, &error));
  g_assert_cmpint (g_get_monotonic_time () - start, >=, 30000);
  g_assert_true (ctx_sleep_ms (ctx, 0, &error));
  g_assert_true (ctx_sleep_ms (ctx, -5, &error));
  g_assert_true (ctx_sleep_ms (NULL, 1, &error));
  g_assert_false (ctx_sleep_ms (ctx, LONG_MS, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_DEADLINE_EXCEEDED);
  g_assert_cmpint (g_get_monotonic_time () - start, <, LONG_MS * 1000ll / 2);
}

static gint64 cancelled_at;

static gpointer
cancel_soon (gpointer data)
{
  g_usleep (30000);
  cancelled_at = g_get_monotonic_time ();
  ctx_cancel (data);
  return NULL;
}

/* Whoever sleeps wakes up at once, whichever ancestor is cancelled. */
static void
test_wake_up (void)
{
  for (guint depth = 0; depth < 4; depth++)
    {
      g_autoptr (Ctx) root = ctx_new_child (NULL, -1);
      g_autoptr (Ctx) leaf = ctx_ref (root);
      for (guint i = 0; i < depth; i++)
        {
          Ctx *next = ctx_new_child (leaf, -1);
          ctx_unref (leaf);
          leaf = next;
        }
      g_autoptr (GError) error = NULL;
      GThread *thread = g_thread_new ("cancel", cancel_soon, root);
      g_assert_false (ctx_sleep_ms (leaf, LONG_MS, &error));
      gint64 woken_at = g_get_monotonic_time ();
      g_thread_join (thread);
      g_assert_error (error, AM_ERROR, AM_ERROR_CANCELLED);
      g_assert_cmpint (woken_at - cancelled_at, <, WAKE_LIMIT_US);
      g_clear_error (&error);
      g_assert_false (ctx_sleep_ms (leaf, LONG_MS, &error)); /* and never sleeps again */
    }
}

static Ctx *signalled;

static void
on_signal (int number)
{
  cancelled_at = g_get_monotonic_time ();
  ctx_cancel (signalled);
}

static gpointer
raise_soon (gpointer data)
{
  g_usleep (30000);
  raise (SIGUSR1); /* in this thread: the sleeper is not interrupted by it */
  return NULL;
}

static void
test_signal (void)
{
  g_autoptr (Ctx) root = ctx_new ();
  g_autoptr (Ctx) child = ctx_new_child (root, LONG_MS);
  g_autoptr (GError) error = NULL;
  struct sigaction action = { .sa_handler = on_signal };
  signalled = root;
  g_assert_cmpint (sigaction (SIGUSR1, &action, NULL), ==, 0);
  GThread *thread = g_thread_new ("raise", raise_soon, NULL);
  g_assert_false (ctx_sleep_ms (child, LONG_MS, &error));
  gint64 woken_at = g_get_monotonic_time ();
  g_thread_join (thread);
  g_assert_error (error, AM_ERROR, AM_ERROR_CANCELLED);
  g_assert_cmpint (woken_at - cancelled_at, <, WAKE_LIMIT_US);
}

static void
append_field (const char *key, const char *value, gpointer data)
{
  g_string_append_printf (data, "%s=%s;", key, value);
}

/* Whoever polls by himself is woken by a cancellation anywhere above, before it or after he began. */
static void
test_wake_fds (void)
{
  for (guint depth = 1; depth <= CTX_MAX_WAKE_FDS + 1; depth += CTX_MAX_WAKE_FDS / 2)
    {
      g_autoptr (Ctx) root = ctx_new ();
      g_autoptr (GPtrArray) line = g_ptr_array_new_with_free_func ((GDestroyNotify) ctx_unref);
      struct pollfd fds[CTX_MAX_WAKE_FDS];
      gboolean is_whole = FALSE;
      for (guint i = 1; i < depth; i++)
        g_ptr_array_add (line, ctx_new_child (i == 1 ? root : line->pdata[i - 2], -1));
      Ctx *last = depth == 1 ? root : line->pdata[depth - 2];
      g_assert_cmpuint (ctx_wake_fds (last, fds, &is_whole), ==, MIN (depth, CTX_MAX_WAKE_FDS));
      g_assert_true (is_whole == (depth <= CTX_MAX_WAKE_FDS));
      g_assert_cmpint (poll (fds, MIN (depth, CTX_MAX_WAKE_FDS), 0), ==, 0);
      ctx_cancel (is_whole ? root : last);
      g_assert_cmpint (poll (fds, MIN (depth, CTX_MAX_WAKE_FDS), 0), ==, 1);
      g_assert_cmpuint (ctx_wake_fds (last, fds, &is_whole), ==, MIN (depth, CTX_MAX_WAKE_FDS));
      g_assert_cmpint (poll (fds, MIN (depth, CTX_MAX_WAKE_FDS), 0), ==, 1);
    }
  gboolean is_whole = FALSE;
  g_assert_cmpuint (ctx_wake_fds (NULL, NULL, &is_whole), ==, 0);
  g_assert_true (is_whole);
}

static void
test_fields (void)
{
  g_autoptr (Ctx) root = ctx_new ();
  g_autoptr (GString) text = g_string_new (NULL);
  ctx_set_field (root, "request", "1");
  g_autoptr (Ctx) child = ctx_new_child (root, -1);
  ctx_set_field (child, "blob", "b");
  ctx_set_field (child, "part", "2");
  ctx_foreach_field (child, append_field, text);
  g_assert_cmpstr (text->str, ==, "request=1;blob=b;part=2;");
  ctx_foreach_field (NULL, append_field, text);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ctx/tree", test_tree);
  g_test_add_func ("/ctx/lifetime", test_lifetime);
  g_test_add_func ("/ctx/deadline", test_deadline);
  g_test_add_func ("/ctx/sleep", test_sleep);
  g_test_add_func ("/ctx/wake-up", test_wake_up);
  g_test_add_func ("/ctx/signal", test_signal);
  g_test_add_func ("/ctx/wake-fds", test_wake_fds);
  g_test_add_func ("/ctx/fields", test_fields);
  return g_test_run ();
}
