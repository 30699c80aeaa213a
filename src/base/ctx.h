/* A context: deadline, cancellation and log fields of one piece of work. First parameter of every
 * function that blocks. Contexts form a tree: a child ends no later than its parent. Thread-safe;
 * a context outlives its children because each child holds a reference to its parent. */
#pragma once

#include <glib.h>

typedef struct Ctx Ctx;

/* A root without deadline. */
Ctx *ctx_new (void);
/* A child that can be cancelled alone. `timeout_ms` < 0 means no deadline of its own. */
Ctx *ctx_new_child (Ctx *parent, gint64 timeout_ms);
Ctx *ctx_ref (Ctx *self);
void ctx_unref (Ctx *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Ctx, ctx_unref)

/* Adds a log field to this context (children show it too). Call before sharing it. */
void ctx_set_field (Ctx *self, const char *key, const char *value);
/* Calls `func` for each field, root first. */
void ctx_foreach_field (Ctx *self, void (*func) (const char *key, const char *value, gpointer data), gpointer data);

/* Cancels this context and its children. Async-signal-safe. */
void ctx_cancel (Ctx *self);
gboolean ctx_is_cancelled (Ctx *self);
/* FALSE with CANCELLED or DEADLINE_EXCEEDED when the work must stop; NULL ctx is always fine. */
gboolean ctx_check (Ctx *self, GError **error);
/* Milliseconds left, G_MAXINT64 without a deadline, 0 when over. */
gint64 ctx_remaining_ms (Ctx *self);
/* Sleeps; returns early with an error as ctx_check does. */
gboolean ctx_sleep_ms (Ctx *self, gint64 duration_ms, GError **error);
