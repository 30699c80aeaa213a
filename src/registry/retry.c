#include "registry/retry.h"

#include "base/log.h"

#define BASE_MS 250
#define MAX_MS 10000

static gboolean
is_passing (const GError *failure)
{
  /* A full or rationing server says when to come back; a full disk does not. */
  return am_error_retryable (failure)
         || (am_error_is (failure, AM_ERROR_RESOURCE_EXHAUSTED) && am_error_retry_after_ms (failure) > 0);
}

void
retry_reached (Retry *self, guint64 position_bytes)
{
  if (position_bytes <= self->furthest_bytes)
    return;
  self->furthest_bytes = position_bytes;
  self->n_failures = 0;
}

gboolean
retry_wait (Ctx *ctx, Retry *self, const GError *failure, GError **error)
{
  self->n_failures++;
  if (!ctx_check (ctx, error))
    return FALSE;
  gint64 base_ms = self->base_ms > 0 ? self->base_ms : BASE_MS;
  gint64 ceiling = MIN (base_ms << MIN (self->n_failures, 10), MAX_MS);
  gint64 delay_ms = g_random_int_range ((gint32) ceiling / 2, (gint32) ceiling + 1);
  delay_ms = MAX (delay_ms, am_error_retry_after_ms (failure));
  if (!is_passing (failure) || self->n_failures >= RETRY_MAX_FAILURES || ctx_remaining_ms (ctx) <= delay_ms)
    {
      if (self->n_failures >= RETRY_MAX_FAILURES)
        g_propagate_prefixed_error (error, g_error_copy (failure), "no progress in %u attempts: ", self->n_failures);
      else
        g_propagate_error (error, g_error_copy (failure));
      return FALSE;
    }
  am_log (ctx, AM_LOG_PAUSE (delay_ms), "a transfer broke, going on after a pause", "err", failure->message,
          "delay_ms", AM_U64 ((guint64) delay_ms), NULL);
  return ctx_sleep_ms (ctx, delay_ms, error);
}
