/* How many connections the files of one source are read over at once, and how much of them may wait in memory. The number
 * grows while that brings more bytes a second and somebody waits for them, and shrinks when the source refuses or breaks
 * off. Private to sources/. Thread-safe. */
#pragma once

#include <glib.h>

#define FETCH_WINDOW_BYTES (8u << 20)
#define FETCH_MAX_CONNECTIONS 12u
/* Windows of all files together, beside FETCH_OWN_WINDOWS of each. */
#define FETCH_SHARED_WINDOWS 10u
#define FETCH_OWN_WINDOWS 2u

/* What is known of the link; times are monotonic. */
typedef struct {
  guint limit; /* connections that may be used now */
  gboolean is_trying, is_settling;
  guint base_limit; /* before the trial, and what it brought */
  double base_rate;
  gint64 rest_us, rest_until_us; /* no trial before */
} FetchTuning;

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
  guint n_active;  /* connections in use */
  guint n_shared;  /* windows in use */
  GPtrArray *idle; /* buffers of FETCH_WINDOW_BYTES */
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
guint8 *fetch_gate_take_buffer_locked (FetchGate *self);
void fetch_gate_give_buffer_locked (FetchGate *self, guint8 *buffer);
