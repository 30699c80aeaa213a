/* A port for random access to bytes that lie somewhere: a file, memory, a blob in a store, a remote
 * range. Parsers of `formats/` read through it, so one parser serves them all. An implementation
 * embeds Reader as its first member. Not thread-safe unless an implementation says so. */
#pragma once

#include "base/ctx.h"

typedef struct Reader Reader;

typedef struct {
  /* Reads exactly `size` bytes at `offset_bytes`; the caller never asks beyond `size_bytes`. */
  gboolean (*read_at) (Ctx *ctx, Reader *self, guint64 offset_bytes, gpointer buffer, gsize size, GError **error);
  void (*free) (Reader *self);
} ReaderClass;

struct Reader {
  const ReaderClass *klass;
  guint64 size_bytes;
};

/* OUT_OF_RANGE when the range is not inside the reader (checked here, without overflow). */
gboolean reader_read_at (Ctx *ctx, Reader *self, guint64 offset_bytes, gpointer buffer, gsize size, GError **error);
/* All of it; the caller has bounded the size. */
GBytes *reader_read_all (Ctx *ctx, Reader *self, GError **error);
void reader_free (Reader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Reader, reader_free)

/* Over memory: holds a reference to `bytes`. */
Reader *reader_new_bytes (GBytes *bytes);
/* Over a regular file: FAILED_PRECONDITION when it is something else. Owns its descriptor.
 * A file that shrinks while it is read gives DATA_LOSS. */
Reader *reader_new_file (const char *path, GError **error);
/* Takes `fd` over, whatever happens. */
Reader *reader_new_fd (int fd, const char *name, GError **error);
/* A view of [offset, offset + size) of `base`, which must outlive it. The range must be inside. */
Reader *reader_new_slice (Reader *base, guint64 offset_bytes, guint64 size_bytes);
