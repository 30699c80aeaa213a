#include "storage/object_store.h"

#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/workers.h"

#define LIST_MAX 1000u

static gboolean
check_key (Ctx *ctx, const char *key, GError **error)
{
  if (!path_is_safe (key) || key[0] == '.' || strchr (key, '/') == NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%.100s\" is not an object key", key);
  return ctx_check (ctx, error);
}

Reader *
object_store_open (Ctx *ctx, ObjectStore *self, const char *key, GError **error)
{
  return check_key (ctx, key, error) ? self->klass->open (ctx, self, key, error) : NULL;
}

Reader *
object_store_open_head (Ctx *ctx, ObjectStore *self, const char *key, gsize head_bytes, GError **error)
{
  if (self->klass->open_head == NULL)
    return object_store_open (ctx, self, key, error);
  return check_key (ctx, key, error) ? self->klass->open_head (ctx, self, key, MAX (head_bytes, 1), error) : NULL;
}

gboolean
object_store_stat (Ctx *ctx, ObjectStore *self, const char *key, ObjectInfo *out_info, GError **error)
{
  ObjectInfo info = { 0 };
  if (!check_key (ctx, key, error) || !self->klass->stat (ctx, self, key, &info, error))
    return FALSE;
  if (out_info != NULL)
    *out_info = info;
  return TRUE;
}

gboolean
object_store_exists (Ctx *ctx, ObjectStore *self, const char *key, gboolean *out_exists, GError **error)
{
  g_autoptr (GError) problem = NULL;
  gboolean found = object_store_stat (ctx, self, key, NULL, &problem);
  if (!found && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  *out_exists = found;
  return TRUE;
}

gboolean
object_store_is_far (const ObjectStore *self)
{
  return self->klass->n_at_once > 0;
}

typedef struct {
  ObjectStoreEach func;
  gpointer data;
  guint n;
  atomic_uint next;
} Round;

/* A worker. */
static gboolean
do_some (Ctx *ctx, gpointer task, GError **error)
{
  Round *self = task;
  guint index;
  while ((index = atomic_fetch_add (&self->next, 1)) < self->n)
    if (!ctx_check (ctx, error) || !self->func (ctx, self->data, index, error))
      return FALSE;
  return TRUE;
}

gboolean
object_store_each (Ctx *ctx, ObjectStore *self, guint n, ObjectStoreEach func, gpointer data, GError **error)
{
  Round round = { .func = func, .data = data, .n = n };
  atomic_init (&round.next, 0);
  guint n_threads = MIN (self->klass->n_at_once, n);
  return n_threads > 1 ? workers_run (ctx, n_threads, do_some, &round, error) : do_some (ctx, &round, error);
}

GBytes *
object_store_get (Ctx *ctx, ObjectStore *self, const char *key, gsize limit_bytes, GError **error)
{
  g_autoptr (Reader) reader = object_store_open (ctx, self, key, error);
  if (reader == NULL)
    return NULL;
  if (reader->size_bytes > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                         "object %s is larger than the limit of %" G_GSIZE_FORMAT " bytes", key, limit_bytes);
  return reader_read_all (ctx, reader, error);
}

gboolean
object_store_put (Ctx *ctx, ObjectStore *self, const char *key, gconstpointer data, gsize size,
                  ObjectCommitFlags flags, GError **error)
{
  g_autoptr (ObjectWriter) writer = object_store_create (ctx, self, error);
  return writer != NULL && object_writer_append (ctx, writer, data, size, error)
         && object_writer_commit (ctx, writer, key, flags, error);
}

gboolean
object_store_remove (Ctx *ctx, ObjectStore *self, const char *key, GError **error)
{
  return check_key (ctx, key, error) && self->klass->remove (ctx, self, key, error);
}

gboolean
object_store_remove_many (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys, GError **error)
{
  for (gsize i = 0; i < n_keys; i++)
    if (self->klass->remove_many == NULL ? !object_store_remove (ctx, self, keys[i], error)
                                         : !check_key (ctx, keys[i], error))
      return FALSE;
  for (gsize i = 0; self->klass->remove_many != NULL && i < n_keys; i += LIST_MAX)
    if (!self->klass->remove_many (ctx, self, keys + i, MIN (n_keys - i, LIST_MAX), error))
      return FALSE;
  return TRUE;
}

gboolean
object_store_remove_prefix (Ctx *ctx, ObjectStore *self, const char *prefix, GError **error)
{
  gboolean is_last = FALSE;
  g_assert (*prefix != '\0');
  while (!is_last)
    {
      g_autoptr (GPtrArray) keys = g_ptr_array_new ();
      g_autoptr (GPtrArray) page = object_store_list (ctx, self, prefix, NULL, LIST_MAX, error);
      if (page == NULL)
        return FALSE;
      for (guint i = 0; i < page->len; i++)
        g_ptr_array_add (keys, ((ObjectInfo *) g_ptr_array_index (page, i))->key);
      if (!object_store_remove_many (ctx, self, (const char *const *) keys->pdata, keys->len, error))
        return FALSE;
      is_last = page->len < LIST_MAX;
    }
  return TRUE;
}

GPtrArray *
object_store_list (Ctx *ctx, ObjectStore *self, const char *prefix, const char *after, guint limit, GError **error)
{
  gsize n = strlen (prefix);
  g_autofree char *folder = g_strndup (prefix, n > 0 ? n - 1 : 0);
  if (n > 0 && (prefix[n - 1] != '/' || !path_is_safe (folder)))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%.100s\" is not a prefix of keys", prefix);
  if (!ctx_check (ctx, error))
    return NULL;
  return self->klass->list (ctx, self, prefix, after, CLAMP (limit, 1, LIST_MAX), error);
}

GPtrArray *
object_store_list_any (Ctx *ctx, ObjectStore *self, const char *prefix, char **cursor, GError **error)
{
  if (self->klass->list_any != NULL)
    return ctx_check (ctx, error) ? self->klass->list_any (ctx, self, prefix, cursor, error) : NULL;
  GPtrArray *page = object_store_list (ctx, self, prefix, *cursor, LIST_MAX, error);
  if (page == NULL)
    return NULL;
  g_free (*cursor);
  *cursor = page->len < LIST_MAX ? NULL : g_strdup (((ObjectInfo *) g_ptr_array_index (page, page->len - 1))->key);
  return page;
}

gboolean
object_store_sync (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys, GError **error)
{
  return ctx_check (ctx, error) && self->klass->sync (ctx, self, keys, n_keys, error);
}

ObjectLock *
object_store_lock (Ctx *ctx, ObjectStore *self, ObjectLockKind kind, GError **error)
{
  if (self->klass->lock == NULL)
    return am_fail_null (error, AM_ERROR_UNIMPLEMENTED, "LocksUnsupported", "a store of this kind has no locks");
  return ctx_check (ctx, error) ? self->klass->lock (ctx, self, kind, error) : NULL;
}

void
object_lock_free (ObjectLock *self)
{
  if (self != NULL)
    self->free (self);
}

void
object_store_free (ObjectStore *self)
{
  if (self != NULL)
    self->klass->free (self);
}

ObjectWriter *
object_store_create (Ctx *ctx, ObjectStore *self, GError **error)
{
  return ctx_check (ctx, error) ? self->klass->create (ctx, self, error) : NULL;
}

ObjectWriter *
object_store_create_at (Ctx *ctx, ObjectStore *self, const char *key, GError **error)
{
  if (!check_key (ctx, key, error))
    return NULL;
  return self->klass->create_at != NULL ? self->klass->create_at (ctx, self, key, error)
                                        : self->klass->create (ctx, self, error);
}

gboolean
object_writer_append (Ctx *ctx, ObjectWriter *self, gconstpointer data, gsize size, GError **error)
{
  return size == 0 || self->klass->append (ctx, self, data, size, error);
}

gboolean
object_writer_patch (Ctx *ctx, ObjectWriter *self, guint64 offset_bytes, gconstpointer data, gsize size,
                     GError **error)
{
  return self->klass->patch (ctx, self, offset_bytes, data, size, error);
}

gboolean
object_writer_commit (Ctx *ctx, ObjectWriter *self, const char *key, ObjectCommitFlags flags, GError **error)
{
  return check_key (ctx, key, error) && self->klass->commit (ctx, self, key, flags, error);
}

void
object_writer_free (ObjectWriter *self)
{
  if (self != NULL)
    self->klass->free (self);
}

void
object_info_free (ObjectInfo *self)
{
  if (self == NULL)
    return;
  g_free (self->key);
  g_free (self);
}
