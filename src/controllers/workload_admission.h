/* What becomes of one workload that is about to be stored: looks at what the caches know, asks domain/delivery_admission.h, and
 * changes a copy of the object. Used by workload_webhook.c. Thread-safe; does not block. */
#pragma once

#include "controllers/admission_review.h"
#include "controllers/delivery_caches.h"
#include "domain/delivery_admission.h"

typedef struct {
  Admission admission;
  char *message;         /* of a refusal; else NULL */
  yyjson_mut_doc *patch; /* of the object; NULL: it stays as it was sent */
} AdmissionOutcome;

void admission_outcome_clear (AdmissionOutcome *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AdmissionOutcome, admission_outcome_clear)

/* What is no workload, or no CREATE or UPDATE of the object itself, is allowed. */
void workload_admit (const DeliveryCaches *caches, const AdmissionRequest *request, AdmissionOutcome *out_outcome);
