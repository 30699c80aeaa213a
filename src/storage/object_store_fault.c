#include "storage/object_store_fault.h"

typedef struct {
  ObjectStore base;
  ObjectStore *inner;
  GMutex lock;
  guint64 seen;
  guint64 nth;
  gboolean stays_down;
  gboolean late;
} FaultStore;

typedef struct {
  Reader base;
  Reader *inner;
  FaultStore *store;
} FaultReader;

typedef struct {
  ObjectWriter base;
  ObjectWriter *inner;
  FaultStore *store;
} FaultWriter;

static gboolean
strike (FaultStore *self, GError **error)
{
  g_mutex_lock (&self->lock);
  self->seen++;
  gboolean fails = self->nth != 0 && (self->seen == self->nth || (self->stays_down && self->seen > self->nth));
  g_mutex_unlock (&self->lock);
  return !fails || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "injected fault");
}

/* For operations that change something. A late fault lets them through and reports failure afterwards. */
static gboolean
strike_change (FaultStore *self, GError **out_late, GError **error)
{
  g_autoptr (GError) problem = NULL;
  if (strike (self, &problem))
    return TRUE;
  if (!self->late)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  *out_late = g_steal_pointer (&problem);
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
  return strike (self->store, error) && reader_read_at (ctx, self->inner, offset_bytes, buffer, size, error);
}

static void
fault_reader_free (Reader *base)
{
  FaultReader *self = (FaultReader *) base;
  reader_free (self->inner);
  g_free (self);
}

static Reader *
fault_open (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  static const ReaderClass klass = { fault_read_at, fault_reader_free };
  FaultStore *store = (FaultStore *) base;
  Reader *inner = strike (store, error) ? object_store_open (ctx, store->inner, key, error) : NULL;
  if (inner == NULL)
    return NULL;
  FaultReader *self = g_new0 (FaultReader, 1);
  self->base = (Reader) { &klass, inner->size_bytes };
  self->inner = inner;
  self->store = store;
  return &self->base;
}

static gboolean
fault_stat (Ctx *ctx, ObjectStore *base, const char *key, ObjectInfo *out_info, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  return strike (self, error) && object_store_stat (ctx, self->inner, key, out_info, error);
}

static gboolean
fault_append (Ctx *ctx, ObjectWriter *base, gconstpointer data, gsize size, GError **error)
{
  FaultWriter *self = (FaultWriter *) base;
  GError *late = NULL;
  return strike_change (self->store, &late, error)
         && (object_writer_append (ctx, self->inner, data, size, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static gboolean
fault_patch (Ctx *ctx, ObjectWriter *base, guint64 offset_bytes, gconstpointer data, gsize size, GError **error)
{
  FaultWriter *self = (FaultWriter *) base;
  GError *late = NULL;
  return strike_change (self->store, &late, error)
         && (object_writer_patch (ctx, self->inner, offset_bytes, data, size, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static gboolean
fault_commit (Ctx *ctx, ObjectWriter *base, const char *key, ObjectCommitFlags flags, GError **error)
{
  FaultWriter *self = (FaultWriter *) base;
  GError *late = NULL;
  return strike_change (self->store, &late, error)
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
  ObjectWriter *inner = strike (store, error) ? object_store_create (ctx, store->inner, error) : NULL;
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
  return strike_change (self, &late, error)
         && (object_store_remove (ctx, self->inner, key, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static GPtrArray *
fault_list (Ctx *ctx, ObjectStore *base, const char *prefix, const char *after, guint limit, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  return strike (self, error) ? object_store_list (ctx, self->inner, prefix, after, limit, error) : NULL;
}

static gboolean
fault_sync (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  GError *late = NULL;
  return strike_change (self, &late, error)
         && (object_store_sync (ctx, self->inner, keys, n_keys, error) || (g_clear_error (&late), FALSE))
         && report_late (late, error);
}

static ObjectLock *
fault_lock (Ctx *ctx, ObjectStore *base, ObjectLockKind kind, GError **error)
{
  FaultStore *self = (FaultStore *) base;
  return strike (self, error) ? object_store_lock (ctx, self->inner, kind, error) : NULL;
}

static void
fault_free (ObjectStore *base)
{
  FaultStore *self = (FaultStore *) base;
  g_mutex_clear (&self->lock);
  g_free (self);
}

ObjectStore *
object_store_fault_new (ObjectStore *inner)
{
  static const ObjectStoreClass klass
    = { fault_open, fault_stat, fault_create, fault_remove, fault_list, fault_sync, fault_lock, fault_free };
  FaultStore *self = g_new0 (FaultStore, 1);
  self->base.klass = &klass;
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
  g_mutex_unlock (&self->lock);
}

void
object_store_fault_set_late (ObjectStore *base, gboolean late)
{
  ((FaultStore *) base)->late = late;
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
