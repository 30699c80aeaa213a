/* Fault injection for tests: passes through to another store and fails one chosen operation. */
#pragma once

#include "storage/object_store.h"

/* `inner` is borrowed. */
ObjectStore *object_store_fault_new (ObjectStore *inner);
/* The n-th operation from now (1 is the next) fails with UNAVAILABLE; every later one too when
 * `stays_down`. 0 turns it off. Each read of a reader and each append counts as an operation. */
void object_store_fault_set (ObjectStore *self, guint64 nth, gboolean stays_down);
/* With `late`, an operation that changes something is carried out and reports failure all the same, as when only
 * the answer got lost. Call before others use the store. */
void object_store_fault_set_late (ObjectStore *self, gboolean late);
/* Operations seen since object_store_fault_set. */
guint64 object_store_fault_count (ObjectStore *self);
