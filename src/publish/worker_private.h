/* What the parts of the publication worker share. Private to publish/. */
#pragma once

#include "cluster/ledger_store.h"
#include "cluster/worker_result.h"
#include "domain/publication_failure.h"
#include "publish/publish.h"
#include "publish/worker.h"
#include "publish/worker_report.h"

#define WORKER_N_VEILS 4

typedef struct {
  const WorkerOrder *order;
  const WorkerPlaces *places;
  KubeClient *client;
  LedgerStore *ledger; /* or NULL */
  WorkerReport *report;
  char *staging_key;   /* of the uploaded file; or NULL */
  char *staging_place; /* what messages have in common that are about its objects; or NULL */
  PublicationVeil veils[WORKER_N_VEILS];
  ObjectStore *staging; /* or NULL */
  guint64 staged_bytes;
  PublishPlan *plan;
  WorkerResult result;
} Worker;

/* A step: does its work, or says why not. */
typedef gboolean (*WorkerStep) (Ctx *ctx, Worker *self, GError **error);
/* Does the step again and again while that may help (publication_judge), and tells of it. A failure's message is fit for the
 * status; its reason is the condition's, or NULL when it is for another worker to go on. */
gboolean worker_persist (Ctx *ctx, Worker *self, PublicationParty party, WorkerStep step, const char **out_reason,
                         GError **error);

/* Steps. */
gboolean worker_begin (Ctx *ctx, Worker *self, GError **error);     /* reads its state */
gboolean worker_make_plan (Ctx *ctx, Worker *self, GError **error); /* opens the source, chooses and checks */
gboolean worker_reserve (Ctx *ctx, Worker *self, GError **error);   /* room in the books */
gboolean worker_publish (Ctx *ctx, Worker *self, GError **error);   /* moves the files, reads the artifact back */
/* "HuggingFace"; as status.source.resolvedType. */
const char *worker_source_type (const Worker *self);
