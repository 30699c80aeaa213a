#include "publish/archive_source.h"

#include <string.h>

#include "base/error.h"

#define BLOCK 512
#define N_FILES 3u
#define MIB (1u << 20)

static const guint sizes[N_FILES] = { 3 * MIB + 7, 40, 34 * MIB };

/* Byte `i` of file `no`. */
static guint8
byte_of (guint no, guint64 i)
{
  return (guint8) ((i * 2654435761u) >> 13) ^ (guint8) (no * 37);
}

static void
add_file (GByteArray *tar, guint no)
{
  char header[BLOCK] = "";
  guint sum = 0;
  g_snprintf (header, 100, "top/file-%u", no);
  memcpy (header + 100, "0000644\0000000000\0000000000\0", 24);
  g_snprintf (header + 124, 12, "%011o", sizes[no]);
  memcpy (header + 136, "00000000000", 12);
  memset (header + 148, ' ', 8);
  header[156] = '0';
  memcpy (header + 257, "ustar\00000", 8);
  for (guint i = 0; i < BLOCK; i++)
    sum += (guint8) header[i];
  g_snprintf (header + 148, 8, "%06o", sum);
  g_byte_array_append (tar, (const guint8 *) header, BLOCK);
  guint start = tar->len;
  g_byte_array_set_size (tar, start + (sizes[no] + BLOCK - 1) / BLOCK * BLOCK);
  memset (tar->data + start, 0, tar->len - start);
  for (guint i = 0; i < sizes[no]; i++)
    tar->data[start + i] = byte_of (no, i);
}

static ModelSource *
open_source (gsize cut_bytes, GError **error)
{
  static const guint8 end[2 * BLOCK] = { 0 };
  GByteArray *tar = g_byte_array_new ();
  for (guint i = 0; i < N_FILES; i++)
    add_file (tar, i);
  g_byte_array_append (tar, end, sizeof end);
  g_byte_array_set_size (tar, tar->len - (guint) cut_bytes);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (tar);
  return archive_source_open (NULL, reader_new_bytes (bytes), "model.tar", error);
}

static void
check_read (ModelSource *source, Reader *reader, guint no, guint64 offset, guint size)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *buffer = g_malloc (size);
  g_assert_true (reader_read_at (NULL, reader, offset, buffer, size, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < size; i++)
    if (buffer[i] != byte_of (no, offset + i))
      g_error ("byte %u of %u at %" G_GUINT64_FORMAT " of file %u", i, size, offset, no);
}

static Reader *
open_file (ModelSource *source, guint no)
{
  g_autoptr (GError) error = NULL;
  Reader *reader = model_source_open (source, g_array_index (source->files, SourceFile, no).path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (reader->size_bytes, ==, sizes[no]);
  return reader;
}

/* Whatever the order: several files at once, back and forth, across what was kept of their beginnings. */
static void
test_any_order (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSource) source = open_source (0, &error);
  g_assert_no_error (error);
  g_assert_true (source->is_sequential);
  g_assert_cmpuint (source->files->len, ==, N_FILES);
  g_assert_cmpstr (g_array_index (source->files, SourceFile, 0).path, ==, "file-0");
  Reader *readers[N_FILES];
  for (guint i = 0; i < N_FILES; i++)
    readers[i] = open_file (source, i);
  check_read (source, readers[2], 2, 0, 2 * MIB);
  check_read (source, readers[2], 2, 33 * MIB, 100);
  check_read (source, readers[0], 0, MIB - 5, 10);
  check_read (source, readers[0], 0, sizes[0] - 1, 1);
  check_read (source, readers[1], 1, 0, sizes[1]);
  for (guint i = 0; i < 20; i++)
    {
      guint no = (guint) g_test_rand_int_range (0, N_FILES);
      guint64 offset = (guint64) g_test_rand_int_range (0, (gint32) sizes[no]);
      check_read (source, readers[no], no, offset, (guint) MIN (sizes[no] - offset, 70000));
    }
  for (guint i = 0; i < N_FILES; i++)
    reader_free (readers[i]);
}

static void
test_missing (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSource) source = open_source (0, &error);
  g_assert_null (model_source_open (source, "file-9", &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
}

static void
test_cut (void)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (open_source (3 * BLOCK, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/archive-source/any-order", test_any_order);
  g_test_add_func ("/archive-source/missing", test_missing);
  g_test_add_func ("/archive-source/cut", test_cut);
  return g_test_run ();
}
