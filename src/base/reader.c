#include "base/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"

gboolean
reader_read_at (Ctx *ctx, Reader *self, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  if (offset_bytes > self->size_bytes || size > self->size_bytes - offset_bytes)
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL,
                    "bytes %" G_GUINT64_FORMAT "+%" G_GSIZE_FORMAT " are beyond the end (%" G_GUINT64_FORMAT ")",
                    offset_bytes, size, self->size_bytes);
  return size == 0 || self->klass->read_at (ctx, self, offset_bytes, buffer, size, error);
}

GBytes *
reader_read_all (Ctx *ctx, Reader *self, GError **error)
{
  g_autofree guint8 *data = g_malloc (self->size_bytes + 1);
  if (!reader_read_at (ctx, self, 0, data, self->size_bytes, error))
    return NULL;
  return g_bytes_new_take (g_steal_pointer (&data), self->size_bytes);
}

void
reader_free (Reader *self)
{
  if (self != NULL)
    self->klass->free (self);
}

typedef struct {
  Reader base;
  GBytes *bytes;
} BytesReader;

static gboolean
bytes_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  BytesReader *self = (BytesReader *) base;
  memcpy (buffer, (const guint8 *) g_bytes_get_data (self->bytes, NULL) + offset_bytes, size);
  return TRUE;
}

static void
bytes_free (Reader *base)
{
  BytesReader *self = (BytesReader *) base;
  g_bytes_unref (self->bytes);
  g_free (self);
}

Reader *
reader_new_bytes (GBytes *bytes)
{
  static const ReaderClass klass = { bytes_read_at, bytes_free };
  BytesReader *self = g_new0 (BytesReader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = g_bytes_get_size (bytes);
  self->bytes = g_bytes_ref (bytes);
  return &self->base;
}

typedef struct {
  Reader base;
  int fd;
  char *name;
} FileReader;

static gboolean
file_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  FileReader *self = (FileReader *) base;
  return file_pread_all (self->fd, offset_bytes, buffer, size, self->name, error);
}

static void
file_reader_free (Reader *base)
{
  FileReader *self = (FileReader *) base;
  am_autofd_cleanup (&self->fd);
  g_free (self->name);
  g_free (self);
}

Reader *
reader_new_fd (int fd, const char *name, GError **error)
{
  static const ReaderClass klass = { file_read_at, file_reader_free };
  am_autofd int owned = fd;
  struct stat info;
  if (fstat (owned, &info) < 0)
    {
      am_fail_errno (error, errno, "cannot stat %s", name);
      return NULL;
    }
  if (!S_ISREG (info.st_mode))
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s is not a regular file", name);
  FileReader *self = g_new0 (FileReader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = (guint64) info.st_size;
  self->fd = am_steal_fd (&owned);
  self->name = g_strdup (name);
  return &self->base;
}

Reader *
reader_new_file (const char *path, GError **error)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    {
      am_fail_errno (error, errno, "cannot open %s", path);
      return NULL;
    }
  return reader_new_fd (fd, path, error);
}

typedef struct {
  Reader base;
  Reader *whole;
  guint64 offset_bytes;
} SliceReader;

static gboolean
slice_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  SliceReader *self = (SliceReader *) base;
  return reader_read_at (ctx, self->whole, self->offset_bytes + offset_bytes, buffer, size, error);
}

static void
slice_free (Reader *base)
{
  g_free (base);
}

Reader *
reader_new_slice (Reader *whole, guint64 offset_bytes, guint64 size_bytes)
{
  static const ReaderClass klass = { slice_read_at, slice_free };
  g_assert (offset_bytes <= whole->size_bytes && size_bytes <= whole->size_bytes - offset_bytes);
  SliceReader *self = g_new0 (SliceReader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = size_bytes;
  self->whole = whole;
  self->offset_bytes = offset_bytes;
  return &self->base;
}
