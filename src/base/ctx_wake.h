/* For code that waits in a poll() of its own: what wakes it when a context is cancelled. Used by net/. Thread-safe. */
#pragma once

#include <poll.h>

#include "base/ctx.h"

#define CTX_MAX_WAKE_FDS 16

/* Descriptors that become readable, and stay so, when the context or one above it is cancelled; valid as long as the
 * context. The number of them; with `out_is_whole` FALSE there are more above, and a cancellation has to be looked for. */
guint ctx_wake_fds (Ctx *self, struct pollfd fds[CTX_MAX_WAKE_FDS], gboolean *out_is_whole);
