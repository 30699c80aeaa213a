#include "formats/gguf_cursor.h"

#include <string.h>

#include "formats/format_error.h"
#include "formats/gguf.h"

#define WINDOW_BYTES (1024 * 1024)

void
gguf_cursor_init_reader (GgufCursor *self, Ctx *ctx, Reader *reader)
{
  *self = (GgufCursor){ .ctx = ctx, .reader = reader, .file_bytes = reader->size_bytes };
  self->owned = g_malloc ((gsize) MIN (WINDOW_BYTES, reader->size_bytes) + 1);
  self->window = self->owned;
}

void
gguf_cursor_init_prefix (GgufCursor *self, const guint8 *prefix, gsize size)
{
  *self = (GgufCursor){ .file_bytes = G_MAXUINT64, .window = prefix, .window_size = size };
}

void
gguf_cursor_clear (GgufCursor *self)
{
  g_clear_pointer (&self->owned, g_free);
}

/* TRUE when `size_bytes` more lie inside the file and below the header limit. */
static gboolean
check_range (const GgufCursor *self, guint64 size_bytes, GError **error)
{
  if (size_bytes > self->file_bytes - self->pos)
    return format_fail (error,
                        "truncated GGUF header: %" G_GUINT64_FORMAT " bytes are needed at offset %" G_GUINT64_FORMAT
                        ", the file has %" G_GUINT64_FORMAT " in all",
                        size_bytes, self->pos, self->file_bytes);
  if (self->pos > GGUF_MAX_HEADER_BYTES || size_bytes > GGUF_MAX_HEADER_BYTES - self->pos)
    return format_fail_limit (error, "the GGUF header is larger than %d bytes", GGUF_MAX_HEADER_BYTES);
  return TRUE;
}

static gsize
in_window (const GgufCursor *self)
{
  guint64 end = self->window_start + self->window_size;
  return self->pos >= self->window_start && self->pos < end ? (gsize) (end - self->pos) : 0;
}

/* Makes at least `size` (<= GGUF_CURSOR_MAX_TAKE) bytes at the position part of the window. */
static gboolean
fill (GgufCursor *self, gsize size, GError **error)
{
  if (in_window (self) >= size)
    return TRUE;
  if (self->reader == NULL)
    {
      self->needed_bytes = self->pos + size;
      return FALSE;
    }
  self->window_start = self->pos;
  self->window_size = 0;
  gsize want = (gsize) MIN ((guint64) WINDOW_BYTES, self->file_bytes - self->pos);
  if (!reader_read_at (self->ctx, self->reader, self->pos, self->owned, want, error))
    return FALSE;
  self->window_size = want;
  return TRUE;
}

const guint8 *
gguf_cursor_take (GgufCursor *self, gsize size, GError **error)
{
  g_assert (size <= GGUF_CURSOR_MAX_TAKE);
  if (!check_range (self, size, error) || !fill (self, size, error))
    return NULL;
  const guint8 *bytes = self->window + (self->pos - self->window_start);
  self->pos += size;
  return bytes;
}

gboolean
gguf_cursor_copy (GgufCursor *self, gpointer buffer, gsize size, GError **error)
{
  if (!check_range (self, size, error))
    return FALSE;
  gsize done = MIN (in_window (self), size);
  if (self->reader == NULL && done < size)
    {
      self->needed_bytes = self->pos + size;
      return FALSE;
    }
  if (done > 0)
    memcpy (buffer, self->window + (self->pos - self->window_start), done);
  if (done < size
      && !reader_read_at (self->ctx, self->reader, self->pos + done, (guint8 *) buffer + done, size - done, error))
    return FALSE;
  self->pos += size;
  return TRUE;
}

gboolean
gguf_cursor_skip (GgufCursor *self, guint64 size_bytes, GError **error)
{
  if (!check_range (self, size_bytes, error))
    return FALSE;
  self->pos += size_bytes;
  return TRUE;
}

gboolean
gguf_cursor_u32 (GgufCursor *self, guint32 *out_value, GError **error)
{
  const guint8 *bytes = gguf_cursor_take (self, sizeof *out_value, error);
  if (bytes == NULL)
    return FALSE;
  memcpy (out_value, bytes, sizeof *out_value);
  *out_value = GUINT32_FROM_LE (*out_value);
  return TRUE;
}

gboolean
gguf_cursor_u64 (GgufCursor *self, guint64 *out_value, GError **error)
{
  const guint8 *bytes = gguf_cursor_take (self, sizeof *out_value, error);
  if (bytes == NULL)
    return FALSE;
  memcpy (out_value, bytes, sizeof *out_value);
  *out_value = GUINT64_FROM_LE (*out_value);
  return TRUE;
}
