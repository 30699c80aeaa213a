/* When a transfer that broke goes on: with growing pauses, as long as every few attempts bring progress
 * (pitfalls-sources.md 14). Private to registry/. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

#define RETRY_MAX_FAILURES 6u

typedef struct {
  gint64 base_ms;         /* of the pauses; 0: 250 */
  guint n_failures;       /* since the last progress */
  guint64 furthest_bytes; /* see retry_reached */
} Retry;

/* The transfer stands at `position_bytes`. Only further than ever before is progress, after which failures count
 * anew: who is thrown back and comes as far again has gained nothing. */
void retry_reached (Retry *self, guint64 position_bytes);

/* Sleeps before another attempt and returns TRUE; or FALSE with a copy of `failure` (or of the context's end) when
 * there should be none: it is of a kind that stays, or nothing moved in RETRY_MAX_FAILURES attempts. */
gboolean retry_wait (Ctx *ctx, Retry *self, const GError *failure, GError **error);
