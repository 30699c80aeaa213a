/* An object that somebody else brings in parts, each by a link that carries its own permission: the store sees the bytes, we
 * do not. Where a store has that (S3) its class names the functions; elsewhere they are UNIMPLEMENTED (reason
 * PartsUnsupported). Nothing is visible before the object is completed. Used by gateway/. Thread-safe. */
#pragma once

#include "storage/object_store.h"

#define OBJECT_PARTS_MAX 10000u          /* their numbers, from 1 */
#define OBJECT_PART_MIN_BYTES (5u << 20) /* of all but the last */
#define OBJECT_PART_MAX_BYTES (5ull << 30)

typedef struct {
  guint number;
  guint64 size_bytes;
  gint64 modified_ms; /* Unix time by the store's clock, often whole seconds; 0: not known */
  char *etag;         /* as the store names these bytes, without quotes */
} ObjectPart;

struct ObjectPartsClass {
  char *(*begin) (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
  char *(*link) (ObjectStore *self, const char *key, const char *id, guint number, guint ttl_s);
  GPtrArray *(*list) (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GError **error);
  gboolean (*complete) (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GPtrArray *parts,
                        GError **error);
  gboolean (*abort) (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GError **error);
  gboolean (*abort_below) (Ctx *ctx, ObjectStore *self, const char *prefix, GError **error);
};

/* Begins one; returns its id, which the caller frees. */
char *object_parts_begin (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
/* Where to PUT part `number`; it works for `ttl_s` seconds, also again. Caller frees; never log it. */
char *object_parts_link (Ctx *ctx, ObjectStore *self, const char *key, const char *id, guint number, guint ttl_s,
                         GError **error);
/* Array of ObjectPart, by number; caller unrefs. One that was sent again may be there twice: the newest is last, but any can
 * be completed. NOT_FOUND when there is no such upload (any more). */
GPtrArray *object_parts_list (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GError **error);
/* Makes the object of these parts (in order), in place of one that is there. NOT_FOUND as above, also when an earlier try
 * did it and its answer was lost; INVALID_ARGUMENT for parts that the store does not take together. */
gboolean object_parts_complete (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GPtrArray *parts,
                                GError **error);
/* Drops it and its parts; one that is gone is fine. */
gboolean object_parts_abort (Ctx *ctx, ObjectStore *self, const char *key, const char *id, GError **error);
/* Drops all of keys below `prefix`, which ends with '/': those begun here, and what is left of objects whose writers died.
 * Nobody may be writing there who is to succeed. A store without parts has none. */
gboolean object_parts_abort_below (Ctx *ctx, ObjectStore *self, const char *prefix, GError **error);

ObjectPart *object_part_new (guint number, guint64 size_bytes, const char *etag); /* quotes of `etag` are taken off */
void object_part_free (ObjectPart *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ObjectPart, object_part_free)
