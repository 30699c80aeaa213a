/* What the Pod of a worker tells: whether it runs, how it ended, and in which words a person is told so. Pure. */
#pragma once

#include "cluster/worker_result.h"
#include "domain/model_step.h"
#include "kube/kube_object.h"

typedef struct {
  ModelWorkerState state;
  gboolean is_leaving; /* it is being deleted */
  gboolean is_running; /* its container runs */
  /* Why it does not run yet; or what interrupted it, the kubelet's words included; NULL: nothing to say. */
  char *message;
  WorkerResult result; /* of one that succeeded or failed */
} WorkerSight;

/* `pod` NULL: there is none. */
void worker_sight_read (const KubeObject *pod, WorkerSight *out_sight);
void worker_sight_clear (WorkerSight *self);
