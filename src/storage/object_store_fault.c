#include "storage/object_store_fault.h"

#include <errno.h>

typedef enum { ON_OPEN = 1, ON_READ = 2, ON_ASK = 4, ON_WRITE = 8, ON_REMOVE = 16 } Operation;

/* What each kind can strike. */
static const guint strikes[N_OBJECT_FAULTS] = {
  [OBJECT_FAULT_DOWN] = ON_OPEN | ON_READ | ON_ASK | ON_WRITE | ON_REMOVE,
  [OBJECT_FAULT_IO] = ON_OPEN | ON_READ | ON_ASK | ON_WRITE | ON_REMOVE,
  [OBJECT_FAULT_NO_SPACE] = ON_WRITE,
  [OBJECT_FAULT_READ_ONLY] = ON_WRITE | ON_REMOVE,
  [OBJECT_FAULT_CUT] = ON_OPEN,
  [OBJECT_FAULT_FLIP] = ON_READ,
};

typedef struct {
  ObjectStore base;
  ObjectStoreClass klass;
  ObjectStore *inner;
  GMutex lock;
  guint64 seen;
  guint64 nth;
  gboolean stays_down;
  gboolean late;
  ObjectFault kind;
  char *struck;
} FaultStore;

typedef struct {
  Reader base;
  Reader *inner;
  FaultStore *store;
  char *key;
} FaultReader;

typedef struct {
  ObjectWriter base;
  ObjectWriter *inner;
  FaultStore *store;
} FaultWriter;

/* Whether this operation, on the object `key` (NULL: it has no name yet), is one to be struck. */
static gboolean
is_struck (FaultStore *self, Operation operation, const char *key)
{
  if ((strikes[self->kind] & operation) == 0)
    return FALSE;
  g_mutex_lock (&self->lock);
  self->seen++;
  gboolean struck = self->nth != 0 && (self->seen == self->nth || (self->stays_down && self->seen > self->nth));
  if (struck)
    {
      g_free (self->struck);
      self->struck = g_strdup (key);
    }
  g_mutex_unlock (&self->lock);
  return struck;
}

static gboolean
fail_struck (FaultStore *self, const char *key, GError **error)
{
  const char *name = key != NULL ? key : "without a name";
  if (self->kind == OBJECT_FAULT_DOWN)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "object %s: injected fault", name);
  return am_fail_errno (error,
                        self->kind == OBJECT_FAULT_NO_SPACE    ? ENOSPC
                        : self->kind == OBJECT_FAULT_READ_ONLY ? EROFS
                                                               : EIO,
                        "object %s: injected fault", name);
}

static gboolean
strike (FaultStore *self, Operation operation, const char *key, GError **error)
{
  return !is_struck (self, operation, key) || fail_struck (self, key, error);
}

/* For operations that change something. A late fault lets them through and reports failure afterwards. */
static gboolean
strike_change (FaultStore *self, Operation operation, const char *key, GError **out_late, GError **error)
{
  if (!is_struck (self, operation, key))
    return TRUE;
  if (!self->late)
    return fail_struck (self, key, error);
  fail_struck (self, key, out_late);
  return TRUE;
}

static gboolean
report_late (GError *late, GError **error)
{
  if (late != NULL)
    g_propagate_error (error, late);
  return late == NULL;
}

static gboolean
fault_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  FaultReader *self = (FaultReader *) base;
  gboolean struck = is_struck (self->store, ON_READ, self->key);
  if (struck && self->store->kind != OBJECT_FAULT_FLIP)
    return fail_struck (self->store, self->key, error);
  if (!reader_read_at (ctx, self->inner, offset_bytes, buffer, size, error))
    return FALSE;
  if (struck && size > 0)
    ((guint8 *) buffer)[size / 2] ^= 4;
  return TRUE;
}

static void
fault_reader_free (Reader *base)
{
  FaultReader *self = (FaultReader *) base;
  reader_free (self->inner);
  g_free (self->key);
  g_free (self);
}

static Reader *
fault_open (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  static const ReaderClass klass = { fault_read_at, fault_reader_free };
  FaultStore *store = (FaultStore *) base;
  gboolean struck = is_struck (store, ON_OPEN, key);
  if (struck && store->kind != OBJECT_FAULT_CUT)
    {
      fail_struck (store, key, error);
      return NULL;
    }
  Reader *inner = object_store_open (ctx, store->inner, key, error);
  if (inner == NULL)
    return NULL;
  FaultReader *self = g_new0 (FaultReader, 1);
  self->base = (Reader){ &klass, struck ? inner->size_bytes / 2 : inner->size_bytes };
  self->inner = inner;
  self->store = store;
  self->key = g_strdup (key);
  return &self->base;
}

static gboolean
fault_stat (Ctx *ctx, ObjectStore *base, const char *key, ObjectInfo *out_info, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  return strike (self, ON_ASK, key, error) && object_store_stat (ctx, self->inner, key, out_info, error);
}

static gboolean
fault_append (Ctx *ctx, ObjectWriter *base, gconstpointer data, gsize size, GError **error)
{
  FaultWriter *self = (FaultWriter *) base;
  GError *late = NULL;
  if (!strike_change (self->store, ON_WRITE, NULL, &late, error))
    {
      object_writer_append (ctx, self->inner, data, size / 2, NULL); /* nobody may ever see it */
      return FALSE;
    }
  return (object_writer_append (ctx, self->inner, data, size, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static gboolean
fault_patch (Ctx *ctx, ObjectWriter *base, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  FaultWriter *self = (FaultWriter *) base;
  GError *late = NULL;
  return strike_change (self->store, ON_WRITE, NULL, &late, error)
         && (object_writer_patch (ctx, self->inner, offset_bytes, data, size, error)
             || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static gboolean
fault_commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  FaultWriter *self = (FaultWriter *) base;
  GError *late = NULL;
  return strike_change (self->store, ON_WRITE, key, &late, error)
         && (object_writer_commit (ctx, self->inner, key, flags, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static void
fault_writer_free (ObjectWriter *base)
{
  FaultWriter *self = (FaultWriter *) base;
  object_writer_free (self->inner);
  g_free (self);
}

static ObjectWriter *
fault_create (Ctx *ctx, ObjectStore *base, GError **error)
{
  static const ObjectWriterClass klass = { fault_append, fault_patch, fault_commit, fault_writer_free };
  FaultStore *store = (FaultStore *) base;
  ObjectWriter *inner = strike (store, ON_WRITE, NULL, error) ? object_store_create (ctx, store->inner, error) : NULL;
  if (inner == NULL)
    return NULL;
  FaultWriter *self = g_new0 (FaultWriter, 1);
  self->base.klass = &klass;
  self->inner = inner;
  self->store = store;
  return &self->base;
}

static gboolean
fault_remove (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  GError *late = NULL;
  return strike_change (self, ON_REMOVE, key, &late, error)
         && (object_store_remove (ctx, self->inner, key, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static GPtrArray *
fault_list (Ctx *ctx, ObjectStore *base, const char *prefix, const char *after, guint limit, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  return strike (self, ON_ASK, prefix, error) ? object_store_list (ctx, self->inner, prefix, after, limit, error)
                                              : NULL;
}

static gboolean
fault_sync (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  GError *late = NULL;
  return strike_change (self, ON_WRITE, n_keys > 0 ? keys[0] : NULL, &late, error)
         && (object_store_sync (ctx, self->inner, keys, n_keys, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static ObjectLock *
fault_lock (Ctx *ctx, ObjectStore *base, ObjectLockKind kind, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  return strike (self, ON_ASK, "lock", error) ? object_store_lock (ctx, self->inner, kind, error) : NULL;
}

static void
fault_free (ObjectStore *base)
{
  FaultStore *self = (FaultStore *) base;
  g_mutex_clear (&self->lock);
  g_free (self->struck);
  g_free (self);
}

ObjectStore *
object_store_fault_new (ObjectStore *inner)
{
  FaultStore *self = g_new0 (FaultStore, 1);
  self->klass = (ObjectStoreClass){ fault_open, fault_stat, fault_create, fault_remove,
                                    fault_list, fault_sync, fault_lock,   fault_free };
  self->base.klass = &self->klass;
  self->inner = inner;
  g_mutex_init (&self->lock);
  return &self->base;
}

void
object_store_fault_set (ObjectStore *base, guint64 nth, gboolean stays_down)
{
  FaultStore *self = (FaultStore *) base;
  g_mutex_lock (&self->lock);
  self->seen = 0;
  self->nth = nth;
  self->stays_down = stays_down;
  g_clear_pointer (&self->struck, g_free);
  g_mutex_unlock (&self->lock);
}

void
object_store_fault_set_kind (ObjectStore *base, ObjectFault kind)
{
  ((FaultStore *) base)->kind = kind;
}

const char *
object_store_fault_struck (ObjectStore *base)
{
  return ((FaultStore *) base)->struck;
}

void
object_store_fault_set_late (ObjectStore *base, gboolean late)
{
  ((FaultStore *) base)->late = late;
}

void
object_store_fault_set_far (ObjectStore *base)
{
  ((FaultStore *) base)->klass.n_at_once = 4;
}

guint64
object_store_fault_count (ObjectStore *base)
{
  FaultStore *self = (FaultStore *) base;
  g_mutex_lock (&self->lock);
  guint64 seen = self->seen;
  g_mutex_unlock (&self->lock);
  return seen;
}
