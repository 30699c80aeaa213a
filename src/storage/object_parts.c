#include "storage/object_parts.h"

#include <string.h>

static gboolean
check (Ctx *ctx, ObjectStore *self, GError **error)
{
  if (self->klass->parts == NULL)
    return am_fail (error, AM_ERROR_UNIMPLEMENTED, "PartsUnsupported",
                    "a store of this kind takes no objects in parts: only one in an S3 bucket does");
  return ctx_check (ctx, error);
}

char *
object_parts_begin (Ctx *ctx, ObjectStore *self, const char *key, GError **error)
{
  return check (ctx, self, error) ? self->klass->parts->begin (ctx, self, key, error) : NULL;
}

char *
object_parts_link (Ctx *ctx, ObjectStore *self, const char *key, const char *id, guint number, guint ttl_s,
                   GError **error)
{
  if (!check (ctx, self, error))
    return NULL;
  if (number < 1 || number > OBJECT_PARTS_MAX)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "parts are numbered from 1 to %u", OBJECT_PARTS_MAX);
  return self->klass->parts->link (self, key, id, number, ttl_s);
}

static gint
compare (guint64 left, guint64 right)
{
  return left < right ? -1 : left > right;
}

static gint
by_number (gconstpointer a, gconstpointer b)
{
  const ObjectPart *left = *(ObjectPart *const *) a, *right = *(ObjectPart *const *) b;
  gint order = compare (left->number, right->number);
  if (order == 0)
    order = compare ((guint64) left->modified_ms, (guint64) right->modified_ms);
  return order != 0 ? order : compare (left->size_bytes, right->size_bytes);
}

GPtrArray *
object_parts_list (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GError **error)
{
  GPtrArray *parts = check (ctx, self, error) ? self->klass->parts->list (ctx, self, key, id, error) : NULL;
  if (parts != NULL)
    g_ptr_array_sort (parts, by_number);
  return parts;
}

gboolean
object_parts_complete (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GPtrArray *parts, GError **error)
{
  return check (ctx, self, error) && self->klass->parts->complete (ctx, self, key, id, parts, error);
}

gboolean
object_parts_abort (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GError **error)
{
  return check (ctx, self, error) && self->klass->parts->abort (ctx, self, key, id, error);
}

gboolean
object_parts_abort_below (Ctx *ctx, ObjectStore *self, const char *prefix, GError **error)
{
  return self->klass->parts == NULL || self->klass->parts->abort_below (ctx, self, prefix, error);
}

ObjectPart *
object_part_new (guint number, guint64 size_bytes, const char *etag)
{
  gsize size = strlen (etag);
  gboolean is_quoted = size >= 2 && etag[0] == '"' && etag[size - 1] == '"';
  ObjectPart *self = g_new0 (ObjectPart, 1);
  self->number = number;
  self->size_bytes = size_bytes;
  self->etag = is_quoted ? g_strndup (etag + 1, size - 2) : g_strdup (etag);
  return self;
}

void
object_part_free (ObjectPart *self)
{
  if (self == NULL)
    return;
  g_free (self->etag);
  g_free (self);
}
