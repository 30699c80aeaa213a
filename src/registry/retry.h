/* When a transfer that broke goes on: with growing pauses, as long as every few attempts bring progress
 * (pitfalls-sources.md 14). Private to registry/. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

#define RETRY_MAX_FAILURES 6u

typedef struct {
  gint64 base_ms;   /* of the pauses; 0: 250 */
  guint n_failures; /* since the last progress; set to 0 when bytes moved */
} Retry;

/* Sleeps before another attempt and returns TRUE; or FALSE with a copy of `failure` (or of the context's end) when
 * there should be none: it is of a kind that stays, or nothing moved in RETRY_MAX_FAILURES attempts. */
gboolean retry_wait (Ctx *ctx, Retry *self, const GError *failure, GError **error);
