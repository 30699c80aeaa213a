#include "controllers/reconcile_loop.h"

#include "base/error.h"
#include "base/log.h"

typedef struct {
  Ctx *term;
  const ReconcileLoop *loop;
} Reign;

/* A context for a look at this key. */
static Ctx *
look_ctx (const Reign *self, const char *key)
{
  static const char *const fields[] = { "kind", "namespace", "name" };
  Ctx *ctx = ctx_new_child (self->term, self->loop->look_timeout_ms);
  g_auto (GStrv) parts = g_strsplit (key, "/", G_N_ELEMENTS (fields));
  for (gsize i = 0; i < G_N_ELEMENTS (fields) && parts[i] != NULL; i++)
    ctx_set_field (ctx, fields[i], parts[i]);
  return ctx;
}

static void
plan_next (const Reign *self, Ctx *ctx, const char *key, gboolean done, gint64 again_ms, const GError *error)
{
  WorkQueue *queue = self->loop->queue;
  if (done)
    work_queue_forget (queue, key);
  else if (ctx_check (self->term, NULL))
    am_log (ctx, am_error_is (error, AM_ERROR_ABORTED) ? AM_LOG_DEBUG : AM_LOG_WARNING, "tried again", "err",
            error->message, NULL);
  if (again_ms > 0)
    work_queue_add_after (queue, key, again_ms);
  else if (!done)
    work_queue_add_failed (queue, key);
}

static gpointer
work (gpointer data)
{
  const Reign *self = data;
  const ReconcileLoop *loop = self->loop;
  for (char *key; (key = work_queue_get (loop->queue, self->term)) != NULL; g_free (key))
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Ctx) ctx = look_ctx (self, key);
      gint64 again_ms = 0;
      gboolean done = loop->reconcile (ctx, loop->data, key, &again_ms, &error);
      plan_next (self, ctx, key, done, again_ms, error);
      work_queue_done (loop->queue, key);
      if (loop->looked != NULL)
        loop->looked (loop->data);
    }
  return NULL;
}

void
reconcile_loop_run (Ctx *term, const ReconcileLoop *loop)
{
  Reign reign = { term, loop };
  g_autoptr (GPtrArray) threads = g_ptr_array_new ();
  for (guint i = 0; i < loop->n_threads; i++)
    g_ptr_array_add (threads, g_thread_new ("reconcile", work, &reign));
  while (ctx_sleep_ms (term, 3600 * 1000, NULL))
    continue;
  work_queue_shut_down (loop->queue);
  for (guint i = 0; i < threads->len; i++)
    g_thread_join (threads->pdata[i]);
}
