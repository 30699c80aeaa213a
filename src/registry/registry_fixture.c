#include "registry/registry_fixture.h"

#include <string.h>

#include "base/file.h"
#include "oci/manifest.h"
#include "storage/object_store_fs.h"

void
store_fixture_init (StoreFixture *self)
{
  g_autoptr (GError) error = NULL;
  self->root = g_dir_make_tmp ("registry-XXXXXX", &error);
  g_assert_no_error (error);
  self->objects = object_store_fs_new (self->root, TRUE, &error);
  g_assert_no_error (error);
  self->blobs = blob_store_new (self->objects);
}

void
store_fixture_clear (StoreFixture *self)
{
  blob_store_free (self->blobs);
  object_store_free (self->objects);
  g_assert_true (file_remove_tree (self->root, NULL));
  g_free (self->root);
}

guint
store_fixture_count (StoreFixture *self, const char *prefix)
{
  guint n = 0;
  g_autofree char *after = NULL;
  while (TRUE)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) page = object_store_list (NULL, self->objects, prefix, after, 1000, &error);
      g_assert_no_error (error);
      if (page->len == 0)
        return n;
      n += page->len;
      g_free (after);
      after = g_strdup (((ObjectInfo *) g_ptr_array_index (page, page->len - 1))->key);
    }
}

static guint64
next_random (guint64 *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void
fill_tensor (guint8 *out, gsize size, guint seed, guint index)
{
  guint64 state = 88172645463325252ull + seed * 7919ull + index * 104729ull;
  for (gsize i = 0; i + 1 < size; i += 2)
    {
      guint64 random = next_random (&state);
      out[i] = (guint8) random;
      out[i + 1] = (guint8) (0x3c + (__builtin_ctzll (random | 0x100) & 3)); /* few exponents */
    }
}

GBytes *
fixture_model (guint n_tensors, gsize tensor_bytes, guint seed, guint64 changed)
{
  g_autoptr (GString) header = g_string_new ("{");
  for (guint i = 0; i < n_tensors; i++)
    g_string_append_printf (header, "%s\"t%u\":{\"dtype\":\"BF16\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
                            i > 0 ? "," : "", i, tensor_bytes / 2, i * tensor_bytes, (i + 1) * tensor_bytes);
  g_string_append_c (header, '}');
  while (header->len % 8 != 0)
    g_string_append_c (header, ' ');
  gsize size = 8 + header->len + n_tensors * tensor_bytes;
  guint8 *bytes = g_malloc (size);
  guint64 length = GUINT64_TO_LE (header->len);
  memcpy (bytes, &length, 8);
  memcpy (bytes + 8, header->str, header->len);
  for (guint i = 0; i < n_tensors; i++)
    fill_tensor (bytes + 8 + header->len + i * tensor_bytes, tensor_bytes,
                 (changed >> i & 1) != 0 ? seed + 1000 : seed, i);
  return g_bytes_new_take (bytes, size);
}

GBytes *
fixture_noise (gsize size, guint seed)
{
  guint64 state = 0x9e3779b97f4a7c15ull + seed;
  guint8 *bytes = g_malloc (size + 8);
  for (gsize i = 0; i < size; i += 8)
    {
      guint64 random = next_random (&state);
      memcpy (bytes + i, &random, 8);
    }
  return g_bytes_new_take (bytes, size);
}

void
fixture_digest (GBytes *bytes, Digest *out_digest)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  digest_of (DIGEST_SHA256, data, size, out_digest);
}

static char *
descriptor_text (const char *type, GBytes *bytes)
{
  Digest digest;
  char text[DIGEST_STRING_SIZE];
  fixture_digest (bytes, &digest);
  return g_strdup_printf ("{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu}", type,
                          digest_format (&digest, text), g_bytes_get_size (bytes));
}

GBytes *
fixture_manifest (GBytes *config, GBytes *layer, const Digest *subject, const char *note)
{
  g_autofree char *config_text = descriptor_text (MODEL_CONFIG, config);
  g_autofree char *layer_text = layer == NULL ? g_strdup ("") : descriptor_text ("application/octet-stream", layer);
  g_autofree char *subject_text = NULL;
  char digest[DIGEST_STRING_SIZE];
  if (subject != NULL)
    subject_text = g_strdup_printf (",\"subject\":{\"mediaType\":\"" OCI_MANIFEST "\",\"digest\":\"%s\",\"size\":1}",
                                    digest_format (subject, digest));
  char *text = g_strdup_printf ("{\"schemaVersion\":2,\"mediaType\":\"" OCI_MANIFEST "\",\"artifactType\":\"x/%s\","
                                "\"config\":%s,\"layers\":[%s]%s}",
                                note != NULL ? note : "y", config_text, layer_text,
                                subject_text != NULL ? subject_text : "");
  return g_bytes_new_take (text, strlen (text));
}

gboolean
fixture_append (Ctx *ctx, gpointer byte_array, gconstpointer bytes, gsize size, GError **error)
{
  g_byte_array_append (byte_array, bytes, (guint) size);
  return TRUE;
}

void
chunk_collector_init (ChunkCollector *self, gsize size)
{
  memset (self, 0, sizeof *self);
  g_mutex_init (&self->lock);
  self->bytes = g_byte_array_new ();
  g_byte_array_set_size (self->bytes, (guint) size);
  memset (self->bytes->data, 0, size);
  self->seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
}

void
chunk_collector_clear (ChunkCollector *self)
{
  g_mutex_clear (&self->lock);
  g_byte_array_unref (self->bytes);
  g_hash_table_unref (self->seen);
}

gboolean
chunk_collector_take (Ctx *ctx, gpointer data, guint64 offset_bytes, const guint8 *bytes, gsize size, GError **error)
{
  ChunkCollector *self = data;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gint64 *key = g_new (gint64, 1);
  *key = (gint64) offset_bytes;
  self->n_chunks++;
  if (!g_hash_table_add (self->seen, key))
    self->n_again++;
  g_assert_cmpuint (offset_bytes + size, <=, self->bytes->len);
  memcpy (self->bytes->data + offset_bytes, bytes, size);
  return TRUE;
}

void
fixture_progress (guint64 logical_bytes, guint64 moved_bytes, gpointer data)
{
  FixtureProgress *self = data;
  g_atomic_pointer_add (&self->logical, (gssize) logical_bytes);
  g_atomic_pointer_add (&self->moved, (gssize) moved_bytes);
}

typedef struct {
  Reader base;
  GBytes *bytes;
  gboolean (*before) (guint64 offset_bytes, gpointer data, GError **error);
  gpointer data;
} WatchedReader;

static gboolean
watched_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  WatchedReader *self = (WatchedReader *) base;
  if (!self->before (offset_bytes, self->data, error))
    return FALSE;
  memcpy (buffer, (const guint8 *) g_bytes_get_data (self->bytes, NULL) + offset_bytes, size);
  return TRUE;
}

static void
watched_free (Reader *base)
{
  g_bytes_unref (((WatchedReader *) base)->bytes);
  g_free (base);
}

Reader *
fixture_watched_reader (GBytes *bytes, gboolean (*before) (guint64 offset_bytes, gpointer data, GError **error),
                        gpointer data)
{
  static const ReaderClass klass = { watched_read_at, watched_free };
  WatchedReader *self = g_new0 (WatchedReader, 1);
  self->base.klass = &klass;
  self->base.size_bytes = g_bytes_get_size (bytes);
  self->bytes = g_bytes_ref (bytes);
  self->before = before;
  self->data = data;
  return &self->base;
}
