#include "publish/archive_source.h"

#include <string.h>

#include "base/error.h"
#include "formats/archive.h"

#define TOTAL_LIMIT_BYTES (8ull << 40)
#define HEADS_BYTES ((gsize) 96 << 20)
/* Of the file that is read from its start so much is kept beside it, for those who look at a long header twice. */
#define PREFIX_BYTES ((gsize) 32 << 20)
#define SKIP_BLOCK_BYTES ((gsize) 256 << 10)

typedef struct {
  ModelSource base;
  Reader *archive;
  ArchiveListing *listing;
  GHashTable *by_path; /* borrowed path -> index of the entry, from 1 */
  GMutex lock;         /* for all below */
  ArchiveStream *stream;
  guint present;          /* entry that the stream stands in, from 1; 0: before the first */
  guint64 position_bytes; /* in it */
} ArchiveSource;

typedef struct {
  Reader base;
  ArchiveSource *source;
  guint index;        /* from 1 */
  GByteArray *prefix; /* the file's first bytes, as far as they are known */
} EntryReader;

/* To the beginning of the file `index`. */
static gboolean
go_to_file (Ctx *ctx, ArchiveSource *self, guint index, GError **error)
{
  if (self->stream == NULL || self->present > index)
    {
      g_clear_pointer (&self->stream, archive_stream_free);
      self->present = 0;
      self->stream = archive_stream_new (ctx, self->archive, self->listing, error);
      if (self->stream == NULL)
        return FALSE;
    }
  archive_stream_set_ctx (self->stream, ctx);
  while (self->present < index)
    {
      const ArchiveEntry *entry = NULL;
      if (!ctx_check (ctx, error) || !archive_stream_next (self->stream, &entry, error))
        return FALSE;
      g_assert (entry != NULL); /* the stream agrees with the listing, or fails */
      self->present++;
      self->position_bytes = 0;
    }
  return TRUE;
}

static gboolean
read_on (Ctx *ctx, ArchiveSource *self, guint8 *buffer, gsize size, GError **error)
{
  while (size > 0)
    {
      gssize got = ctx_check (ctx, error) ? archive_stream_read (self->stream, buffer, size, error) : -1;
      if (got < 0)
        return FALSE;
      g_assert (got > 0); /* a file that ends early is an error */
      self->position_bytes += (guint64) got;
      buffer += got;
      size -= (gsize) got;
    }
  return TRUE;
}

static gboolean
skip_to (Ctx *ctx, ArchiveSource *self, guint64 offset_bytes, GError **error)
{
  g_autofree guint8 *block = self->position_bytes < offset_bytes ? g_malloc (SKIP_BLOCK_BYTES) : NULL;
  while (self->position_bytes < offset_bytes)
    if (!read_on (ctx, self, block, (gsize) MIN (SKIP_BLOCK_BYTES, offset_bytes - self->position_bytes), error))
      return FALSE;
  return TRUE;
}

/* After an error the stream is of no use. */
static gboolean
stream_at (Ctx *ctx, ArchiveSource *self, guint index, guint64 offset_bytes, guint8 *buffer, gsize size,
           GError **error)
{
  gboolean is_behind = self->present == index && self->position_bytes > offset_bytes;
  if (is_behind)
    g_clear_pointer (&self->stream, archive_stream_free);
  if (go_to_file (ctx, self, index, error) && skip_to (ctx, self, offset_bytes, error)
      && read_on (ctx, self, buffer, size, error))
    return TRUE;
  g_clear_pointer (&self->stream, archive_stream_free);
  return FALSE;
}

static void
keep_prefix (EntryReader *self, guint64 offset_bytes, const guint8 *bytes, gsize size)
{
  if (offset_bytes == self->prefix->len && offset_bytes + size <= PREFIX_BYTES)
    g_byte_array_append (self->prefix, bytes, (guint) size);
}

static gboolean
entry_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  EntryReader *self = (EntryReader *) base;
  guint8 *out = buffer;
  if (offset_bytes < self->prefix->len)
    {
      gsize n = (gsize) MIN (size, self->prefix->len - offset_bytes);
      memcpy (out, self->prefix->data + offset_bytes, n);
      out += n;
      offset_bytes += n;
      size -= n;
    }
  if (size == 0)
    return TRUE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->source->lock);
  if (!stream_at (ctx, self->source, self->index, offset_bytes, out, size, error))
    return FALSE;
  keep_prefix (self, offset_bytes, out, size);
  return TRUE;
}

static void
entry_free (Reader *base)
{
  EntryReader *self = (EntryReader *) base;
  g_byte_array_unref (self->prefix);
  g_free (self);
}

static Reader *
archive_open (ModelSource *base, const char *path, GError **error)
{
  static const ReaderClass klass = { entry_read_at, entry_free };
  ArchiveSource *source = (ArchiveSource *) base;
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (source->by_path, path));
  if (index == 0)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "%s is not among the archive's files", path);
  const ArchiveEntry *entry = &g_array_index (source->listing->entries, ArchiveEntry, index - 1);
  EntryReader *self = g_new0 (EntryReader, 1);
  self->base = (Reader){ &klass, entry->size_bytes };
  self->source = source;
  self->index = index;
  self->prefix = g_byte_array_new ();
  if (entry->head != NULL)
    g_byte_array_append (self->prefix, g_bytes_get_data (entry->head, NULL), (guint) g_bytes_get_size (entry->head));
  return &self->base;
}

static void
archive_free (ModelSource *base)
{
  ArchiveSource *self = (ArchiveSource *) base;
  archive_stream_free (self->stream);
  archive_listing_free (self->listing);
  reader_free (self->archive);
  g_hash_table_unref (self->by_path);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* Files without an extension may be GGUF all the same. */
static gboolean
begins_as_gguf (const ArchiveEntry *entry)
{
  return strchr (entry->path, '.') == NULL && entry->head != NULL && g_bytes_get_size (entry->head) >= 4
         && memcmp (g_bytes_get_data (entry->head, NULL), "GGUF", 4) == 0;
}

ModelSource *
archive_source_open (Ctx *ctx, Reader *archive, const char *display, GError **error)
{
  static const ModelSourceClass klass = { NULL, archive_open, NULL, archive_free };
  ArchiveSource *self = g_new0 (ArchiveSource, 1);
  g_autoptr (ModelSource) base = &self->base;
  base->klass = &klass;
  base->display = g_strdup (display);
  base->files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  base->is_sequential = TRUE;
  self->archive = archive;
  self->by_path = g_hash_table_new (g_str_hash, g_str_equal);
  g_mutex_init (&self->lock);
  self->listing = archive_list (ctx, archive, TOTAL_LIMIT_BYTES, HEADS_BYTES, error);
  for (guint i = 0; self->listing != NULL && i < self->listing->entries->len; i++)
    {
      const ArchiveEntry *entry = &g_array_index (self->listing->entries, ArchiveEntry, i);
      SourceFile file = { entry->path, entry->size_bytes, begins_as_gguf (entry), NULL };
      g_array_append_val (base->files, file);
      g_hash_table_insert (self->by_path, (gpointer) entry->path, GUINT_TO_POINTER (i + 1));
    }
  return self->listing != NULL ? g_steal_pointer (&base) : NULL;
}
