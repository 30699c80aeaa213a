/* What a Pod of one container, made by this module, tells of itself, in words for a person: what keeps it from running, and
 * how it ended when it left nothing that can be read. Pure. Used by worker_sight.c and materialize_sight.c. */
#pragma once

#include "kube/kube_object.h"

/* "running", "waiting" or "terminated" of its container; NULL when that is not its state. */
yyjson_val *pod_container_state (const KubeObject *pod, const char *name);
/* It succeeded or failed. */
gboolean pod_is_over (const KubeObject *pod);

/* `who` is "the worker". What it waits for, without names of registries; NULL: nothing that can be said. Caller frees. */
char *pod_waits_for (const KubeObject *pod, const char *who);
/* Of one that is over: "the worker was evicted from its node: ...". Never NULL; caller frees. */
char *pod_silent_end (const KubeObject *pod, const char *who);
/* "`what`: `said`", or `what` alone when nothing was said; at most 300 characters of others' words. Caller frees. */
char *pod_told (const char *what, const char *said);
