/* What a materializer makes of an error: go on trying by itself, or end; what to call it, what can be done, and whether another
 * Job would fare better. delivery-sharedpvc.md, conditions-reasons-events.md (SharedPVCMaterializerFailed). Pure. */
#pragma once

#include "base/error.h"

typedef struct {
  const char *reason; /* a machine word; static */
  const char *remedy; /* what to do, a clause; static */
  gboolean goes_on;   /* the same process tries again: it passes */
  gboolean may_retry; /* another Job may succeed where nobody changes anything but the grant */
} MaterializeVerdict;

MaterializeVerdict materialize_judge (const GError *error);

/* Before the next attempt after `n_failures` in a row: a second, doubled each time, at most 30 s; longer when so asked. */
gint64 materialize_pause_ms (guint n_failures, gint64 retry_after_ms);
