/* Leadership by a Lease: at most one process of several works at a time. Used by main/. */
#pragma once

#include "kube/kube_client.h"

typedef struct {
  const char *namespace, *name; /* of the Lease */
  const char *identity;         /* this process, unlike any other */
  gint64 lease_ms;              /* others wait so long without a renewal; 0: 15 s */
  gint64 renew_deadline_ms; /* ours ends so long after the last good renewal began, before theirs begins; 0: 10 s */
  gint64 retry_ms;          /* between two tries; 0: 2 s */
} LeaderConfig;

/* The work of a leader: returns soon after `term` is cancelled, which happens when the leadership is lost. */
typedef gboolean (*LeaderFunc) (Ctx *term, gpointer data, GError **error);

typedef struct {
  LeaderFunc func;
  gpointer data;
} LeaderWork;

typedef struct {
  const LeaderWork *works;
  gsize n;
} LeaderWorks;

/* A LeaderFunc for several (`data` is a LeaderWorks), each on a thread of its own: the first that fails ends the others, and
 * its error is told. */
gboolean leader_work_together (Ctx *term, gpointer data, GError **error);

/* Waits for the Lease, runs `func` on a thread of its own and renews meanwhile. Returns when it has ended: FALSE with its
 * error, ABORTED (reason LeadershipLost) when the Lease could not be kept, TRUE when `func` was content or the context
 * ended. The Lease is given back, unless it was lost. */
gboolean leader_run (Ctx *ctx, KubeClient *client, const LeaderConfig *config, LeaderFunc func, gpointer data,
                     GError **error);
