/* Any bytes as an archive: refused with a reason, or files with safe, distinct paths whose content is as long as
 * it says. */
#include "formats/archive.h"

#include "base/error.h"
#include "base/file.h"

#include <string.h>

#define MAX_TOTAL (8 << 20)

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_listing (const ArchiveListing *listing)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  guint64 total = 0;
  g_assert_cmpuint (listing->entries->len, >, 0);
  for (guint i = 0; i < listing->entries->len; i++)
    {
      const ArchiveEntry *entry = &g_array_index (listing->entries, ArchiveEntry, i);
      g_assert_true (path_is_safe (entry->path));
      g_assert_true (g_hash_table_add (seen, (gpointer) entry->path));
      total += entry->size_bytes;
    }
  g_assert_cmpuint (total, ==, listing->total_bytes);
  g_assert_cmpuint (total, <=, MAX_TOTAL);
}

static void
drain (Reader *reader, const ArchiveListing *listing)
{
  static guint8 buffer[65536];
  const ArchiveEntry *entry = NULL;
  g_autoptr (ArchiveStream) stream = archive_stream_new (NULL, reader, listing, NULL);
  while (stream != NULL && archive_stream_next (stream, &entry, NULL) && entry != NULL)
    {
      guint64 total = 0;
      gssize got;
      while ((got = archive_stream_read (stream, buffer, sizeof buffer, NULL)) > 0)
        total += (guint64) got;
      g_assert_true (got < 0 || total == entry->size_bytes);
      if (got < 0)
        return;
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  g_autoptr (Reader) reader = reader_new_bytes (bytes);
  g_autoptr (GError) error = NULL;
  g_autoptr (ArchiveListing) listing = archive_list (NULL, reader, MAX_TOTAL, 1000, &error);
  if (listing == NULL)
    {
      g_assert_nonnull (am_error_reason (error));
      return 0;
    }
  check_listing (listing);
  drain (reader, listing);
  return 0;
}
