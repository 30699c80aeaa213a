/* Which StorageClass shared volumes are made of, and whether the cluster has what the delivery mode needs:
 * delivery-sharedpvc.md, "StorageClass choice" and "Storage readiness check". Pure. Used by the reconciler of workloads and by
 * the module's own check. */
#pragma once

#include "domain/delivery_state.h"

/* Borrowed from the cluster's StorageClasses. */
typedef struct {
  const char *name;
  gboolean is_default;     /* annotation storageclass.kubernetes.io/is-default-class */
  gboolean defers_binding; /* volumeBindingMode WaitForFirstConsumer */
} StorageClassView;

/* Names, in the order in which they count; NULL or "" where nothing is set. */
typedef struct {
  const char *delivery; /* delivery.sharedPVCStorageClassName */
  const char *modules;  /* global.modules.storageClass */
  const char *cluster;  /* global.defaultClusterStorageClass */
} StorageClassSettings;

typedef enum {
  STORAGE_CLASS_FINE,
  STORAGE_CLASS_NONE,      /* nothing is set, and the cluster has no default */
  STORAGE_CLASS_UNKNOWN,   /* the one that is set does not exist */
  STORAGE_CLASS_AMBIGUOUS, /* several defaults, and none is set */
  STORAGE_CLASS_DEFERS,    /* would wait for a Pod that waits for the volume */
} StorageClassFinding;

typedef struct {
  StorageClassFinding finding;
  const char *name; /* of the class that is chosen, borrowed; NULL when none is */
} StorageClassChoice;

StorageClassChoice storage_class_choose (const StorageClassSettings *settings, const StorageClassView *classes,
                                         gsize n);
/* What is wrong with it and what to do, for people; NULL for one that is fine. Caller frees. */
char *storage_class_message (const StorageClassChoice *choice);

typedef struct {
  gboolean is_known;          /* FALSE: the API could not be asked */
  StorageClassChoice choice;  /* for SharedPVC */
  gboolean has_local_storage; /* for NodeCache: the class of the sds modules exists */
} StorageView;

/* Labels of the metric and words of the log line; texts are static. */
typedef struct {
  gboolean is_satisfied;
  const char *delivery_type; /* "SharedPVC" */
  const char *reason;        /* "Satisfied", "StorageClassDefersBinding" ... */
} StorageVerdict;

StorageVerdict storage_verdict (DeliveryMode mode, const StorageView *seen);
