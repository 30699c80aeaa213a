/* Events about objects, for `kubectl describe`: the same thing said again counts up instead of filling the list.
 * Thread-safe. */
#pragma once

#include "kube/kube_client.h"

extern const KubeKind event_kind;

typedef struct EventRecorder EventRecorder;

/* `component` is who reports ("ai-models-controller"), `instance` which of them. Both are copied. */
EventRecorder *event_recorder_new (KubeClient *client, const char *component, const char *instance);
void event_recorder_free (EventRecorder *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (EventRecorder, event_recorder_free)

typedef enum { EVENT_NORMAL, EVENT_WARNING } EventSeverity;

/* Says it, blocking for at most five seconds; what the API server does not take is logged and forgotten. Events of
 * objects without a namespace go to "default". `message` is cut at 1,024 bytes. */
void event_recorder_say (Ctx *ctx, EventRecorder *self, const KubeKind *kind, const KubeObject *object,
                         EventSeverity severity, const char *reason, const char *message);
