/* Counters, gauges and histograms of one process, printed as Prometheus text (version 0.0.4).
 * Series are made on first use and never dropped unless removed; thread-safe. */
#pragma once

#include <glib.h>

typedef enum { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM } MetricType;

/* Declares a family once (twice the same is fine). `label_names`: NULL-terminated or NULL. Buckets of a
 * histogram are the usual 5 ms ... 10 s. The handle lives as long as the process. */
typedef struct Metric Metric;
Metric *metric_declare (const char *name, MetricType type, const char *help, const char *const *label_names);
/* Label values in the order of the names, ended by NULL. */
void metric_add (Metric *self, double amount, ...) G_GNUC_NULL_TERMINATED;
void metric_set (Metric *self, double value, ...) G_GNUC_NULL_TERMINATED;
void metric_observe (Metric *self, double seconds, ...) G_GNUC_NULL_TERMINATED;
double metric_value (Metric *self, ...) G_GNUC_NULL_TERMINATED; /* for tests; a histogram's count */
void metric_remove (Metric *self, ...) G_GNUC_NULL_TERMINATED;
/* A label's value as the format wants it, without the quotes; for text that is not made here. */
void metrics_append_escaped (GString *out, const char *text);
/* All families in name order, escaped as the format says. Caller frees. */
char *metrics_render (void);
