#include "domain/delivery_admission.h"

Admission
admission_decide (const AdmissionView *seen)
{
  if (seen->is_ours || seen->is_in_module_namespace || seen->is_deleting)
    return ADMISSION_ALLOW;
  if (seen->reference_error != NULL)
    return ADMISSION_DENY;
  if (seen->n_references == 0)
    return ADMISSION_ALLOW;
  if (seen->is_unchanged)
    return ADMISSION_ALLOW;
  if (seen->is_blind || seen->spec_error != NULL)
    return ADMISSION_HOLD;
  if (seen->can_deliver)
    return ADMISSION_DELIVER;
  if (seen->submitted_serves)
    return ADMISSION_KEEP_SUBMITTED;
  return seen->stored_serves ? ADMISSION_KEEP_STORED : ADMISSION_HOLD;
}
