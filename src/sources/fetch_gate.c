#include "sources/fetch_gate.h"

static const struct {
  guint connections;
  gsize window_bytes;
} steps[] = {
  { 1, 2 << 20 },
  { 2, 2 << 20 },
  { 4, 2 << 20 },
  { 6, 2 << 20 },
  { 9, 2 << 20 },
  { FETCH_MAX_CONNECTIONS, 2 << 20 },
};
#define FIRST_STEP 2u
#define LAST_STEP ((guint) G_N_ELEMENTS (steps) - 1)
/* Fetched and not yet used, beside those on their way. */
#define SPARE_WINDOWS 4u
#define SAMPLE_US (G_USEC_PER_SEC / 2)
/* Less than that share of the time was waited: the source is not what is slow. */
#define MIN_WAITED_SHARE 0.1
/* More connections that bring less than that more are not worth it. */
#define MIN_GAIN 1.15
#define MIN_REST_US (5 * G_USEC_PER_SEC)
#define MAX_REST_US (60 * G_USEC_PER_SEC)
#define TROUBLE_REST_US (10 * G_USEC_PER_SEC)

void
fetch_tuning_init (FetchTuning *self)
{
  *self = (FetchTuning){ .step = FIRST_STEP, .rest_us = MIN_REST_US };
}

guint
fetch_tuning_connections (const FetchTuning *self)
{
  return steps[self->step].connections;
}

gsize
fetch_tuning_window_bytes (const FetchTuning *self)
{
  return steps[self->step].window_bytes;
}

/* The last trial is over, one way or the other. */
static void
judge_trial (FetchTuning *self, gint64 now_us, double rate)
{
  self->is_trying = FALSE;
  if (rate >= self->base_rate * MIN_GAIN)
    {
      self->rest_us = MIN_REST_US;
      return;
    }
  self->step--;
  self->rest_until_us = now_us + self->rest_us;
  self->rest_us = MIN (2 * self->rest_us, MAX_REST_US);
}

void
fetch_tuning_step (FetchTuning *self, gint64 now_us, const FetchSample *sample)
{
  double rate = (double) sample->n_bytes / (double) MAX (sample->duration_us, 1);
  if (sample->n_troubles > 0)
    {
      self->step /= 2;
      self->is_trying = FALSE;
      self->rest_until_us = now_us + TROUBLE_REST_US;
      return;
    }
  if ((double) sample->waited_us < MIN_WAITED_SHARE * (double) sample->duration_us)
    {
      self->is_trying = FALSE;
      return;
    }
  if (self->is_trying && self->is_settling)
    {
      self->is_settling = FALSE;
      return;
    }
  if (self->is_trying)
    judge_trial (self, now_us, rate);
  if (now_us < self->rest_until_us || self->step == LAST_STEP)
    return;
  self->base_rate = rate;
  self->step++;
  self->is_trying = self->is_settling = TRUE;
}

FetchGate *
fetch_gate_new (void)
{
  FetchGate *self = g_new0 (FetchGate, 1);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  fetch_tuning_init (&self->tuning);
  self->buffers = buffer_pool_new ();
  self->sample_from_us = g_get_monotonic_time ();
  return self;
}

void
fetch_gate_free (FetchGate *self)
{
  if (self == NULL)
    return;
  buffer_pool_free (self->buffers);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}

void
fetch_gate_received (FetchGate *self, gsize n_bytes)
{
  if (self != NULL)
    __atomic_add_fetch (&self->n_bytes, n_bytes, __ATOMIC_RELAXED);
}

void
fetch_gate_trouble (FetchGate *self)
{
  if (self != NULL)
    __atomic_add_fetch (&self->n_troubles, 1, __ATOMIC_RELAXED);
}

void
fetch_gate_waited_locked (FetchGate *self, gint64 waited_us)
{
  gint64 now_us = g_get_monotonic_time ();
  self->sample.waited_us += waited_us;
  self->sample.duration_us = now_us - self->sample_from_us;
  if (self->sample.duration_us < SAMPLE_US)
    return;
  self->sample.n_bytes = __atomic_exchange_n (&self->n_bytes, 0, __ATOMIC_RELAXED);
  self->sample.n_troubles = __atomic_exchange_n (&self->n_troubles, 0, __ATOMIC_RELAXED);
  fetch_tuning_step (&self->tuning, now_us, &self->sample);
  self->sample = (FetchSample){ 0 };
  self->sample_from_us = now_us;
  g_cond_broadcast (&self->changed);
}

gboolean
fetch_gate_is_open_locked (const FetchGate *self, guint n_own)
{
  guint n_connections = fetch_tuning_connections (&self->tuning);
  gsize window_bytes = fetch_tuning_window_bytes (&self->tuning);
  return self->n_active < n_connections
         && (n_own < FETCH_OWN_WINDOWS
             || (self->n_windows < n_connections + SPARE_WINDOWS
                 && self->windows_bytes + window_bytes <= FETCH_BUDGET_BYTES));
}
