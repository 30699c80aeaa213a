/* What the webhook makes of a workload before it is stored: delivery-sharedpvc.md "Admission webhook", decisions.md on GitOps:
 * re-applying an unchanged manifest, which knows nothing of what delivery added, makes no new revision, and a workload whose
 * models are there when it is created has them at once. Pure. */
#pragma once

#include <glib.h>

typedef struct {
  gboolean is_ours; /* the controller asks itself: it may know more than this replica does yet */
  gboolean is_in_module_namespace, is_deleting;
  const GError *reference_error; /* of model_references_parse; NULL: they are good */
  gsize n_references;
  /* The stored object has the same references and the same template, which has the gate or something of a delivery: what is
   * to become of it is the reconciler's affair, who may know more than this replica does yet. */
  gboolean is_unchanged;
  const GError *spec_error; /* of pod_template_check; NULL: it is good */
  gboolean is_blind;        /* what follows is not known yet: the caches of this replica are not filled */
  /* All models are ready, and their claims are whole, held by somebody and not being deleted. */
  gboolean can_deliver;
  /* The template says that it was given just these references, and the claims that it names serve (claim_serves). Nothing else
   * that it says is believed: anybody may have written it. */
  gboolean submitted_serves;
  /* The same of the object as it is stored, whose references are these. */
  gboolean stored_serves;
} AdmissionView;

typedef enum {
  ADMISSION_ALLOW,          /* as it was sent */
  ADMISSION_DENY,           /* with the message of reference_error */
  ADMISSION_DELIVER,        /* pod_template_deliver of what is resolved now */
  ADMISSION_KEEP_SUBMITTED, /* the same of what the sent template says, under its own annotations: never signed anew */
  ADMISSION_KEEP_STORED,    /* the same of what the stored template says */
  ADMISSION_HOLD,           /* pod_template_hold; the reconciler tells why */
} Admission;

Admission admission_decide (const AdmissionView *seen);
