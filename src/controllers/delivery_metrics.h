/* What is measured of deliveries to workloads, monitoring-and-ops.md "Metrics": of every workload from the caches at the time of
 * the question, so that series go with their objects. Used by main/, on the leader. */
#pragma once

#include "controllers/delivery_caches.h"

/* MetricsSource.append; `caches` is a DeliveryCaches. */
void delivery_metrics_append (gpointer caches, GString *out);
