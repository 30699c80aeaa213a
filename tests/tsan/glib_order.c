/* Tells the thread sanitizer what GLib's locks, queues and reference counts order: GLib itself is not built with it and
 * uses futexes that the sanitizer does not see. Preloaded by tests/tsan/wrap; each function calls GLib's own. */
#include <dlfcn.h>
#include <glib.h>

extern void __tsan_acquire (void *addr) __attribute__ ((weak));
extern void __tsan_release (void *addr) __attribute__ ((weak));

static void
acquire (gconstpointer object)
{
  if (__tsan_acquire != NULL)
    __tsan_acquire ((gpointer) object);
}

static void
release (gconstpointer object)
{
  if (__tsan_release != NULL)
    __tsan_release ((gpointer) object);
}

/* A pointer to GLib's own `name`, found once. */
#define REAL(name)                                             \
  ({                                                           \
    static __typeof__ (&name) real;                            \
    if (real == NULL)                                          \
      real = (__typeof__ (&name)) dlsym (RTLD_NEXT, #name);    \
    real;                                                      \
  })

#undef g_once_init_enter
#undef g_once_init_leave
#undef g_atomic_ref_count_dec

#define WRAP_LOCK(name, Type)  \
  void name (Type *lock)       \
  {                            \
    REAL (name) (lock);        \
    acquire (lock);            \
  }
#define WRAP_TRYLOCK(name, Type)              \
  gboolean name (Type *lock)                  \
  {                                           \
    gboolean locked = REAL (name) (lock);     \
    if (locked)                               \
      acquire (lock);                         \
    return locked;                            \
  }
#define WRAP_UNLOCK(name, Type) \
  void name (Type *lock)        \
  {                             \
    release (lock);             \
    REAL (name) (lock);         \
  }

WRAP_LOCK (g_mutex_lock, GMutex)
WRAP_TRYLOCK (g_mutex_trylock, GMutex)
WRAP_UNLOCK (g_mutex_unlock, GMutex)
WRAP_LOCK (g_rec_mutex_lock, GRecMutex)
WRAP_TRYLOCK (g_rec_mutex_trylock, GRecMutex)
WRAP_UNLOCK (g_rec_mutex_unlock, GRecMutex)
WRAP_LOCK (g_rw_lock_writer_lock, GRWLock)
WRAP_TRYLOCK (g_rw_lock_writer_trylock, GRWLock)
WRAP_UNLOCK (g_rw_lock_writer_unlock, GRWLock)
WRAP_LOCK (g_rw_lock_reader_lock, GRWLock)
WRAP_TRYLOCK (g_rw_lock_reader_trylock, GRWLock)
WRAP_UNLOCK (g_rw_lock_reader_unlock, GRWLock)

void
g_cond_wait (GCond *cond, GMutex *mutex)
{
  release (mutex);
  REAL (g_cond_wait) (cond, mutex);
  acquire (mutex);
}

gboolean
g_cond_wait_until (GCond *cond, GMutex *mutex, gint64 end_time)
{
  release (mutex);
  gboolean signalled = REAL (g_cond_wait_until) (cond, mutex, end_time);
  acquire (mutex);
  return signalled;
}

gboolean
(g_once_init_enter) (volatile void *location)
{
  gboolean first = REAL (g_once_init_enter) (location);
  if (!first)
    acquire ((gconstpointer) location);
  return first;
}

void
(g_once_init_leave) (volatile void *location, gsize result)
{
  release ((gconstpointer) location);
  REAL (g_once_init_leave) (location, result);
}

gpointer
g_once_impl (GOnce *once, GThreadFunc func, gpointer arg)
{
  gpointer result = REAL (g_once_impl) (once, func, arg);
  release (once); /* by who ran it; harmless by others */
  acquire (once);
  return result;
}

/* Everything done before a reference is dropped comes before the end of the object. */
#define WRAP_UNREF(name, Type) \
  void name (Type *object)     \
  {                            \
    release (object);          \
    acquire (object);          \
    REAL (name) (object);      \
  }

WRAP_UNREF (g_array_unref, GArray)
WRAP_UNREF (g_byte_array_unref, GByteArray)
WRAP_UNREF (g_bytes_unref, GBytes)
WRAP_UNREF (g_hash_table_unref, GHashTable)
WRAP_UNREF (g_ptr_array_unref, GPtrArray)

gboolean
(g_atomic_ref_count_dec) (gatomicrefcount *count)
{
  release (count);
  gboolean last = REAL (g_atomic_ref_count_dec) (count);
  if (last)
    acquire (count);
  return last;
}

void
g_async_queue_push (GAsyncQueue *queue, gpointer data)
{
  release (queue);
  REAL (g_async_queue_push) (queue, data);
}

gpointer
g_async_queue_pop (GAsyncQueue *queue)
{
  gpointer data = REAL (g_async_queue_pop) (queue);
  acquire (queue);
  return data;
}

gpointer
g_async_queue_try_pop (GAsyncQueue *queue)
{
  gpointer data = REAL (g_async_queue_try_pop) (queue);
  acquire (queue);
  return data;
}

gpointer
g_async_queue_timeout_pop (GAsyncQueue *queue, guint64 timeout)
{
  gpointer data = REAL (g_async_queue_timeout_pop) (queue, timeout);
  acquire (queue);
  return data;
}
