#include "base/workers.h"

typedef struct {
  Ctx *ctx;
  WorkerFunc func;
  gpointer task;
  GMutex lock;
  GError *error; /* the first */
} Team;

static gpointer
work (gpointer data)
{
  Team *team = data;
  GError *error = NULL;
  if (team->func (team->ctx, team->task, &error))
    return NULL;
  g_mutex_lock (&team->lock);
  if (team->error == NULL)
    team->error = g_steal_pointer (&error);
  g_mutex_unlock (&team->lock);
  g_clear_error (&error);
  ctx_cancel (team->ctx);
  return NULL;
}

gboolean
workers_run (Ctx *ctx, guint n_threads, WorkerFunc func, gpointer task, GError **error)
{
  g_autoptr (Ctx) own = ctx_new_child (ctx, -1);
  Team team = { .ctx = own, .func = func, .task = task };
  g_mutex_init (&team.lock);
  g_autofree GThread **threads = g_new0 (GThread *, MAX (n_threads, 1));
  for (guint i = 1; i < n_threads; i++)
    threads[i] = g_thread_new ("worker", work, &team);
  work (&team);
  for (guint i = 1; i < n_threads; i++)
    g_thread_join (threads[i]);
  g_mutex_clear (&team.lock);
  if (team.error == NULL)
    return TRUE;
  g_propagate_error (error, team.error);
  return FALSE;
}
