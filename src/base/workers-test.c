#include "base/workers.h"

#define N_PIECES 1000u

typedef struct {
  gint next, n_done; /* atomic */
  gint fail_at;      /* piece, or -1 */
} Task;

static gboolean
take_pieces (Ctx *ctx, gpointer data, GError **error)
{
  Task *self = data;
  gint piece;
  while ((piece = g_atomic_int_add (&self->next, 1)) < (gint) N_PIECES)
    {
      if (piece == self->fail_at)
        return am_fail (error, AM_ERROR_DATA_LOSS, "PieceBad", "piece %d", piece);
      if (!ctx_check (ctx, error))
        return FALSE;
      g_atomic_int_inc (&self->n_done);
    }
  return TRUE;
}

static void
test_every_piece_once (void)
{
  static const guint n_threads[] = { 0, 1, 2, 7 };
  for (guint i = 0; i < G_N_ELEMENTS (n_threads); i++)
    {
      g_autoptr (GError) error = NULL;
      Task task = { .fail_at = -1 };
      g_assert_true (workers_run (NULL, n_threads[i], take_pieces, &task, &error));
      g_assert_no_error (error);
      g_assert_cmpint (task.n_done, ==, N_PIECES);
    }
}

/* Waits until another worker's failure cancels it: were it not told, the test would hang. */
static gboolean
fail_or_wait (Ctx *ctx, gpointer data, GError **error)
{
  Task *self = data;
  if (g_atomic_int_add (&self->next, 1) == 1)
    return am_fail (error, AM_ERROR_DATA_LOSS, "PieceBad", "the second worker fails");
  return ctx_sleep_ms (ctx, G_MAXINT32, error);
}

static void
test_first_error_ends_all (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new ();
  Task task = { .fail_at = -1 };
  g_assert_false (workers_run (ctx, 4, fail_or_wait, &task, &error));
  g_assert_true (am_error_has_reason (error, "PieceBad"));
  g_assert_false (ctx_is_cancelled (ctx));
}

static void
test_cancelled_from_outside (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new ();
  Task task = { .fail_at = -1 };
  ctx_cancel (ctx);
  g_assert_false (workers_run (ctx, 3, take_pieces, &task, &error));
  g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workers/every-piece-once", test_every_piece_once);
  g_test_add_func ("/workers/first-error-ends-all", test_first_error_ends_all);
  g_test_add_func ("/workers/cancelled-from-outside", test_cancelled_from_outside);
  return g_test_run ();
}
