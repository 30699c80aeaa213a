#include "formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "base/file.h"
#include "formats/foreign_name.h"
#include "formats/format_error.h"
#include "formats/sniff.h"

#define BLOCK_BYTES (256 * 1024)
#define HEAD_BYTES ((gsize) 1 << 20)      /* the header of nearly every shard */
#define JSON_HEAD_BYTES ((gsize) 8 << 20) /* an index of shards */
#define TAR_BLOCK 512
#define MAC_FOLDER "__MACOSX"

#define fail_rejected(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ArchiveRejected", __VA_ARGS__)

typedef struct archive LibArchive;
static void
lib_archive_free (LibArchive *self)
{
  archive_read_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LibArchive, lib_archive_free)

/* libarchive over a Reader. Each call into it runs under a UTF-8 locale of this thread: it converts names
 * to the locale's charset, which is ASCII in a program that never set one. */
typedef struct {
  Ctx *ctx;
  Reader *reader;
  ArchiveKind kind;
  guint64 pos;
  guint8 *block;
  GError *error; /* of the reader, while libarchive carries its failure up */
  LibArchive *lib;
  locale_t utf8, previous;
  guint n_entries; /* folders too */
} Source;

static la_ssize_t
on_read (struct archive *lib, void *data, const void **out_block)
{
  Source *self = data;
  gsize size = (gsize) MIN ((guint64) BLOCK_BYTES, self->reader->size_bytes - self->pos);
  *out_block = self->block;
  if (!ctx_check (self->ctx, &self->error)
      || !reader_read_at (self->ctx, self->reader, self->pos, self->block, size, &self->error))
    {
      archive_set_error (lib, EIO, "read failed");
      return -1;
    }
  self->pos += size;
  return (la_ssize_t) size;
}

static la_int64_t
on_seek (struct archive *lib, void *data, la_int64_t offset, int whence)
{
  Source *self = data;
  gint64 base = whence == SEEK_SET ? 0 : (gint64) (whence == SEEK_CUR ? self->pos : self->reader->size_bytes);
  gint64 target;
  if (__builtin_add_overflow (base, offset, &target) || target < 0 || (guint64) target > self->reader->size_bytes)
    {
      archive_set_error (lib, EIO, "an offset beyond the end");
      return ARCHIVE_FATAL;
    }
  self->pos = (guint64) target;
  return target;
}

static la_int64_t
on_skip (struct archive *lib, void *data, la_int64_t size)
{
  Source *self = data;
  guint64 skipped = MIN ((guint64) size, self->reader->size_bytes - self->pos);
  self->pos += skipped;
  return (la_int64_t) skipped;
}

static void
source_enter (Source *self)
{
  self->previous = uselocale (self->utf8);
}

static void
source_leave (Source *self)
{
  uselocale (self->previous);
}

static void
source_clear (Source *self)
{
  g_clear_pointer (&self->lib, lib_archive_free);
  g_clear_pointer (&self->block, g_free);
  g_clear_error (&self->error);
  if (self->utf8 != (locale_t) 0)
    freelocale (self->utf8);
  self->utf8 = (locale_t) 0;
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Source, source_clear)

/* The reader's error when there is one, else libarchive's words. */
static gboolean
source_fail (Source *self, GError **error)
{
  static const char *const no_format[] = {
    [ARCHIVE_TAR] = "this is no tar archive",
    [ARCHIVE_TAR_GZIP] = "there is no tar archive inside the gzip data",
    [ARCHIVE_TAR_ZSTD] = "there is no tar archive inside the zstd data",
    [ARCHIVE_ZIP] = "the zip's directory is missing: it is truncated, empty or damaged",
  };
  const char *text = archive_error_string (self->lib);
  if (text != NULL && strcmp (text, "Unrecognized archive format") == 0)
    text = no_format[self->kind];
  if (self->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&self->error));
      return FALSE;
    }
  return format_fail (error, "bad archive: %s", text != NULL ? text : "unknown error");
}

static void
support_kind (LibArchive *lib, ArchiveKind kind)
{
  if (kind == ARCHIVE_ZIP)
    archive_read_support_format_zip_seekable (lib);
  else
    archive_read_support_format_tar (lib);
  if (kind == ARCHIVE_TAR_GZIP)
    archive_read_support_filter_gzip (lib);
  if (kind == ARCHIVE_TAR_ZSTD)
    archive_read_support_filter_zstd (lib);
}

static gboolean
source_open (Source *self, Ctx *ctx, Reader *reader, ArchiveKind kind, GError **error)
{
  *self = (Source){ .ctx = ctx, .reader = reader, .kind = kind, .block = g_malloc (BLOCK_BYTES) };
  self->utf8 = newlocale (LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0); /* absent: ASCII names only */
  self->lib = archive_read_new ();
  g_assert (self->lib != NULL);
  support_kind (self->lib, kind);
  archive_read_set_read_callback (self->lib, on_read);
  archive_read_set_seek_callback (self->lib, on_seek);
  archive_read_set_skip_callback (self->lib, on_skip);
  archive_read_set_callback_data (self->lib, self);
  source_enter (self);
  gboolean good = archive_read_set_options (self->lib, "hdrcharset=UTF-8") >= ARCHIVE_WARN
                  && archive_read_open1 (self->lib) == ARCHIVE_OK;
  source_leave (self);
  return good || source_fail (self, error);
}

static gboolean
has_tar_checksum (const guint8 *head, gsize size)
{
  guint sum = 0, stored = 0;
  if (size < TAR_BLOCK || head[0] == '\0')
    return FALSE;
  for (guint i = 0; i < TAR_BLOCK; i++)
    sum += i >= 148 && i < 156 ? ' ' : head[i];
  for (guint i = 148; i < 156 && (head[i] == ' ' || (head[i] >= '0' && head[i] <= '7')); i++)
    stored = head[i] == ' ' ? stored : stored * 8 + (head[i] - '0');
  return sum == stored;
}

gboolean
archive_detect (const guint8 *head, gsize size, ArchiveKind *out_kind)
{
  static const struct {
    SniffKind sniffed;
    ArchiveKind kind;
  } kinds[] = {
    { SNIFF_TAR, ARCHIVE_TAR },
    { SNIFF_GZIP, ARCHIVE_TAR_GZIP },
    { SNIFF_ZSTD, ARCHIVE_TAR_ZSTD },
    { SNIFF_ZIP, ARCHIVE_ZIP },
  };
  SniffKind sniffed = sniff (head, size);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (kinds[i].sniffed == sniffed)
      {
        *out_kind = kinds[i].kind;
        return TRUE;
      }
  *out_kind = ARCHIVE_TAR;
  return sniffed == SNIFF_UNKNOWN && has_tar_checksum (head, size);
}

static gboolean
detect_kind (Ctx *ctx, Reader *reader, ArchiveKind *out_kind, GError **error)
{
  guint8 head[SNIFF_BYTES];
  gsize size = (gsize) MIN (reader->size_bytes, sizeof head);
  if (!reader_read_at (ctx, reader, 0, head, size, error))
    return FALSE;
  if (archive_detect (head, size, out_kind))
    return TRUE;
  return format_fail (error, "this is %s, not an archive that is supported: tar, tar.gz, tar.zst or zip",
                      sniff_describe (sniff (head, size)));
}

/* Leading "./" and a folder's trailing slash are usual; everything else odd is refused. */
static gboolean
clean_path (const char *raw, gboolean is_folder, char **out_path, GError **error)
{
  if (raw == NULL)
    return fail_rejected (error, "the archive has a file whose name is not UTF-8 text");
  const char *path = raw;
  while (g_str_has_prefix (path, "./"))
    path += 2;
  g_autofree char *copy = g_strdup (path);
  gsize size = strlen (copy);
  if (is_folder && size > 0 && copy[size - 1] == '/')
    copy[size - 1] = '\0';
  gboolean is_root = is_folder && (copy[0] == '\0' || strcmp (copy, ".") == 0);
  if (!is_root && !path_is_safe (copy))
    {
      g_autofree char *shown = foreign_name_show (raw, strlen (raw));
      return fail_rejected (error, "the archive has an unsafe name: %s", shown);
    }
  *out_path = g_steal_pointer (&copy);
  return TRUE;
}

/* Regular files and folders only, in plain storage. */
static gboolean
check_entry (struct archive_entry *entry, const char *path, GError **error)
{
  unsigned type = archive_entry_filetype (entry);
  if (archive_entry_hardlink (entry) != NULL || archive_entry_symlink (entry) != NULL || type == AE_IFLNK)
    return fail_rejected (error, "the archive has a link, \"%s\": only files and folders are allowed", path);
  if (type != AE_IFREG && type != AE_IFDIR)
    return fail_rejected (error, "the archive has a device or the like, \"%s\"", path);
  if (archive_entry_is_encrypted (entry))
    return fail_rejected (error, "the archive is encrypted (\"%s\")", path);
  if (archive_entry_sparse_count (entry) > 0)
    return fail_rejected (error, "the archive has a sparse file, \"%s\"", path);
  if (!archive_entry_size_is_set (entry) || archive_entry_size (entry) < 0)
    return fail_rejected (error, "the archive does not say how large \"%s\" is", path);
  return TRUE;
}

/* The next regular file; `*out_path` is NULL at the end. */
static gboolean
source_next (Source *self, char **out_path, guint64 *out_size, GError **error)
{
  for (;;)
    {
      struct archive_entry *entry;
      g_autofree char *path = NULL;
      source_enter (self);
      int status = archive_read_next_header (self->lib, &entry);
      const char *raw = status == ARCHIVE_OK ? archive_entry_pathname_utf8 (entry) : NULL;
      source_leave (self);
      if (status == ARCHIVE_EOF)
        {
          *out_path = NULL;
          return TRUE;
        }
      if (status != ARCHIVE_OK) /* warnings too: what is odd here is no model */
        return source_fail (self, error);
      if (++self->n_entries > ARCHIVE_MAX_ENTRIES)
        return format_fail_limit (error, "the archive has more than %d entries", ARCHIVE_MAX_ENTRIES);
      gboolean is_folder = archive_entry_filetype (entry) == AE_IFDIR;
      if (!clean_path (raw, is_folder, &path, error) || !check_entry (entry, path, error))
        return FALSE;
      if (is_folder)
        continue;
      *out_size = (guint64) archive_entry_size (entry);
      *out_path = g_steal_pointer (&path);
      return TRUE;
    }
}

static void
entry_clear (gpointer data)
{
  ArchiveEntry *entry = data;
  g_clear_pointer (&entry->head, g_bytes_unref);
}

void
archive_listing_free (ArchiveListing *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->entries, g_array_unref);
  g_clear_pointer (&self->strings, g_string_chunk_free);
  g_free (self->top_folder);
  g_free (self);
}

static gboolean
check_limits (const ArchiveListing *self, guint64 archive_bytes, guint64 max_total_bytes, GError **error)
{
  if (self->total_bytes > max_total_bytes)
    return format_fail_limit (error, "the archive unpacks to more than %" G_GUINT64_FORMAT " bytes", max_total_bytes);
  if (self->total_bytes > ARCHIVE_RATIO_FREE_BYTES && self->total_bytes / ARCHIVE_MAX_RATIO >= archive_bytes)
    return format_fail_limit (error, "the archive unpacks to more than %d times its size", ARCHIVE_MAX_RATIO);
  return TRUE;
}

static gboolean
add_entry (ArchiveListing *self, const char *path, guint64 size_bytes, GError **error)
{
  ArchiveEntry entry = { g_string_chunk_insert (self->strings, path), size_bytes, NULL };
  if (__builtin_add_overflow (self->total_bytes, size_bytes, &self->total_bytes))
    return format_fail (error, "the sizes in the archive overflow");
  g_array_append_val (self->entries, entry);
  return TRUE;
}

/* The slash sorts below everything, so that a folder's content follows a file of the folder's name. */
static int
compare_paths (gconstpointer pa, gconstpointer pb)
{
  const guchar *a = *(const guchar *const *) pa, *b = *(const guchar *const *) pb;
  while (*a == *b && *a != '\0')
    {
      a++;
      b++;
    }
  int x = *a == '/' ? 1 : *a == '\0' ? 0 : *a + 1, y = *b == '/' ? 1 : *b == '\0' ? 0 : *b + 1;
  return x - y;
}

static gboolean
check_unique (const ArchiveListing *self, GError **error)
{
  g_autoptr (GPtrArray) paths = g_ptr_array_sized_new (self->entries->len);
  for (guint i = 0; i < self->entries->len; i++)
    g_ptr_array_add (paths, (gpointer) g_array_index (self->entries, ArchiveEntry, i).path);
  g_ptr_array_sort (paths, compare_paths);
  for (guint i = 1; i < paths->len; i++)
    {
      const char *before = paths->pdata[i - 1], *path = paths->pdata[i];
      gsize size = strlen (before);
      if (strcmp (before, path) == 0)
        return fail_rejected (error, "the archive has \"%s\" twice", path);
      if (strncmp (before, path, size) == 0 && path[size] == '/')
        return fail_rejected (error, "in the archive \"%s\" is both a file and a folder", before);
    }
  return TRUE;
}

static gboolean
is_mac_litter (const char *path)
{
  return g_str_has_prefix (path, MAC_FOLDER "/") || (path[0] == '.' && strchr (path, '/') == NULL);
}

/* The one folder that holds everything, what macOS strews about left aside; NULL when there is none. */
static char *
find_top_folder (const ArchiveListing *self)
{
  g_autofree char *top = NULL;
  for (guint i = 0; i < self->entries->len; i++)
    {
      const char *path = g_array_index (self->entries, ArchiveEntry, i).path, *slash = strchr (path, '/');
      if (is_mac_litter (path))
        continue;
      if (slash == NULL || (top != NULL && strncmp (path, top, MAX (strlen (top), (gsize) (slash - path))) != 0))
        return NULL;
      if (top == NULL)
        top = g_strndup (path, (gsize) (slash - path));
    }
  return g_steal_pointer (&top);
}

/* `path` without the top folder. */
static const char *
strip_top (const char *top_folder, const char *path)
{
  gsize size = top_folder != NULL ? strlen (top_folder) : 0;
  return size > 0 && strncmp (path, top_folder, size) == 0 && path[size] == '/' ? path + size + 1 : path;
}

static void
strip_all (ArchiveListing *self)
{
  self->top_folder = find_top_folder (self);
  for (guint i = 0; i < self->entries->len; i++)
    {
      ArchiveEntry *entry = &g_array_index (self->entries, ArchiveEntry, i);
      entry->path = strip_top (self->top_folder, entry->path);
    }
}

/* Walks over the present file's data, so that the position is behind it. */
static gboolean
source_skip (Source *self, GError **error)
{
  source_enter (self);
  int status = archive_read_data_skip (self->lib);
  source_leave (self);
  return status == ARCHIVE_OK || source_fail (self, error);
}

/* A tar that was cut between two files looks whole but for the block of zeros that ends it. libarchive
 * takes both for the end, so look how far it went for it. */
static gboolean
check_tar_end (Source *self, gint64 data_end, GError **error)
{
  return archive_filter_bytes (self->lib, 0) - data_end >= TAR_BLOCK
         || format_fail (error, "truncated archive: the mark at its end is missing");
}

static gssize
source_read (Source *self, gpointer buffer, gsize size, GError **error)
{
  source_enter (self);
  la_ssize_t got = archive_read_data (self->lib, buffer, size);
  source_leave (self);
  if (got >= 0)
    return (gssize) got;
  source_fail (self, error);
  return -1;
}

/* Keeps the beginning of the file that was listed last. */
static gboolean
take_head (Source *source, ArchiveListing *listing, gsize *left_bytes, GError **error)
{
  ArchiveEntry *entry = &g_array_index (listing->entries, ArchiveEntry, listing->entries->len - 1);
  gsize wanted = g_str_has_suffix (entry->path, ".json") ? JSON_HEAD_BYTES : HEAD_BYTES;
  gsize size = (gsize) MIN (entry->size_bytes, (guint64) wanted), filled = 0;
  if (size == 0 || size > *left_bytes)
    return TRUE;
  g_autofree guint8 *bytes = g_malloc (size);
  while (filled < size)
    {
      gssize got = source_read (source, bytes + filled, size - filled, error);
      if (got <= 0)
        return got == 0 && format_fail (error, "bad archive: a file is shorter than its declared size");
      filled += (gsize) got;
    }
  *left_bytes -= size;
  entry->head = g_bytes_new_take (g_steal_pointer (&bytes), size);
  return TRUE;
}

static gboolean
list_all (Source *source, ArchiveListing *listing, guint64 max_total_bytes, gsize heads_bytes, GError **error)
{
  for (;;)
    {
      g_autofree char *path = NULL;
      guint64 size_bytes;
      gint64 data_end = archive_filter_bytes (source->lib, 0);
      if (!source_next (source, &path, &size_bytes, error))
        return FALSE;
      if (path == NULL)
        return listing->kind == ARCHIVE_ZIP || check_tar_end (source, data_end, error);
      if (!add_entry (listing, path, size_bytes, error)
          || !check_limits (listing, source->reader->size_bytes, max_total_bytes, error)
          || !take_head (source, listing, &heads_bytes, error) || !source_skip (source, error))
        return FALSE;
    }
}

ArchiveListing *
archive_list (Ctx *ctx, Reader *reader, guint64 max_total_bytes, gsize heads_bytes, GError **error)
{
  g_auto (Source) source = { 0 };
  g_autoptr (ArchiveListing) listing = g_new0 (ArchiveListing, 1);
  listing->entries = g_array_new (FALSE, FALSE, sizeof (ArchiveEntry));
  g_array_set_clear_func (listing->entries, entry_clear);
  listing->strings = g_string_chunk_new (4096);
  if (!detect_kind (ctx, reader, &listing->kind, error) || !source_open (&source, ctx, reader, listing->kind, error)
      || !list_all (&source, listing, max_total_bytes, heads_bytes, error))
    return NULL;
  if (listing->entries->len == 0)
    {
      format_fail (error, "the archive holds no files");
      return NULL;
    }
  strip_all (listing);
  return check_unique (listing, error) ? g_steal_pointer (&listing) : NULL;
}

struct ArchiveStream {
  Source source;
  const ArchiveListing *listing;
  guint next;         /* index of the entry behind the present one */
  guint64 left_bytes; /* of the present one, by its declared size */
};

ArchiveStream *
archive_stream_new (Ctx *ctx, Reader *reader, const ArchiveListing *listing, GError **error)
{
  g_autoptr (ArchiveStream) self = g_new0 (ArchiveStream, 1);
  self->listing = listing;
  return source_open (&self->source, ctx, reader, listing->kind, error) ? g_steal_pointer (&self) : NULL;
}

void
archive_stream_free (ArchiveStream *self)
{
  if (self == NULL)
    return;
  source_clear (&self->source);
  g_free (self);
}

void
archive_stream_set_ctx (ArchiveStream *self, Ctx *ctx)
{
  self->source.ctx = ctx;
}

gboolean
archive_stream_next (ArchiveStream *self, const ArchiveEntry **out_entry, GError **error)
{
  g_autofree char *path = NULL;
  guint64 size_bytes;
  if (!source_next (&self->source, &path, &size_bytes, error))
    return FALSE;
  if (path == NULL && self->next == self->listing->entries->len)
    {
      *out_entry = NULL;
      return TRUE;
    }
  const ArchiveEntry *entry = &g_array_index (self->listing->entries, ArchiveEntry, self->next);
  if (path == NULL || self->next == self->listing->entries->len || size_bytes != entry->size_bytes
      || strcmp (strip_top (self->listing->top_folder, path), entry->path) != 0)
    return format_fail (error, "the archive changed while it was read");
  self->next++;
  self->left_bytes = size_bytes;
  *out_entry = entry;
  return TRUE;
}

gssize
archive_stream_read (ArchiveStream *self, gpointer buffer, gsize size, GError **error)
{
  Source *source = &self->source;
  g_assert (size > 0);
  gssize got = source_read (source, buffer, size, error);
  if (got < 0)
    return -1;
  if ((guint64) got > self->left_bytes || (got == 0 && self->left_bytes > 0))
    {
      format_fail (error, "bad archive: a file is %s than its declared size", got == 0 ? "shorter" : "longer");
      return -1;
    }
  self->left_bytes -= (guint64) got;
  return (gssize) got;
}
