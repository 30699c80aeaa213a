/* A forward cursor over a GGUF header: through a Reader with a window, or over a prefix in memory.
 * Private to formats/gguf*.c. */
#pragma once

#include "base/reader.h"

typedef struct {
  Ctx *ctx;
  Reader *reader;     /* NULL: the window is the whole prefix */
  guint64 file_bytes; /* G_MAXUINT64 when unknown */
  guint64 pos;
  guint64 window_start;
  gsize window_size;
  const guint8 *window;
  guint8 *owned;        /* the window's memory when a reader is behind it */
  guint64 needed_bytes; /* of a prefix that was too short; 0 otherwise */
} GgufCursor;

void gguf_cursor_init_reader (GgufCursor *self, Ctx *ctx, Reader *reader);
void gguf_cursor_init_prefix (GgufCursor *self, const guint8 *prefix, gsize size);
void gguf_cursor_clear (GgufCursor *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GgufCursor, gguf_cursor_clear)

/* The next `size` bytes, at most GGUF_CURSOR_MAX_TAKE, valid until the next call; NULL at the end of the
 * file, above the header limit, or (without an error, `needed_bytes` set) at the end of a prefix. */
#define GGUF_CURSOR_MAX_TAKE 64
const guint8 *gguf_cursor_take (GgufCursor *self, gsize size, GError **error);
/* Copies; `size` must have been checked against a limit. */
gboolean gguf_cursor_copy (GgufCursor *self, gpointer buffer, gsize size, GError **error);
gboolean gguf_cursor_skip (GgufCursor *self, guint64 size_bytes, GError **error);
gboolean gguf_cursor_u32 (GgufCursor *self, guint32 *out_value, GError **error);
gboolean gguf_cursor_u64 (GgufCursor *self, guint64 *out_value, GError **error);
