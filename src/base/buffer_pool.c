#include "base/buffer_pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES (2u << 20)
#define SMALLEST_SHIFT 16u
#define N_CLASSES 16u /* of sizes: 64 KiB, 128 KiB and so on */

struct BufferPool {
  GMutex lock;
  GPtrArray *idle[N_CLASSES];
};

static guint
class_of (gsize size)
{
  guint class = 0;
  while ((gsize) 1 << (SMALLEST_SHIFT + class) < size)
    class ++;
  g_assert (class < N_CLASSES);
  return class;
}

BufferPool *
buffer_pool_new (void)
{
  BufferPool *self = g_new0 (BufferPool, 1);
  g_mutex_init (&self->lock);
  for (guint i = 0; i < N_CLASSES; i++)
    self->idle[i] = g_ptr_array_new_with_free_func (free);
  return self;
}

void
buffer_pool_free (BufferPool *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < N_CLASSES; i++)
    g_ptr_array_unref (self->idle[i]);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* In pages as large as the kernel has them. */
static guint8 *
allocate (gsize size)
{
  void *buffer = NULL;
  if (posix_memalign (&buffer, size >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 64, size) != 0)
    g_error ("out of memory");
  if (size >= HUGE_PAGE_BYTES)
    madvise (buffer, size, MADV_HUGEPAGE); /* only a wish */
  return buffer;
}

guint8 *
buffer_pool_take (BufferPool *self, gsize size)
{
  guint class = class_of (size);
  GPtrArray *idle = self->idle[class];
  g_mutex_lock (&self->lock);
  guint8 *buffer = idle->len > 0 ? g_ptr_array_steal_index_fast (idle, idle->len - 1) : NULL;
  g_mutex_unlock (&self->lock);
  return buffer != NULL ? buffer : allocate ((gsize) 1 << (SMALLEST_SHIFT + class));
}

void
buffer_pool_give (BufferPool *self, guint8 *buffer, gsize size)
{
  if (buffer == NULL)
    return;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->idle[class_of (size)], buffer);
  g_mutex_unlock (&self->lock);
}
