#include "publish/worker_private.h"

#include <string.h>

#include "base/log.h"
#include "publish/staging_keys.h"

#define TROUBLE_MAX_CHARS 400
#define OTHER_KEYS "the keys of the module's bucket were changed"

typedef struct {
  PublicationParty party;
  guint n_failures;       /* without progress */
  guint64 furthest_bytes; /* that files came before one */
} Patience;

static void
count_failure (Patience *self, WorkerReport *report)
{
  guint64 done = worker_report_done_bytes (report);
  self->n_failures = done > self->furthest_bytes ? 1 : self->n_failures + 1;
  self->furthest_bytes = MAX (done, self->furthest_bytes);
}

static char *
pause_text (gint64 pause_ms)
{
  gint64 seconds = (pause_ms + 999) / 1000;
  return seconds < 120 ? g_strdup_printf ("%" G_GINT64_FORMAT " s", seconds)
                       : g_strdup_printf ("%" G_GINT64_FORMAT " min", (seconds + 59) / 60);
}

/* "<what>; tried 3 times, again in 40 s" */
static char *
trouble_text (const char *words, guint n_failures, gint64 pause_ms)
{
  g_autofree char *pause = pause_text (pause_ms);
  g_autofree char *head = g_utf8_strlen (words, -1) > TROUBLE_MAX_CHARS
                            ? g_utf8_substring (words, 0, TROUBLE_MAX_CHARS)
                            : g_strdup (words);
  return g_strdup_printf ("%s; tried %u time%s, again in %s", head, n_failures, n_failures == 1 ? "" : "s", pause);
}

/* Waits for the next attempt; FALSE when there should be none. */
static gboolean
wait_for_next (Ctx *ctx, Worker *self, Patience *patience, PublicationVerdict verdict, const GError *problem,
               const char *words)
{
  count_failure (patience, self->report);
  if (verdict.action == PUBLICATION_TRY_SOME_MORE && patience->n_failures >= PUBLICATION_MAX_TRIES)
    return FALSE;
  gint64 pause_ms = publication_pause_ms (patience->party, patience->n_failures, am_error_retry_after_ms (problem));
  g_autofree char *trouble = trouble_text (words, patience->n_failures, pause_ms);
  worker_report_set_trouble (self->report, trouble);
  am_log_warning (ctx, "trouble", "err", words, "tried", AM_U64 (patience->n_failures), "delay_ms",
                  AM_U64 ((guint64) pause_ms), NULL);
  return ctx_sleep_ms (ctx, pause_ms, NULL);
}

/* The bucket refuses keys that are not the module's any more. This process cannot have others. */
static gboolean
is_outdated (const Worker *self, const GError *problem)
{
  return am_error_has_reason (problem, "StorageDenied") && staging_keys_are_old (self->order->staging_keys_dir);
}

gboolean
worker_persist (Ctx *ctx, Worker *self, PublicationParty party, WorkerStep step, const char **out_reason,
                GError **error)
{
  Patience patience = { .party = party };
  while (TRUE)
    {
      g_autoptr (GError) problem = NULL;
      if (step (ctx, self, &problem))
        {
          worker_report_set_trouble (self->report, NULL);
          return TRUE;
        }
      PublicationVerdict verdict = publication_judge (problem, party);
      if (is_outdated (self, problem))
        return am_fail (error, AM_ERROR_ABORTED, NULL, OTHER_KEYS);
      g_autofree char *words = publication_words (problem->message, self->veils, WORKER_N_VEILS);
      gboolean may_help = verdict.action == PUBLICATION_TRY_AGAIN || verdict.action == PUBLICATION_TRY_SOME_MORE;
      if (may_help && !ctx_is_cancelled (ctx) && wait_for_next (ctx, self, &patience, verdict, problem, words))
        continue;
      gboolean is_ended = ctx_is_cancelled (ctx);
      *out_reason = is_ended ? NULL : verdict.reason;
      return is_ended ? ctx_check (ctx, error)
                      : am_fail (error, (AmErrorCode) problem->code, am_error_reason (problem), "%s", words);
    }
}
