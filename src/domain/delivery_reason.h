/* Why a workload's models are not delivered yet: conditions-reasons-events.md, "Delivery". The words are the contract with
 * users. Pure. */
#pragma once

#include <glib.h>

typedef enum {
  DELIVERY_UNHINDERED,
  DELIVERY_MODEL_PENDING, /* a model is missing or not Ready */
  DELIVERY_INVALID_REFERENCE,
  DELIVERY_INVALID_SPEC,
  DELIVERY_NODE_CACHE_DISABLED,
  DELIVERY_CLASS_MISSING,
  DELIVERY_CLASS_AMBIGUOUS,
  DELIVERY_CLASS_DEFERS,
  DELIVERY_CLAIM_PENDING,
  DELIVERY_PROVISIONING_FAILED,
  DELIVERY_PROVISIONING_TIMED_OUT,
  DELIVERY_CLAIM_LOST,
  DELIVERY_MATERIALIZER_PENDING,
  DELIVERY_MATERIALIZER_FAILED,
} DeliveryReason;
#define DELIVERY_N_REASONS 14

/* Events on the workload, besides ModelDeliveryFailed, which is for errors of the API. */
typedef enum {
  DELIVERY_NO_EVENT,
  DELIVERY_EVENT_PENDING, /* what is waited for comes by itself */
  DELIVERY_EVENT_BLOCKED, /* somebody has to do something */
  DELIVERY_EVENT_INVALID,
  DELIVERY_EVENT_APPLIED,
  DELIVERY_EVENT_REMOVED,
} DeliveryEvent;

/* "SharedPVCClaimPending"; NULL for DELIVERY_UNHINDERED. */
const char *delivery_reason_name (DeliveryReason reason);
/* With which it is told. */
DeliveryEvent delivery_reason_event (DeliveryReason reason);
/* Whether it is told again when the message changes: it names another cause then, and no progress. */
gboolean delivery_reason_names_cause (DeliveryReason reason);

/* "ModelDeliveryPending"; NULL for DELIVERY_NO_EVENT. */
const char *delivery_event_name (DeliveryEvent event);
gboolean delivery_event_is_warning (DeliveryEvent event);
