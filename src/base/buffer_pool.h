/* Memory that is used again and again: the kernel gives pages slowly. Used by registry/ and sources/. Thread-safe. */
#pragma once

#include <glib.h>

typedef struct BufferPool BufferPool;

BufferPool *buffer_pool_new (void);
/* What was taken must have been given back. */
void buffer_pool_free (BufferPool *self);
/* At least `size` bytes, whatever is in them. */
guint8 *buffer_pool_take (BufferPool *self, gsize size);
/* `size` as it was asked for; NULL is fine. */
void buffer_pool_give (BufferPool *self, guint8 *buffer, gsize size);
