/* What the API server means by its errors: metav1.Status read into AM_ERROR. Pure. */
#pragma once

#include "base/error.h"

/* Reasons are the API server's own (k8s.io/apimachinery/pkg/apis/meta/v1, StatusReason). */
#define KUBE_REASON_CONFLICT "Conflict"
#define KUBE_REASON_EXPIRED "Expired"

/* Sets `error` from the body of an answer with this status, whatever the body is; always returns FALSE. By the
 * Status's reason: NotFound NOT_FOUND, AlreadyExists ALREADY_EXISTS, Conflict ABORTED, Gone and Expired OUT_OF_RANGE
 * (reason Expired for both), Unauthorized UNAUTHENTICATED, Forbidden PERMISSION_DENIED, Invalid and BadRequest
 * INVALID_ARGUMENT, TooManyRequests RESOURCE_EXHAUSTED, MethodNotAllowed and NotAcceptable UNIMPLEMENTED, the others
 * UNAVAILABLE; without a Status, by the number. `what` begins the message. retryAfterSeconds is kept. */
gboolean kube_fail (const char *what, guint status, gconstpointer body, gsize size, GError **error);
