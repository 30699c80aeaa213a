/* The Reader of hf_hub.h: a remote file, or for content that git itself holds all of it in memory. */
#include <string.h>

#include "sources/hf_remote.h"
#include "sources/remote_reader.h"

/* Content that git itself holds: the hub allows 10 MiB. */
#define WHOLE_MAX_BYTES (64u << 20)

typedef struct {
  Reader base;
  RemoteFile *file;
  char *blob_id; /* NULL: not stated */
  GBytes *whole; /* verified */
} WholeReader;

static gboolean
check_blob_id (const WholeReader *self, const guint8 *bytes, gsize size, GError **error)
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA1);
  g_autofree char *head = g_strdup_printf ("blob %" G_GSIZE_FORMAT, size);
  g_checksum_update (checksum, (const guchar *) head, (gssize) strlen (head) + 1);
  g_checksum_update (checksum, bytes, (gssize) size);
  return strcmp (g_checksum_get_string (checksum), self->blob_id) == 0
         || am_fail (error, AM_ERROR_DATA_LOSS, "SourceCorrupt",
                     "its bytes do not match the hash that the hub states");
}

static gboolean
load_whole (Ctx *ctx, WholeReader *self, GError **error)
{
  gsize size = (gsize) self->base.size_bytes;
  if (self->whole != NULL)
    return TRUE;
  if (self->blob_id == NULL)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubIncomplete",
                    "the hub states no hash of it, so its bytes cannot be verified");
  if (self->base.size_bytes > WHOLE_MAX_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                    "it is too large for a file that is not kept with LFS or Xet");
  g_autofree guint8 *bytes = g_malloc (size + 1);
  if (!remote_file_read (ctx, self->file, 0, bytes, size, error) || !check_blob_id (self, bytes, size, error))
    return FALSE;
  self->whole = g_bytes_new_take (g_steal_pointer (&bytes), size);
  return TRUE;
}

static gboolean
whole_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  WholeReader *self = (WholeReader *) base;
  if (!load_whole (ctx, self, error))
    return FALSE;
  memcpy (buffer, (const guint8 *) g_bytes_get_data (self->whole, NULL) + offset_bytes, size);
  return TRUE;
}

static void
whole_free (Reader *base)
{
  WholeReader *self = (WholeReader *) base;
  g_clear_pointer (&self->whole, g_bytes_unref);
  remote_file_free (self->file);
  g_free (self->blob_id);
  g_free (self);
}

static WholeReader *
whole_new (HfHub *hub, const HfInfo *info, const HfFile *file)
{
  static const ReaderClass klass = { whole_read_at, whole_free };
  WholeReader *self = g_new0 (WholeReader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = file->size_bytes;
  self->file = hf_remote_new (hub, info, file);
  self->blob_id = g_strdup (file->blob_id);
  return self;
}

Reader *
hf_hub_open (HfHub *hub, const HfInfo *info, const HfFile *file, GBytes *head)
{
  if (file->sha256 != NULL)
    return remote_reader_new (hf_remote_new (hub, info, file), head);
  WholeReader *whole = whole_new (hub, info, file);
  whole->whole = head != NULL ? g_bytes_ref (head) : NULL;
  return &whole->base;
}

GBytes *
hf_hub_head (Ctx *ctx, HfHub *hub, const HfInfo *info, const HfFile *file, GError **error)
{
  if (file->sha256 != NULL)
    {
      g_autoptr (RemoteFile) remote = hf_remote_new (hub, info, file);
      return remote_reader_head (ctx, remote, error);
    }
  WholeReader *whole = whole_new (hub, info, file);
  g_autoptr (Reader) reader = &whole->base;
  return load_whole (ctx, whole, error) ? g_bytes_ref (whole->whole) : NULL;
}
