#include "delivery/archive_unpack.h"

#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/archive.h"

#define BLOCK_BYTES (256u << 10)

static const struct {
  ModelpackCodec codec;
  ArchiveKind kind;
} kinds[] = {
  { MODELPACK_TAR, ARCHIVE_TAR },
  { MODELPACK_TAR_GZIP, ARCHIVE_TAR_GZIP },
  { MODELPACK_TAR_ZSTD, ARCHIVE_TAR_ZSTD },
};

static gboolean
check_kind (ModelpackCodec codec, ArchiveKind kind, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (kinds[i].codec == codec && kinds[i].kind == kind)
      return TRUE;
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "FormatInvalid",
                  "the layer's media type says another kind of archive than its content is");
}

/* The path that the archive itself gave: listing strips a single top folder, a layer's paths are whole. */
static char *
whole_path (const ArchiveListing *listing, const ArchiveEntry *entry)
{
  if (listing->top_folder == NULL)
    return g_strdup (entry->path);
  return g_strdup_printf ("%s/%s", listing->top_folder, entry->path);
}

static gboolean
unpack_file (Ctx *ctx, ArchiveStream *stream, GrowingDir *dir, const char *path, GError **error)
{
  am_autofd int fd = growing_dir_open_file (dir, path, error);
  if (fd < 0)
    return FALSE;
  if (ftruncate (fd, 0) < 0)
    return am_fail_errno (error, errno, "cannot write %s", path);
  g_autofree guint8 *block = g_malloc (BLOCK_BYTES);
  guint64 offset = 0;
  gssize n;
  while ((n = archive_stream_read (stream, block, BLOCK_BYTES, error)) > 0)
    {
      if (!ctx_check (ctx, error) || !file_pwrite_all (fd, offset, block, (gsize) n, error))
        {
          g_prefix_error (error, "%s: ", path);
          return FALSE;
        }
      offset += (guint64) n;
    }
  return n == 0 && (fsync (fd) == 0 || am_fail_errno (error, errno, "cannot sync %s", path));
}

gboolean
archive_unpack (Ctx *ctx, Reader *archive, ModelpackCodec codec, guint64 max_total_bytes, GrowingDir *dir,
                PathSet *paths, GHashTable *written, GError **error)
{
  g_autoptr (ArchiveListing) listing = archive_list (ctx, archive, max_total_bytes, 0, error);
  if (listing == NULL || !check_kind (codec, listing->kind, error))
    return FALSE;
  for (guint i = 0; i < listing->entries->len; i++)
    {
      g_autofree char *path = whole_path (listing, &g_array_index (listing->entries, ArchiveEntry, i));
      if (!path_set_add (paths, path, FALSE, error))
        return FALSE;
    }
  if (!growing_dir_check_space (dir, archive->size_bytes + listing->total_bytes, error))
    return FALSE;
  g_autoptr (ArchiveStream) stream = archive_stream_new (ctx, archive, listing, error);
  if (stream == NULL)
    return FALSE;
  const ArchiveEntry *entry = NULL;
  while (archive_stream_next (stream, &entry, error))
    {
      if (entry == NULL)
        return TRUE;
      g_autofree char *path = whole_path (listing, entry);
      if (!unpack_file (ctx, stream, dir, path, error))
        return FALSE;
      g_hash_table_add (written, g_steal_pointer (&path));
    }
  return FALSE;
}
