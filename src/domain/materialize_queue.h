/* Which models are copied to volumes next, when fewer Jobs may run than wait (delivery.maxConcurrentMaterializations):
 * delivery-sharedpvc.md, "Queue". Pure. Used by the reconciler of workloads. */
#pragma once

#include <glib.h>

typedef enum {
  MATERIALIZE_WAITS, /* its claim is bound */
  MATERIALIZE_RUNS,  /* its Job is unfinished */
  MATERIALIZE_DONE,  /* its Job is finished and still there: tells whose turn it was */
} MaterializeState;

/* Texts are borrowed. */
typedef struct {
  const char *namespace, *claim;
  MaterializeState state;
  gint64 claim_created_s;
  gint64 job_started_s; /* unless it waits */
} MaterializeRequest;

/* Indexes (guint) of the waiting requests that may start now, in their order, so that at most `max_running` Jobs are
 * unfinished then: each time of the namespace with the fewest unfinished Jobs, among these of the one that was served the
 * longest ago, its oldest claim. So a namespace that asks for much delays another by one Job at most. Caller frees. */
GArray *materialize_queue_next (const MaterializeRequest *requests, gsize n, guint max_running);
