/* Uploaded archives: tar, tar + gzip, tar + zstd, zip (zip64 too), told apart by content. Listed first,
 * then streamed in the archive's order; every name and size is checked before a byte is used
 * (publication-pipeline.md "Upload and archives", pitfalls-sources.md 25, 87, 88). Refused: absolute
 * names, "..", links, devices, sparse files, names twice, a file used as a folder, encryption, bombs.
 * A single top-level folder is stripped. Used by publish/ and the local commands. Not thread-safe. */
#pragma once

#include "base/reader.h"

typedef enum { ARCHIVE_TAR, ARCHIVE_TAR_GZIP, ARCHIVE_TAR_ZSTD, ARCHIVE_ZIP } ArchiveKind;

#define ARCHIVE_MAX_ENTRIES 100000
#define ARCHIVE_MAX_RATIO 1000                      /* unpacked : packed ... */
#define ARCHIVE_RATIO_FREE_BYTES (64 * 1024 * 1024) /* ... beyond this much */

typedef struct {
  const char *path; /* safe and relative (path_is_safe), top folder stripped */
  guint64 size_bytes;
  GBytes *head; /* its first bytes, as far as they were kept; or NULL */
} ArchiveEntry;

typedef struct {
  ArchiveKind kind;
  GArray *entries; /* of ArchiveEntry: the regular files, in the archive's order; at least one */
  guint64 total_bytes;
  char *top_folder; /* what was stripped, without slash; NULL when nothing was */
  GStringChunk *strings;
} ArchiveListing;

/* TRUE when the bytes (at least the first SNIFF_BYTES of a file) begin an archive of a kind above. A tar
 * without "ustar" magic is recognised by its checksum. */
gboolean archive_detect (const guint8 *head, gsize size, ArchiveKind *out_kind);

/* Reads all headers (a compressed tar is decompressed on the way). `max_total_bytes` bounds the sum of
 * all files. Of each file the beginning is kept, all of the small ones, as long as it fits into `heads_bytes` (0: nothing
 * is): what is looked at before a model is taken need not be unpacked twice. INVALID_ARGUMENT with reason FormatInvalid or ArchiveRejected; RESOURCE_EXHAUSTED with
 * reason FormatLimitExceeded; the reader's errors. Blocks. */
ArchiveListing *archive_list (Ctx *ctx, Reader *reader, guint64 max_total_bytes, gsize heads_bytes, GError **error);
void archive_listing_free (ArchiveListing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ArchiveListing, archive_listing_free)

/* The second pass over the same bytes; `reader` and `listing` must outlive it. */
typedef struct ArchiveStream ArchiveStream;
ArchiveStream *archive_stream_new (Ctx *ctx, Reader *reader, const ArchiveListing *listing, GError **error);
void archive_stream_free (ArchiveStream *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ArchiveStream, archive_stream_free)
/* From here on `ctx` bounds the reading; it must outlive that. */
void archive_stream_set_ctx (ArchiveStream *self, Ctx *ctx);
/* Moves to the next file, whatever is left of the present one. `*out_entry` is the listing's, NULL at the
 * end. An archive that no longer agrees with its listing is INVALID_ARGUMENT. */
gboolean archive_stream_next (ArchiveStream *self, const ArchiveEntry **out_entry, GError **error);
/* Up to `size` bytes of the present file; 0 at its end, -1 on errors. A file that ends before or after
 * its declared size is INVALID_ARGUMENT. */
gssize archive_stream_read (ArchiveStream *self, gpointer buffer, gsize size, GError **error);
