/* Fault injection for tests: passes through to another store and fails one chosen operation. */
#pragma once

#include "storage/object_store.h"

/* `inner` is borrowed. */
ObjectStore *object_store_fault_new (ObjectStore *inner);
/* The n-th operation from now (1 is the next) fails with UNAVAILABLE; every later one too when
 * `stays_down`. 0 turns it off. Each read of a reader and each append counts as an operation. */
void object_store_fault_set (ObjectStore *self, guint64 nth, gboolean stays_down);
/* What a failing operation does. Operations that a kind cannot strike are not counted while it is set. */
typedef enum {
  OBJECT_FAULT_DOWN,      /* UNAVAILABLE; the default */
  OBJECT_FAULT_IO,        /* DATA_LOSS, as EIO */
  OBJECT_FAULT_NO_SPACE,  /* what writes: as ENOSPC, half of the bytes may be written */
  OBJECT_FAULT_READ_ONLY, /* what changes something: as EROFS */
  OBJECT_FAULT_CUT,       /* opening: silently half of the object */
  OBJECT_FAULT_FLIP,      /* reading: silently another bit */
  N_OBJECT_FAULTS,
} ObjectFault;
/* Call before others use the store. */
void object_store_fault_set_kind (ObjectStore *self, ObjectFault kind);
/* The object that was struck last; NULL: none, or one without a name yet. Valid until the next strike. */
const char *object_store_fault_struck (ObjectStore *self);
/* With `late`, an operation that changes something is carried out and reports failure all the same, as when only
 * the answer got lost. Call before others use the store. */
void object_store_fault_set_late (ObjectStore *self, gboolean late);
/* Makes it a far store (object_store_is_far), though what is committed lazily to `inner` may not last. Call before others
 * use the store. */
void object_store_fault_set_far (ObjectStore *self);
/* Operations seen since object_store_fault_set. */
guint64 object_store_fault_count (ObjectStore *self);
