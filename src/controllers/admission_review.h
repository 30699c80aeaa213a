/* What the API server asks of an admission webhook, and the answer: AdmissionReview of admission.k8s.io/v1. Pure. Used by
 * workload_webhook.c. */
#pragma once

#include "base/error.h"
#include "base/json.h"

#define ADMISSION_REVIEW_MAX_BYTES (8u << 20) /* two objects, each at most what the API server takes (3 MiB) */
/* Of both objects: about 100 bytes each while one is decided upon. A Deployment with its managedFields has some hundreds, one
 * with 5000 variables 160,000. */
#define ADMISSION_REVIEW_MAX_VALUES 250000

typedef enum { ADMISSION_CREATE, ADMISSION_UPDATE, ADMISSION_DELETE, ADMISSION_CONNECT } AdmissionOperation;

/* Texts and values are borrowed from the document. */
typedef struct {
  yyjson_doc *document;
  const char *uid; /* of the request */
  const char *group, *version, *kind;
  const char *namespace, *name; /* "" when there is none, as for a name that is yet to be made */
  const char *subresource;      /* "" for the object itself */
  const char *user;
  AdmissionOperation operation;
  gboolean is_dry_run;
  yyjson_val *object, *old_object; /* NULL where the operation has none */
} AdmissionRequest;

/* INVALID_ARGUMENT says what is missing or of another kind, or that there are more than ADMISSION_REVIEW_MAX_VALUES, RESOURCE_EXHAUSTED above ADMISSION_REVIEW_MAX_BYTES. A CREATE
 * has an object, an UPDATE both. */
gboolean admission_request_parse (gconstpointer text, gsize size, AdmissionRequest *out_request, GError **error);
void admission_request_clear (AdmissionRequest *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AdmissionRequest, admission_request_clear)

/* The review that answers it. `patch` is a JSON patch of the object, or NULL for an object that stays as it was sent. Caller
 * frees. */
char *admission_allow (const AdmissionRequest *request, yyjson_mut_doc *patch);
/* The same of one that is refused: `message` is for its author. */
char *admission_deny (const AdmissionRequest *request, const char *message);
