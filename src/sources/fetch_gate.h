/* How many connections the files of one source are read over at once, and how much of them may wait in memory. The number
 * grows while that brings more bytes a second and somebody waits for them, and shrinks when the source refuses or breaks
 * off. Private to sources/. Thread-safe. */
#pragma once

#include "base/buffer_pool.h"

#define FETCH_MAX_CONNECTIONS 12u
/* Each file may always have so many windows, whatever the others have. */
#define FETCH_OWN_WINDOWS 2u
/* What the windows of all files hold at most, but for those. */
#define FETCH_BUDGET_BYTES (24u << 20)

/* What is known of the link; times are monotonic. */
typedef struct {
  guint step; /* how much effort is made: see the two functions below */
  gboolean is_trying, is_settling;
  double base_rate;              /* what the step before brought */
  gint64 rest_us, rest_until_us; /* no trial before */
} FetchTuning;

/* Connections that may be used now, and what each fetches at a time: small windows lose least when a process dies, large
 * ones serve links on which an answer takes long to begin. */
guint fetch_tuning_connections (const FetchTuning *self);
gsize fetch_tuning_window_bytes (const FetchTuning *self);

/* What an interval was like. */
typedef struct {
  gint64 duration_us;
  gint64 waited_us; /* of whoever wanted the bytes */
  guint64 n_bytes;
  guint n_troubles;
} FetchSample;

void fetch_tuning_init (FetchTuning *self);
/* Draws the conclusions. Pure. */
void fetch_tuning_step (FetchTuning *self, gint64 now_us, const FetchSample *sample);

/* One monitor for all files of a source: what waits is woken by `changed`. */
typedef struct {
  GMutex lock;
  GCond changed;
  FetchTuning tuning;
  guint n_active;      /* connections in use */
  guint n_windows;     /* in use */
  gsize windows_bytes; /* of them */
  BufferPool *buffers; /* for them */
  FetchSample sample;
  gint64 sample_from_us;
  gsize n_bytes;    /* atomic: they come in small pieces */
  guint n_troubles; /* atomic */
} FetchGate;

FetchGate *fetch_gate_new (void);
void fetch_gate_free (FetchGate *self); /* its files are freed before */
/* `self` may be NULL in both. */
void fetch_gate_received (FetchGate *self, gsize n_bytes);
void fetch_gate_trouble (FetchGate *self);
/* Somebody waited for bytes; now and then the number of connections is thought over. */
void fetch_gate_waited_locked (FetchGate *self, gint64 waited_us);
/* Whether a file that has `n_own` windows may fetch another one now. */
gboolean fetch_gate_is_open_locked (const FetchGate *self, guint n_own);
