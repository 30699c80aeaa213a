/* What a materializer's Job and its Pods tell: whether it runs, how it ended, and in which words a person is told so. Their
 * objects are a user's namespace's, so they are read as foreign. Pure. Used by claim_sight.c. */
#pragma once

#include "domain/delivery_claim.h"
#include "kube/kube_object.h"

typedef struct {
  MaterializerState state;
  gint64 ended_ago_s;  /* of one that failed */
  gint64 elapsed_s;    /* since it began */
  gint64 idle_s;       /* since something of it ran, or was made to run */
  gboolean is_overdue; /* no Job of ours lives so long: its end is not looked after */
  gboolean is_copying; /* a Pod runs, and there is nothing else to say: its progress may be told */
  gboolean is_mute;    /* it should run and does not, and neither Job nor Pod says why: their events may */
  KubeObject *pod;     /* the newest, or NULL */
  char *message;       /* why it failed, or what it waits for; NULL: nothing to say */
} MaterializeSight;

/* `job` NULL: there is none. `pods` are the Job's, of KubeObject. */
void materialize_sight_read (const KubeObject *job, GPtrArray *pods, gint64 now_s, MaterializeSight *out_sight);
void materialize_sight_clear (MaterializeSight *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MaterializeSight, materialize_sight_clear)

/* Neither complete nor failed. */
gboolean materialize_job_is_unfinished (const KubeObject *job);
