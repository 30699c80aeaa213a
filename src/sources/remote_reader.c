#include "sources/remote_reader.h"

#include <string.h>

#include "sources/range_ahead.h"

#define BLOCK_BYTES REMOTE_HEAD_BYTES
/* So much, read one piece behind the other, is a transfer and no look into a header. */
#define SEQUENTIAL_BYTES (1u << 20)

typedef struct {
  Reader base;
  RemoteFile *file;
  FetchGate *gate;
  gboolean owns_gate;
  guint8 *block;
  guint64 block_offset;
  gsize block_size;
  guint64 expected_offset; /* where a reader in order goes on */
  guint64 n_in_order;      /* bytes read so, one behind the other */
  RangeAhead *ahead;       /* NULL: not read in order */
} RemoteReader;

static gboolean
read_block (Ctx *ctx, RemoteReader *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error)
{
  gboolean is_inside = offset_bytes >= self->block_offset && offset_bytes - self->block_offset <= self->block_size
                       && size <= self->block_size - (offset_bytes - self->block_offset);
  if (size >= BLOCK_BYTES)
    return remote_file_read (ctx, self->file, offset_bytes, buffer, size, error);
  if (!is_inside)
    {
      self->block_size = 0;
      if (self->block == NULL)
        self->block = g_malloc (BLOCK_BYTES);
      gsize n = (gsize) MIN (BLOCK_BYTES, self->base.size_bytes - offset_bytes);
      if (!remote_file_read (ctx, self->file, offset_bytes, self->block, n, error))
        return FALSE;
      self->block_offset = offset_bytes;
      self->block_size = n;
    }
  memcpy (buffer, self->block + (offset_bytes - self->block_offset), size);
  return TRUE;
}

static gboolean
remote_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  RemoteReader *self = (RemoteReader *) base;
  gboolean is_next = offset_bytes == self->expected_offset;
  self->expected_offset = offset_bytes + size;
  self->n_in_order = (is_next ? self->n_in_order : 0) + size;
  if (!is_next)
    g_clear_pointer (&self->ahead, range_ahead_free);
  else if (self->ahead == NULL && self->n_in_order - size >= SEQUENTIAL_BYTES)
    self->ahead = range_ahead_new (ctx, self->file, self->gate, offset_bytes);
  if (self->ahead == NULL)
    return read_block (ctx, self, offset_bytes, buffer, size, error);
  if (range_ahead_read (ctx, self->ahead, buffer, size, error))
    return TRUE;
  g_clear_pointer (&self->ahead, range_ahead_free);
  return FALSE;
}

static void
remote_reader_free (Reader *base)
{
  RemoteReader *self = (RemoteReader *) base;
  range_ahead_free (self->ahead);
  if (self->owns_gate)
    fetch_gate_free (self->gate);
  remote_file_free (self->file);
  g_free (self->block);
  g_free (self);
}

static void
take_head (RemoteReader *self, GBytes *head)
{
  self->block = g_malloc (BLOCK_BYTES);
  self->block_size = g_bytes_get_size (head);
  g_assert (self->block_size <= BLOCK_BYTES);
  if (self->block_size > 0)
    memcpy (self->block, g_bytes_get_data (head, NULL), self->block_size);
}

Reader *
remote_reader_new (RemoteFile *file, GBytes *head)
{
  static const ReaderClass klass = { remote_read_at, remote_reader_free };
  RemoteReader *self = g_new0 (RemoteReader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = remote_file_size (file);
  self->file = file;
  self->gate = remote_file_gate (file);
  self->owns_gate = self->gate == NULL;
  if (self->owns_gate)
    self->gate = fetch_gate_new ();
  if (head != NULL)
    take_head (self, head);
  return &self->base;
}

GBytes *
remote_reader_head (Ctx *ctx, RemoteFile *file, GError **error)
{
  gsize size = (gsize) MIN (remote_file_size (file), REMOTE_HEAD_BYTES);
  g_autofree guint8 *bytes = g_malloc (size + 1);
  return remote_file_read (ctx, file, 0, bytes, size, error) ? g_bytes_new_take (g_steal_pointer (&bytes), size)
                                                             : NULL;
}
