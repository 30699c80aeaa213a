/* What is measured of copies of models to volumes, monitoring-and-ops.md "Metrics": of every unfinished Job from the caches at the
 * time of the question, and of the queue. Used by the controller of workloads, on the leader. */
#pragma once

#include "controllers/materialize_turns.h"

/* MetricsSource.append; `turns` is a MaterializeTurns. */
void materialize_metrics_append (gpointer turns, GString *out);
