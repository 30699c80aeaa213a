/* The work of a leader on a queue of keys "KIND/NAMESPACE/NAME": so many threads, each of which looks at one of them. Used by
 * the controllers of Models and of workloads. */
#pragma once

#include "kube/work_queue.h"

typedef struct {
  WorkQueue *queue;
  guint n_threads;
  /* One look at what the key names; the context has its fields for the log. `*out_again_ms` > 0: look again then. */
  gboolean (*reconcile) (Ctx *ctx, gpointer data, const char *key, gint64 *out_again_ms, GError **error);
  void (*looked) (gpointer data); /* after each look; or NULL */
  gpointer data;
  gint64 look_timeout_ms;
} ReconcileLoop;

/* Blocks until `term` ends; then shuts the queue down and waits for the threads. */
void reconcile_loop_run (Ctx *term, const ReconcileLoop *loop);
