#include "domain/delivery_reason.h"

static const struct {
  const char *name;
  DeliveryEvent event;
  gboolean names_cause;
} reasons[DELIVERY_N_REASONS] = {
  [DELIVERY_UNHINDERED] = { NULL, DELIVERY_NO_EVENT, FALSE },
  [DELIVERY_MODEL_PENDING] = { "ModelDeliveryPending", DELIVERY_EVENT_PENDING, TRUE },
  [DELIVERY_INVALID_REFERENCE] = { "InvalidModelReference", DELIVERY_EVENT_INVALID, TRUE },
  [DELIVERY_INVALID_SPEC] = { "InvalidSpec", DELIVERY_EVENT_BLOCKED, TRUE },
  [DELIVERY_NODE_CACHE_DISABLED] = { "NodeCacheDeliveryDisabled", DELIVERY_EVENT_PENDING, TRUE },
  [DELIVERY_CLASS_MISSING] = { "SharedPVCStorageClassMissing", DELIVERY_EVENT_BLOCKED, TRUE },
  [DELIVERY_CLASS_AMBIGUOUS] = { "SharedPVCStorageClassAmbiguous", DELIVERY_EVENT_BLOCKED, FALSE },
  [DELIVERY_CLASS_DEFERS] = { "SharedPVCStorageClassDefersBinding", DELIVERY_EVENT_BLOCKED, TRUE },
  [DELIVERY_CLAIM_PENDING] = { "SharedPVCClaimPending", DELIVERY_EVENT_PENDING, FALSE },
  [DELIVERY_PROVISIONING_FAILED] = { "SharedPVCProvisioningFailed", DELIVERY_EVENT_BLOCKED, TRUE },
  [DELIVERY_PROVISIONING_TIMED_OUT] = { "SharedPVCProvisioningTimedOut", DELIVERY_EVENT_BLOCKED, FALSE },
  [DELIVERY_CLAIM_LOST] = { "SharedPVCClaimLost", DELIVERY_EVENT_BLOCKED, TRUE },
  [DELIVERY_MATERIALIZER_PENDING] = { "SharedPVCMaterializerPending", DELIVERY_EVENT_PENDING, FALSE },
  [DELIVERY_MATERIALIZER_FAILED] = { "SharedPVCMaterializerFailed", DELIVERY_EVENT_PENDING, TRUE },
};

static const struct {
  const char *name;
  gboolean is_warning;
} events[] = {
  [DELIVERY_NO_EVENT] = { NULL, FALSE },
  [DELIVERY_EVENT_PENDING] = { "ModelDeliveryPending", FALSE },
  [DELIVERY_EVENT_BLOCKED] = { "ModelDeliveryBlocked", TRUE },
  [DELIVERY_EVENT_INVALID] = { "InvalidModelReference", TRUE },
  [DELIVERY_EVENT_APPLIED] = { "ModelDeliveryApplied", FALSE },
  [DELIVERY_EVENT_REMOVED] = { "ModelDeliveryRemoved", FALSE },
};

const char *
delivery_reason_name (DeliveryReason reason)
{
  return reasons[reason].name;
}

DeliveryEvent
delivery_reason_event (DeliveryReason reason)
{
  return reasons[reason].event;
}

gboolean
delivery_reason_names_cause (DeliveryReason reason)
{
  return reasons[reason].names_cause;
}

const char *
delivery_event_name (DeliveryEvent event)
{
  return events[event].name;
}

gboolean
delivery_event_is_warning (DeliveryEvent event)
{
  return events[event].is_warning;
}
