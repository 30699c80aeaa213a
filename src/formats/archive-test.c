#include "formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <string.h>

#include "formats/formats_fixture.h"

#define HEADS_BYTES 12 /* so few that not all fit */
#define NO_LIMIT (1ull << 40)

/* An archive made by libarchive's writer. */
typedef struct {
  struct archive *lib;
  GByteArray *bytes;
} Maker;

static la_ssize_t
on_write (struct archive *lib, void *data, const void *block, size_t size)
{
  g_byte_array_append (data, block, (guint) size);
  return (la_ssize_t) size;
}

static Maker *
maker_new (ArchiveKind kind)
{
  Maker *self = g_new0 (Maker, 1);
  self->bytes = g_byte_array_new ();
  self->lib = archive_write_new ();
  if (kind == ARCHIVE_ZIP)
    archive_write_set_format_zip (self->lib);
  else
    archive_write_set_format_pax_restricted (self->lib);
  if (kind == ARCHIVE_TAR_GZIP)
    archive_write_add_filter_gzip (self->lib);
  if (kind == ARCHIVE_TAR_ZSTD)
    archive_write_add_filter_zstd (self->lib);
  archive_write_set_bytes_in_last_block (self->lib, 1);
  g_assert_cmpint (archive_write_open (self->lib, self->bytes, NULL, on_write, NULL), ==, ARCHIVE_OK);
  return self;
}

/* `target` of a link, or NULL. */
static void
maker_add (Maker *self, const char *path, unsigned type, const char *target, const void *data, gsize size)
{
  struct archive_entry *entry = archive_entry_new ();
  locale_t utf8 = newlocale (LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0), previous = uselocale (utf8);
  archive_entry_set_pathname_utf8 (entry, path);
  archive_entry_set_filetype (entry, type);
  archive_entry_set_perm (entry, 0644);
  archive_entry_set_size (entry, (la_int64_t) size);
  if (type == AE_IFLNK)
    archive_entry_set_symlink (entry, target);
  else if (target != NULL)
    archive_entry_set_hardlink (entry, target);
  g_assert_cmpint (archive_write_header (self->lib, entry), >=, ARCHIVE_WARN);
  if (size > 0)
    g_assert_cmpint (archive_write_data (self->lib, data, size), ==, (la_ssize_t) size);
  archive_entry_free (entry);
  uselocale (previous); /* what is tested runs without */
  freelocale (utf8);
}

static void
maker_file (Maker *self, const char *path, const char *text)
{
  maker_add (self, path, AE_IFREG, NULL, text, strlen (text));
}

static GBytes *
maker_finish (Maker *self)
{
  g_assert_cmpint (archive_write_free (self->lib), ==, ARCHIVE_OK);
  GBytes *bytes = g_byte_array_free_to_bytes (self->bytes);
  g_free (self);
  return bytes;
}

/* All of a small file was kept, while there was room. */
static void
check_head (const ArchiveEntry *entry, const char *content, gsize *left)
{
  gsize size = (gsize) entry->size_bytes;
  g_assert_true ((entry->head != NULL) == (size > 0 && size <= *left));
  if (entry->head == NULL)
    return;
  g_assert_cmpmem (g_bytes_get_data (entry->head, NULL), g_bytes_get_size (entry->head), content, size);
  *left -= size;
}

/* "path=text;" for each file, in order; NULL with the error. */
static char *
unpack (GBytes *bytes, guint64 max_total_bytes, char **out_top, GError **error)
{
  g_autoptr (Reader) reader = reader_new_bytes (bytes);
  g_autoptr (GString) all = g_string_new (NULL);
  const ArchiveEntry *entry;
  gsize left = HEADS_BYTES;
  g_autoptr (ArchiveListing) listing = archive_list (NULL, reader, max_total_bytes, HEADS_BYTES, error);
  if (listing == NULL)
    return NULL;
  if (out_top != NULL)
    *out_top = g_strdup (listing->top_folder);
  g_autoptr (ArchiveStream) stream = archive_stream_new (NULL, reader, listing, error);
  while (stream != NULL)
    {
      char buffer[7];
      gssize got = 0;
      if (!archive_stream_next (stream, &entry, error))
        return NULL;
      if (entry == NULL)
        return g_string_free (g_steal_pointer (&all), FALSE);
      g_string_append_printf (all, "%s=", entry->path);
      gsize start = all->len;
      while ((got = archive_stream_read (stream, buffer, sizeof buffer, error)) > 0)
        g_string_append_len (all, buffer, got);
      if (got < 0)
        return NULL;
      check_head (entry, all->str + start, &left);
      g_string_append_c (all, ';');
    }
  return NULL;
}

static void
expect_content (GBytes *bytes, const char *content, const char *top)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *found_top = NULL;
  g_autofree char *found = unpack (bytes, NO_LIMIT, &found_top, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (found, ==, content);
  g_assert_cmpstr (found_top, ==, top);
  g_bytes_unref (bytes);
}

static void
expect_error (GBytes *bytes, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *found = unpack (bytes, NO_LIMIT, NULL, &error);
  g_assert_null (found);
  fixture_assert_error (&error, part);
  g_bytes_unref (bytes);
}

static const ArchiveKind kinds[] = { ARCHIVE_TAR, ARCHIVE_TAR_GZIP, ARCHIVE_TAR_ZSTD, ARCHIVE_ZIP };

static void
test_good (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      Maker *maker = maker_new (kinds[i]);
      maker_add (maker, "model/", AE_IFDIR, NULL, NULL, 0);
      maker_file (maker, "model/config.json", "{}");
      maker_file (maker, "model/sub/empty", "");
      maker_file (maker, "model/\xd0\xb9.safetensors", "0123456789");
      maker_file (maker, "__MACOSX/model/._config.json", "x");
      expect_content (maker_finish (maker),
                      "config.json={};sub/empty=;\xd0\xb9.safetensors=0123456789;"
                      "__MACOSX/model/._config.json=x;",
                      "model");
      maker = maker_new (kinds[i]);
      maker_file (maker, "./a/config.json", "{}");
      maker_file (maker, "./ab/x", "y");
      expect_content (maker_finish (maker), "a/config.json={};ab/x=y;", NULL);
      maker = maker_new (kinds[i]);
      maker_file (maker, "only.gguf", "GGUF");
      expect_content (maker_finish (maker), "only.gguf=GGUF;", NULL);
    }
}

static GBytes *
with_entry (ArchiveKind kind, const char *path, unsigned type, const char *target)
{
  Maker *maker = maker_new (kind);
  maker_file (maker, "config.json", "{}");
  maker_add (maker, path, type, target, "x", type == AE_IFREG && target == NULL ? 1 : 0);
  return maker_finish (maker);
}

static void
test_hostile_entries (void)
{
  static const struct {
    const char *path;
    unsigned type;
    const char *target, *part;
  } cases[] = {
    { "../evil", AE_IFREG, NULL, "unsafe name" },
    { "a/../../evil", AE_IFREG, NULL, "unsafe name" },
    { "/etc/evil", AE_IFREG, NULL, "unsafe name" },
    { "a\\..\\evil", AE_IFREG, NULL, "unsafe name" },
    { "a//b", AE_IFREG, NULL, "unsafe name" },
    { "a\nb", AE_IFREG, NULL, "unsafe name" },
    { "link", AE_IFLNK, "config.json", "link" },
    { "link", AE_IFLNK, "/etc/passwd", "link" },
    { "config.json", AE_IFREG, NULL, "twice" },
    { "./config.json", AE_IFREG, NULL, "twice" },
    { "config.json/x", AE_IFREG, NULL, "both a file and a folder" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    for (guint j = 0; j < G_N_ELEMENTS (cases); j++)
      {
        g_autofree char *shown = g_strescape (cases[j].path, NULL);
        g_test_message ("%d %s", kinds[i], shown);
        expect_error (with_entry (kinds[i], cases[j].path, cases[j].type, cases[j].target), cases[j].part);
      }
  expect_error (with_entry (ARCHIVE_TAR, "hard", AE_IFREG, "config.json"), "link");
  expect_error (with_entry (ARCHIVE_TAR, "pipe", AE_IFIFO, NULL), "device");
  expect_error (with_entry (ARCHIVE_TAR, "disk", AE_IFBLK, NULL), "device");
  expect_error (with_entry (ARCHIVE_TAR, "char", AE_IFCHR, NULL), "device");
  g_autofree char *long_name = g_strnfill (256, 'n');
  expect_error (with_entry (ARCHIVE_TAR, long_name, AE_IFREG, NULL), "unsafe name");
}

static void
test_truncation (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      Maker *maker = maker_new (kinds[i]);
      maker_file (maker, "a", "first");
      maker_file (maker, "b", "second");
      g_autoptr (GBytes) whole = maker_finish (maker);
      gsize size = g_bytes_get_size (whole);
      /* A tar ends with one block of zeros at least; libarchive writes more, which may be cut. */
      gsize least = kinds[i] == ARCHIVE_TAR ? 5 * 512 : kinds[i] == ARCHIVE_ZIP ? size : size - 16;
      for (gsize cut = 0; cut < least; cut++)
        {
          g_autoptr (GError) error = NULL;
          g_autoptr (GBytes) part = g_bytes_new_from_bytes (whole, 0, cut);
          g_autofree char *found = unpack (part, NO_LIMIT, NULL, &error);
          if (found != NULL)
            g_error ("kind %u, cut at %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT ": %s", kinds[i], cut, size, found);
          g_assert_nonnull (error);
        }
    }
}

static void
test_other_content (void)
{
  expect_error (fixture_text (""), "not an archive");
  expect_error (fixture_text ("<!doctype html><html>"), "web page");
  expect_error (fixture_text ("BZh91AY&SY"), "bzip2");
  expect_error (fixture_text ("Rar!\x1a\x07\x01"), "RAR");
  expect_error (gguf_builder_finish (gguf_builder_new (3, 0, 0), 1, 0), "GGUF");
  expect_error (maker_finish (maker_new (ARCHIVE_ZIP)), "empty or damaged");
  Maker *maker = maker_new (ARCHIVE_TAR);
  maker_add (maker, "folder/", AE_IFDIR, NULL, NULL, 0);
  expect_error (maker_finish (maker), "no files");
  /* gzip and zstd around no tar, a zip within gzip */
  static const guint8 text_gz[] = { 0x1f, 0x8b, 8, 0, 0,    0,    0,    0,    2, 3, 0xcb, 0x48, 0xcd,
                                    0xc9, 0xc9, 7, 0, 0x86, 0xa6, 0x10, 0x36, 5, 0, 0,    0 };
  expect_error (g_bytes_new (text_gz, sizeof text_gz), "no tar archive inside the gzip data");
}

static void
test_limits (void)
{
  g_autoptr (GError) error = NULL;
  Maker *maker = maker_new (ARCHIVE_TAR);
  maker_file (maker, "a", "12345");
  maker_file (maker, "b", "67890");
  g_autoptr (GBytes) small = maker_finish (maker);
  g_autofree char *fits = unpack (small, 10, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (fits, ==, "a=12345;b=67890;");
  g_assert_null (unpack (small, 9, NULL, &error));
  g_assert_true (am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED));
  fixture_assert_error (&error, "more than 9 bytes");
  gsize bomb_size = ARCHIVE_RATIO_FREE_BYTES + 4096;
  g_autofree guint8 *zeros = g_malloc0 (bomb_size);
  static const ArchiveKind packed[] = { ARCHIVE_TAR_ZSTD, ARCHIVE_TAR_GZIP, ARCHIVE_ZIP };
  for (guint i = 0; i < G_N_ELEMENTS (packed); i++)
    {
      maker = maker_new (packed[i]);
      maker_add (maker, "bomb", AE_IFREG, NULL, zeros, bomb_size);
      g_autoptr (GBytes) bomb = maker_finish (maker);
      g_autofree char *found = unpack (bomb, NO_LIMIT, NULL, &error);
      gboolean over = bomb_size / ARCHIVE_MAX_RATIO >= g_bytes_get_size (bomb);
      g_assert_true (over ? found == NULL : found != NULL);
      if (over)
        fixture_assert_error (&error, "times its size");
    }
}

static void
test_many_entries (void)
{
  Maker *maker = maker_new (ARCHIVE_TAR_GZIP);
  for (guint i = 0; i <= ARCHIVE_MAX_ENTRIES; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);
      maker_file (maker, name, "");
    }
  expect_error (maker_finish (maker), "more than 100000 entries");
}

/* A zip of one stored file, "content1", written by hand: each header says what it is told to. */
typedef struct {
  const char *name; /* 8 bytes */
  guint32 crc, packed_size, size;
  guint16 flags, method;
} ZipHeader;

#define CRC 0x2c2831cbu
#define FLAG_ENCRYPTED 1

static void
put_common (GByteArray *bytes, const ZipHeader *header)
{
  gguf_builder_u16 (bytes, 20);
  gguf_builder_u16 (bytes, header->flags);
  gguf_builder_u16 (bytes, header->method);
  gguf_builder_u32 (bytes, 0x21 << 16);
  gguf_builder_u32 (bytes, header->crc);
  gguf_builder_u32 (bytes, header->packed_size);
  gguf_builder_u32 (bytes, header->size);
  gguf_builder_u16 (bytes, 8);
  gguf_builder_u16 (bytes, 0);
}

static GBytes *
hand_zip (const ZipHeader *local, const ZipHeader *central)
{
  GByteArray *bytes = g_byte_array_new ();
  gguf_builder_u32 (bytes, 0x04034b50);
  put_common (bytes, local);
  g_byte_array_append (bytes, (const guint8 *) local->name, 8);
  g_byte_array_append (bytes, (const guint8 *) "content1", 8);
  guint32 start = bytes->len;
  gguf_builder_u32 (bytes, 0x02014b50);
  gguf_builder_u16 (bytes, 20);
  put_common (bytes, central);
  for (guint i = 0; i < 14; i++) /* no comment, first disk, no attributes, local header at 0 */
    gguf_builder_u8 (bytes, 0);
  g_byte_array_append (bytes, (const guint8 *) central->name, 8);
  guint32 size = bytes->len - start;
  gguf_builder_u32 (bytes, 0x06054b50);
  gguf_builder_u32 (bytes, 0);
  gguf_builder_u32 (bytes, 1 << 16 | 1);
  gguf_builder_u32 (bytes, size);
  gguf_builder_u32 (bytes, start);
  gguf_builder_u16 (bytes, 0);
  return g_byte_array_free_to_bytes (bytes);
}

static void
expect_lie (ZipHeader local, ZipHeader central, const char *part)
{
  expect_error (hand_zip (&local, &central), part);
}

/* The same archive, told differently by its local headers and its central directory: sizes and checksum
 * must agree. (The name is the local header's in both passes.) */
static void
test_zip_lies (void)
{
  const ZipHeader good = { "name.bin", CRC, 8, 8, 0, 0 };
  expect_content (hand_zip (&good, &good), "name.bin=content1;", NULL);
  expect_lie ((ZipHeader){ "name.bin", CRC, 8, 7, 0, 0 }, good, "nconsistent");
  expect_lie (good, (ZipHeader){ "name.bin", CRC, 8, 9, 0, 0 }, "nconsistent");
  expect_lie (good, (ZipHeader){ "name.bin", CRC, 9, 8, 0, 0 }, "nconsistent");
  expect_lie ((ZipHeader){ "name.bin", 1, 8, 8, 0, 0 }, good, "nconsistent");
  expect_lie ((ZipHeader){ "name.bin", 1, 8, 8, 0, 0 }, (ZipHeader){ "name.bin", 1, 8, 8, 0, 0 }, "bad archive");
  expect_lie ((ZipHeader){ "name.bin", CRC, 8, 8, FLAG_ENCRYPTED, 0 },
              (ZipHeader){ "name.bin", CRC, 8, 8, FLAG_ENCRYPTED, 0 }, "encrypted");
  expect_lie ((ZipHeader){ "../../x1", CRC, 8, 8, 0, 0 }, good, "unsafe name");
  expect_lie ((ZipHeader){ "name.bin", CRC, 8, 8, 0, 8 }, (ZipHeader){ "name.bin", CRC, 8, 8, 0, 8 }, "bad archive");
  expect_lie ((ZipHeader){ "name.bin", CRC, 8, 9, 0, 0 }, (ZipHeader){ "name.bin", CRC, 8, 9, 0, 0 }, "bad archive");
  expect_lie ((ZipHeader){ "name.bin", CRC, 800, 800, 0, 0 }, (ZipHeader){ "name.bin", CRC, 800, 800, 0, 0 },
              "bad archive");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/archive/good", test_good);
  g_test_add_func ("/archive/hostile-entries", test_hostile_entries);
  g_test_add_func ("/archive/truncation", test_truncation);
  g_test_add_func ("/archive/other-content", test_other_content);
  g_test_add_func ("/archive/limits", test_limits);
  g_test_add_func ("/archive/many-entries", test_many_entries);
  g_test_add_func ("/archive/zip-lies", test_zip_lies);
  return g_test_run ();
}
