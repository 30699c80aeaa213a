#include "storage/storage_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "storage/object_store_fault.h"
#include "storage/object_store_fs.h"

void
storage_fixture_set_up (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  self->dir = g_dir_make_tmp ("store-XXXXXX", &error);
  g_assert_no_error (error);
  self->fs = object_store_fs_new (self->dir, TRUE, &error);
  g_assert_no_error (error);
  self->objects = object_store_fault_new (self->fs);
  self->blobs = blob_store_new (self->objects);
}

void
storage_fixture_set_up_far (StorageFixture *self, gconstpointer data)
{
  storage_fixture_set_up (self, data);
  blob_store_free (self->blobs);
  object_store_fault_set_far (self->objects);
  self->blobs = blob_store_new (self->objects);
}

void
storage_fixture_tear_down (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  blob_store_free (self->blobs);
  object_store_free (self->objects);
  object_store_free (self->fs);
  file_remove_tree (self->dir, &error);
  g_assert_no_error (error);
  g_free (self->dir);
}

static guint32
next_random (guint64 *state)
{
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  guint32 x = (guint32) (*state >> 32);
  return (x ^ x >> 15) * 2246822519u;
}

/* Sum of four uniform numbers: bell-shaped enough for exponents to behave like those of weights. */
static float
next_weight (guint64 *state)
{
  float sum = 0;
  for (guint i = 0; i < 4; i++)
    sum += (float) next_random (state) / 4294967296.0f - 0.5f;
  return sum * 0.05f;
}

static void
fill_numbers (guint64 *state, guint unit_bytes, guint8 *out, gsize size)
{
  for (gsize i = 0; i < size; i += unit_bytes)
    {
      float value = next_weight (state);
      guint8 bytes[4];
      guint32 bits;
      memcpy (&bits, &value, sizeof bits);
      /* The upper bytes are the number in a shorter format; one byte: sign, exponent's low bits, mantissa. */
      bits = unit_bytes == 2 ? bits >> 16 : unit_bytes == 1 ? (bits >> 24 & 0x80) | (bits >> 20 & 0x7f) : bits;
      bits = GUINT32_TO_LE (bits);
      memcpy (bytes, &bits, sizeof bytes);
      memcpy (out + i, bytes, MIN (unit_bytes, size - i));
    }
}

void
fixture_fill (BytesKind kind, guint seed, guint8 *out, gsize size)
{
  static const char words[] = "the model weights are stored in chunks and every chunk has a digest of its own ";
  guint64 state = seed * 7919ull + 12345;
  if (kind == BYTES_BF16 || kind == BYTES_F32 || kind == BYTES_F8)
    fill_numbers (&state, kind == BYTES_BF16 ? 2 : kind == BYTES_F32 ? 4 : 1, out, size);
  else
    for (gsize i = 0; i < size; i++)
      out[i] = kind == BYTES_RANDOM ? (guint8) (next_random (&state) >> 9)
               : kind == BYTES_TEXT ? (guint8) words[(i + next_random (&state) % 3) % (sizeof words - 1)]
                                    : 0;
}

GBytes *
fixture_bytes (BytesKind kind, guint seed, gsize size)
{
  guint8 *data = g_malloc (size + 1);
  fixture_fill (kind, seed, data, size);
  return g_bytes_new_take (data, size);
}

GBytes *
fixture_safetensors (guint seed, const char *dtype, guint unit_bytes, const gsize *sizes, guint n_sizes,
                     gsize header_bytes)
{
  g_autoptr (GString) header = g_string_new ("{");
  gsize offset = 0;
  for (guint i = 0; i < n_sizes; i++)
    {
      g_assert_cmpuint (sizes[i] % unit_bytes, ==, 0);
      g_string_append_printf (header, "%s\"t%03u\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
                              i > 0 ? "," : "", i, dtype, sizes[i] / unit_bytes, offset, offset + sizes[i]);
      offset += sizes[i];
    }
  g_string_append_c (header, '}');
  while (header->len % 8 != 0 || header->len < header_bytes)
    g_string_append_c (header, ' ');
  guint64 n_header = GUINT64_TO_LE (header->len);
  GByteArray *file = g_byte_array_new ();
  g_byte_array_append (file, (const guint8 *) &n_header, sizeof n_header);
  g_byte_array_append (file, (const guint8 *) header->str, (guint) header->len);
  guint start = file->len;
  g_byte_array_set_size (file, start + (guint) offset);
  gsize at = start;
  for (guint i = 0; i < n_sizes; at += sizes[i], i++)
    fixture_fill (unit_bytes == 4   ? BYTES_F32
                  : unit_bytes == 2 ? BYTES_BF16
                                    : BYTES_F8,
                  seed * 1000 + i, file->data + at, sizes[i]);
  return g_byte_array_free_to_bytes (file);
}

void
fixture_put (ObjectStore *objects, const char *key, const char *content)
{
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (object_store_put (NULL, objects, key, content, strlen (content), OBJECT_COMMIT_DEFAULT, &error),
                     error);
}

char *
fixture_get (ObjectStore *objects, const char *key)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = object_store_get (NULL, objects, key, 1 << 20, &error);
  if (bytes == NULL)
    {
      g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
      return NULL;
    }
  return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

char *
fixture_list (ObjectStore *objects, const char *prefix, guint page_size)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *after = NULL;
  for (;;)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) page = object_store_list (NULL, objects, prefix, after, page_size, &error);
      g_assert_no_error (error);
      if (page->len == 0)
        return g_string_free (g_steal_pointer (&text), FALSE);
      g_assert_cmpuint (page->len, <=, page_size);
      for (guint i = 0; i < page->len; i++)
        {
          const ObjectInfo *info = g_ptr_array_index (page, i);
          g_string_append_printf (text, "%s%s", text->len > 0 ? " " : "", info->key);
          g_free (after);
          after = g_strdup (info->key);
        }
    }
}

guint
fixture_count (ObjectStore *objects, const char *prefix)
{
  g_autofree char *keys = fixture_list (objects, prefix, 1000);
  g_auto (GStrv) parts = g_strsplit (keys, " ", -1);
  return g_strv_length (parts);
}

char *
fixture_path (const StorageFixture *self, const char *key)
{
  return g_strdup_printf ("%s/%s", self->dir, key);
}

void
fixture_age (const StorageFixture *self, const char *prefix, guint hours)
{
  g_autofree char *keys = fixture_list (self->fs, prefix, 1000);
  g_auto (GStrv) parts = g_strsplit (keys, " ", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      g_autofree char *path = fixture_path (self, parts[i]);
      struct stat info;
      g_assert_cmpint (stat (path, &info), ==, 0);
      struct timespec times[2] = { info.st_atim, info.st_mtim };
      times[1].tv_sec -= (time_t) hours * 3600;
      g_assert_cmpint (utimensat (AT_FDCWD, path, times, 0), ==, 0);
    }
}

void
fixture_flip (const StorageFixture *self, const char *key, gsize offset, guint8 mask)
{
  g_autofree char *path = fixture_path (self, key);
  g_autofree char *content = NULL;
  gsize size;
  g_assert_true (g_file_get_contents (path, &content, &size, NULL));
  g_assert_cmpuint (offset, <, size);
  content[offset] = (char) (content[offset] ^ (char) mask);
  g_assert_true (g_file_set_contents (path, content, (gssize) size, NULL));
}

Digest
fixture_digest (GBytes *bytes, DigestAlgorithm algorithm)
{
  Digest digest;
  digest_of (algorithm, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), &digest);
  return digest;
}

ChunkDigest
fixture_chunk_digest (gconstpointer data, gsize size)
{
  ChunkDigest digest;
  blake3_of (data, size, digest.bytes);
  return digest;
}

Digest
fixture_upload (const StorageFixture *self, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, "library/test");
  fixture_assert_ok (
    upload_session_write (NULL, session, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), &error), error);
  fixture_assert_ok (upload_session_finish (NULL, session, &digest, &error), error);
  return digest;
}

void
fixture_assert_blob (const StorageFixture *self, const Digest *digest, GBytes *wanted)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = blob_store_get (NULL, self->blobs, digest, G_MAXSIZE - 1, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (bytes, wanted));
}

void
fixture_assert_error (GError **error, AmErrorCode code, const char *reason)
{
  g_assert_error (*error, AM_ERROR, (int) code);
  g_assert_cmpstr (am_error_reason (*error), ==, reason);
  g_clear_error (error);
}

int
fixture_fork (int (*func) (gpointer data), gpointer data)
{
  int status = 0;
  pid_t pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    _exit (func (data));
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  return WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status);
}
