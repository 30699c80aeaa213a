/* What Kubernetes says of one object in its Events: the newest Warning that is to the point, word by word. Anybody who may make
 * Events in a namespace may say anything there; so one counts only when it is about just this object (its uid, not its
 * name) and says that it comes from who has to do with it. */
#pragma once

#include "kube/kube_client.h"

/* Which ones are to the point. Lists are ended by NULL, and borrowed. */
typedef struct {
  const char *kind, *uid;
  const char *const *reasons;   /* parts of them: "ProvisioningFailed"; NULL: any */
  const char *const *reporters; /* "kubelet"; one of "X_..." is of X */
} EventWanted;

/* What was seen so far. */
typedef struct {
  gint64 when_s;
  char *message;
} EventSaid;

/* Keeps what a newer one says. Pure. */
void event_sight_take (const KubeObject *event, const EventWanted *wanted, EventSaid *said);
/* Asks the API server for a page of them. `*out_message` is NULL when none is to the point; the caller frees it. Errors of
 * kube_client_list. */
gboolean event_sight_ask (Ctx *ctx, KubeClient *client, const char *namespace, const EventWanted *wanted,
                          char **out_message, GError **error);
