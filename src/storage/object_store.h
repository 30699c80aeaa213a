/* Port: where bytes lie. Keys are slash-separated safe paths (base/file.h, path_is_safe). An object
 * appears whole or not at all. Adapters: object_store_fs (a directory), object_store_fault (fails the
 * n-th operation of another, for tests). Thread-safe; several processes may share one place. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"
#include "base/reader.h"

typedef struct ObjectStore ObjectStore;
typedef struct ObjectWriter ObjectWriter;

typedef enum {
  OBJECT_COMMIT_DEFAULT = 0,
  OBJECT_COMMIT_IF_ABSENT = 1 << 0, /* ALREADY_EXISTS instead of replacing */
  OBJECT_COMMIT_LAZY = 1 << 1,      /* may be lost in a power cut until object_store_sync names it */
} ObjectCommitFlags;

typedef struct {
  char *key;
  guint64 size_bytes;
  gint64 modified_ms; /* Unix time by the store's clock */
} ObjectInfo;

typedef struct {
  Reader *(*open) (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
  gboolean (*stat) (Ctx *ctx, ObjectStore *self, const char *key, ObjectInfo *out_info, GError **error);
  ObjectWriter *(*create) (Ctx *ctx, ObjectStore *self, GError **error);
  gboolean (*remove) (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
  GPtrArray *(*list) (Ctx *ctx, ObjectStore *self, const char *prefix, const char *after, guint limit,
                      GError **error);
  gboolean (*sync) (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys, GError **error);
  gboolean (*lock) (ObjectStore *self, gboolean exclusive); /* NULL: cannot be had alone */
  void (*free) (ObjectStore *self);
} ObjectStoreClass;

struct ObjectStore {
  const ObjectStoreClass *klass;
};

typedef struct {
  gboolean (*append) (Ctx *ctx, ObjectWriter *self, gconstpointer data, gsize size, GError **error);
  gboolean (*patch) (Ctx *ctx, ObjectWriter *self, guint64 offset_bytes, gconstpointer data, gsize size,
                     GError **error);
  gboolean (*commit) (Ctx *ctx, ObjectWriter *self, const char *key, ObjectCommitFlags flags, GError **error);
  void (*free) (ObjectWriter *self);
} ObjectWriterClass;

struct ObjectWriter {
  const ObjectWriterClass *klass;
};

/* NOT_FOUND when there is none. The reader stays valid when the object is replaced or removed. */
Reader *object_store_open (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
/* `out_info` may be NULL; its key is not set. NOT_FOUND when there is none. */
gboolean object_store_stat (Ctx *ctx, ObjectStore *self, const char *key, ObjectInfo *out_info, GError **error);
/* FALSE with an error only when it could not be found out. */
gboolean object_store_exists (Ctx *ctx, ObjectStore *self, const char *key, gboolean *out_exists, GError **error);
/* Whole content, RESOURCE_EXHAUSTED above `limit_bytes`. */
GBytes *object_store_get (Ctx *ctx, ObjectStore *self, const char *key, gsize limit_bytes, GError **error);
gboolean object_store_put (Ctx *ctx, ObjectStore *self, const char *key, gconstpointer data, gsize size,
                           ObjectCommitFlags flags, GError **error);
/* Missing is fine. */
gboolean object_store_remove (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
/* Removes every object below `prefix`, which must end with '/'. */
gboolean object_store_remove_prefix (Ctx *ctx, ObjectStore *self, const char *prefix, GError **error);
/* Up to `limit` (at most 1000) ObjectInfo in the order of their keys' bytes, after `after` (NULL: from
 * the start). An empty array: no more. `prefix` ends with '/' or is "". */
GPtrArray *object_store_list (Ctx *ctx, ObjectStore *self, const char *prefix, const char *after, guint limit,
                              GError **error);
/* Makes lazily committed objects survive a power cut. */
gboolean object_store_sync (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys, GError **error);
/* Every process that has a store open holds it shared. With `exclusive`, takes it for this process alone:
 * FALSE at once when others have it open, or when this kind of store cannot tell. Without, goes back. */
gboolean object_store_lock (ObjectStore *self, gboolean exclusive);
void object_store_free (ObjectStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ObjectStore, object_store_free)

/* An object whose key is told at the end, because it often depends on the bytes. */
ObjectWriter *object_store_create (Ctx *ctx, ObjectStore *self, GError **error);
gboolean object_writer_append (Ctx *ctx, ObjectWriter *self, gconstpointer data, gsize size, GError **error);
/* Overwrites bytes already appended. */
gboolean object_writer_patch (Ctx *ctx, ObjectWriter *self, guint64 offset_bytes, gconstpointer data, gsize size,
                              GError **error);
gboolean object_writer_commit (Ctx *ctx, ObjectWriter *self, const char *key, ObjectCommitFlags flags,
                               GError **error);
void object_writer_free (ObjectWriter *self); /* drops what was not committed */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ObjectWriter, object_writer_free)

void object_info_free (ObjectInfo *self);
