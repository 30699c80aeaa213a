/* A few threads that share one task until it is done or one of them fails. None outlives the call: a pool's threads
 * would, and end after the libraries' state they hold was torn down. Used by storage/,
 * registry/, publish/ and delivery/. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

/* One worker's whole run: takes pieces of the shared task until there are none. `ctx` is cancelled when
 * another worker failed. */
typedef gboolean (*WorkerFunc) (Ctx *ctx, gpointer task, GError **error);

/* Runs `func` on `n_threads` threads, the caller's among them, and waits for all. The first error wins. */
gboolean workers_run (Ctx *ctx, guint n_threads, WorkerFunc func, gpointer task, GError **error);
