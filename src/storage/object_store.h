/* Port: where bytes lie. Keys are safe paths (base/file.h, path_is_safe) of at least two segments, of which the
 * first does not begin with '.'; no key continues another's path (with "a/b" there is no "a/b/c"). An object
 * appears whole or not at all. Adapters: object_store_fs (a directory), object_store_s3 (a bucket),
 * object_store_fault (fails the n-th operation of another, for tests). Thread-safe; several processes may share one
 * place. Another process may change anything between two calls: what was found may be gone. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"
#include "base/reader.h"

typedef struct ObjectStore ObjectStore;
typedef struct ObjectWriter ObjectWriter;
typedef struct ObjectLock ObjectLock;
typedef struct ObjectPartsClass ObjectPartsClass;

/* Sorts behind every character a key may hold. */
#define OBJECT_KEY_BEHIND_ALL "\xf4\x8f\xbf\xbf"

typedef enum {
  OBJECT_COMMIT_DEFAULT = 0,
  OBJECT_COMMIT_IF_ABSENT = 1 << 0, /* ALREADY_EXISTS instead of replacing */
  OBJECT_COMMIT_LAZY = 1 << 1,      /* may be lost in a power cut until object_store_sync names it,
                                     * but never takes with it what it replaced */
} ObjectCommitFlags;

typedef enum {
  OBJECT_LOCK_ALONE,   /* nobody else has the store open, or may open it */
  OBJECT_LOCK_COMMITS, /* nothing becomes visible, by whomever, until it is freed */
} ObjectLockKind;

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
  ObjectLock *(*lock) (Ctx *ctx, ObjectStore *self, ObjectLockKind kind, GError **error); /* NULL: has none */
  void (*free) (ObjectStore *self);
  gboolean (*remove_many) (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys,
                           GError **error); /* NULL: one by one */
  Reader *(*open_head) (Ctx *ctx, ObjectStore *self, const char *key, gsize head_bytes,
                        GError **error); /* NULL: as open */
  GPtrArray *(*list_any) (Ctx *ctx, ObjectStore *self, const char *prefix, char **cursor,
                          GError **error);                                                   /* NULL: in order */
  ObjectWriter *(*create_at) (Ctx *ctx, ObjectStore *self, const char *key, GError **error); /* NULL: as create */
  /* Of a far store: operations of one piece of work that it pays to have under way together. 0: it is near. */
  guint n_at_once;
  const ObjectPartsClass *parts; /* object_parts.h; NULL: takes none */
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

struct ObjectLock {
  void (*free) (ObjectLock *self);
};

/* NOT_FOUND when there is none. The reader stays valid when the object is replaced or removed. */
Reader *object_store_open (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
/* The same where hardly more than the first `head_bytes` will be read: nothing else is brought here for nothing. */
Reader *object_store_open_head (Ctx *ctx, ObjectStore *self, const char *key, gsize head_bytes, GError **error);
/* `out_info` may be NULL; its key is not set. NOT_FOUND when there is none. */
gboolean object_store_stat (Ctx *ctx, ObjectStore *self, const char *key, ObjectInfo *out_info, GError **error);
/* FALSE with an error only when it could not be found out. */
gboolean object_store_exists (Ctx *ctx, ObjectStore *self, const char *key, gboolean *out_exists, GError **error);
/* Every operation waits for an answer from afar, and what was committed lasts, be it lazily. */
gboolean object_store_is_far (const ObjectStore *self);
/* One of many operations that do not depend on each other. */
typedef gboolean (*ObjectStoreEach) (Ctx *ctx, gpointer data, guint index, GError **error);
/* Calls `func` for 0 to `n` - 1, as many at once, on threads of their own, as pays off for the kind of store: one
 * after the other on a disk. The first error ends it. */
gboolean object_store_each (Ctx *ctx, ObjectStore *self, guint n, ObjectStoreEach func, gpointer data,
                            GError **error);
/* Whole content, RESOURCE_EXHAUSTED above `limit_bytes`. */
GBytes *object_store_get (Ctx *ctx, ObjectStore *self, const char *key, gsize limit_bytes, GError **error);
gboolean object_store_put (Ctx *ctx, ObjectStore *self, const char *key, gconstpointer data, gsize size,
                           ObjectCommitFlags flags, GError **error);
/* Missing is fine. A removal may come back after a power cut. */
gboolean object_store_remove (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
/* Any number of keys, in as few requests as it takes. */
gboolean object_store_remove_many (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys,
                                   GError **error);
/* Removes every object below `prefix`, which must end with '/'. */
gboolean object_store_remove_prefix (Ctx *ctx, ObjectStore *self, const char *prefix, GError **error);
/* Up to `limit` (at most 1000) ObjectInfo in the order of their keys' bytes, after `after` (NULL: from
 * the start). An empty array: no more. `prefix` ends with '/' or is "". */
GPtrArray *object_store_list (Ctx *ctx, ObjectStore *self, const char *prefix, const char *after, guint limit,
                              GError **error);
/* Up to 1000 ObjectInfo below `prefix` in any order, at the cost of one request. `*cursor` is where to go on, NULL at
 * the beginning and at the end; the caller frees it. */
GPtrArray *object_store_list_any (Ctx *ctx, ObjectStore *self, const char *prefix, char **cursor, GError **error);
/* Makes lazily committed objects survive a power cut. Where commits last anyway it need not look at them. */
gboolean object_store_sync (Ctx *ctx, ObjectStore *self, const char *const *keys, gsize n_keys, GError **error);
/* Holds others back; released when it is freed and when the process ends. ALONE: UNAVAILABLE (reason StoreBusy)
 * at once when another process, or another handle of this one, has the store open; whoever opens it meanwhile
 * waits. Other threads with the same handle are the caller's business. COMMITS: waits for those under way, then
 * makes every commit wait; keep it short, commit nothing while holding it. UNIMPLEMENTED where there are no locks
 * (reason LocksUnsupported: the kind of store has none). */
ObjectLock *object_store_lock (Ctx *ctx, ObjectStore *self, ObjectLockKind kind, GError **error);
void object_lock_free (ObjectLock *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ObjectLock, object_lock_free)
void object_store_free (ObjectStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ObjectStore, object_store_free)

/* An object whose key is told at the end, because it often depends on the bytes. */
ObjectWriter *object_store_create (Ctx *ctx, ObjectStore *self, GError **error);
#define OBJECT_WRITER_MAX_BYTES ((5000ull * 16 + 5000ull * 64) << 20) /* every kind of store takes so many: 390 GiB */
/* The same for one that may be large and whose key is known: on a far store its bytes go there as they come, and those
 * that went are not patched any more (OUT_OF_RANGE). It is committed to this key. */
ObjectWriter *object_store_create_at (Ctx *ctx, ObjectStore *self, const char *key, GError **error);
/* After an error only free is allowed. */
gboolean object_writer_append (Ctx *ctx, ObjectWriter *self, gconstpointer data, gsize size, GError **error);
/* Overwrites bytes already appended. */
gboolean object_writer_patch (Ctx *ctx, ObjectWriter *self, guint64 offset_bytes, gconstpointer data, gsize size,
                              GError **error);
/* When it fails, the object may be there all the same; never half of it. */
gboolean object_writer_commit (Ctx *ctx, ObjectWriter *self, const char *key, ObjectCommitFlags flags,
                               GError **error);
void object_writer_free (ObjectWriter *self); /* drops what was not committed */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ObjectWriter, object_writer_free)

void object_info_free (ObjectInfo *self);
