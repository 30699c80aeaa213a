/* What nobody else does for claims and their Jobs: claims that nobody holds any more go after a while (claim_fate of
 * domain/delivery_claim.h), Jobs of claims that go, Secrets of Jobs that are gone; and a Job that runs for long keeps its grant.
 * Used by the controller of workloads. */
#pragma once

#include "controllers/materialize_turns.h"

/* A thread of the leader, until `term` ends: a round now and then. */
void claim_collector_run (Ctx *term, DeliveryCaches *caches, MaterializeTurns *turns);

typedef struct ClaimCollector ClaimCollector;

ClaimCollector *claim_collector_new (DeliveryCaches *caches, MaterializeTurns *turns);
void claim_collector_free (ClaimCollector *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ClaimCollector, claim_collector_free)
/* One round; `now_s` is Unix time. Blocks. What fails is logged, and tried in the next round. */
void claim_collector_round (Ctx *term, ClaimCollector *self, gint64 now_s);
