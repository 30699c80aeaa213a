/* How often a worker was interrupted, kept as annotations of its state Secret so that every replica knows. Pure. */
#pragma once

#include "kube/kube_object.h"

#define WORKER_MAX_RESTARTS 6u /* in a row without progress; then the publication fails */

typedef struct {
  guint n_in_a_row;    /* since there was progress */
  guint64 bytes;       /* that were uploaded then */
  gint64 at_ms;        /* of the last one, Unix time; 0: none */
  const char *pod_uid; /* which Pod that was; or NULL. Borrowed, as is the next */
  const char *message; /* what interrupted it; or NULL */
} WorkerRestarts;

void worker_restarts_read (const KubeObject *state_secret, WorkerRestarts *out_restarts);
/* What is known after another interruption of Pod `pod_uid`, by when so many bytes were uploaded. Nothing new for a Pod
 * that was counted. */
WorkerRestarts worker_restarts_next (const WorkerRestarts *self, const char *pod_uid, guint64 bytes,
                                     const char *message, gint64 now_ms);
/* A merge patch of the Secret; caller frees. */
yyjson_mut_doc *worker_restarts_patch (const WorkerRestarts *self);
/* How long the next start has to wait from now on: 5 s after the first, doubled with each further one, up to 5 minutes. */
gint64 worker_restarts_pause_ms (const WorkerRestarts *self, gint64 now_ms);
