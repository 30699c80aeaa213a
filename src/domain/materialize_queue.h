/* Which models are copied to volumes next, when fewer Jobs may run than wait (delivery.maxConcurrentMaterializations):
 * delivery-sharedpvc.md, "Queue". Pure. Used by the reconciler of workloads. */
#pragma once

#include <glib.h>

#define MATERIALIZE_STALLED_S (10 * 60) /* longer than Kubernetes waits before it tries a Job's Pod again */

typedef enum {
  MATERIALIZE_WAITS,   /* its claim is bound */
  MATERIALIZE_RUNS,    /* its Job is unfinished */
  MATERIALIZE_STALLED, /* the same, but for MATERIALIZE_STALLED_S nothing of it has run: no room, no quota, no image */
  MATERIALIZE_ENDED,   /* its Job is finished and still there: tells whose turn it was */
} MaterializeState;

/* Texts are borrowed. */
typedef struct {
  const char *namespace, *claim;
  MaterializeState state;
  gint64 claim_created_s;
  gint64 job_started_s; /* unless it waits */
} MaterializeRequest;

/* Indexes (guint) of the waiting requests that may start now, in their order, so that at most `max_running` Jobs run then; those
 * that are stalled only count against their own namespace. Each time it is the oldest claim of the namespace with the fewest
 * unfinished Jobs, among these of the one that was served the longest ago. So a namespace that asks for much delays another by
 * one Job at most, and one whose Jobs cannot run by no more than MATERIALIZE_STALLED_S. Caller frees. */
GArray *materialize_queue_next (const MaterializeRequest *requests, gsize n, guint max_running);
