#include "storage/blob_private.h"

#include <string.h>

#include "base/blake3.h"
#include "base/recent.h"
#include "storage/chunk_reader.h"

#define WHOLE_LIMIT_BYTES (4u << 20)
/* What is remembered of a far store. */
#define RECIPES_MAX_BYTES (16u << 20)
#define UPLOADS_MAX_BYTES (1u << 20)

struct BlobStore {
  ObjectStore *objects;
  /* Of a far store, else NULL: what spares it questions. */
  ChunkHint *hint;
  Recent *recipes; /* by digest */
  Recent *uploads; /* by id: the repository */
};

BlobStore *
blob_store_new (ObjectStore *objects)
{
  BlobStore *self = g_new0 (BlobStore, 1);
  self->objects = objects;
  if (object_store_is_far (objects))
    {
      self->hint = chunk_hint_new ();
      self->recipes = recent_new (RECIPES_MAX_BYTES, -1);
      self->uploads = recent_new (UPLOADS_MAX_BYTES, -1);
    }
  return self;
}

void
blob_store_free (BlobStore *self)
{
  if (self == NULL)
    return;
  chunk_hint_free (self->hint);
  recent_free (self->recipes);
  recent_free (self->uploads);
  g_free (self);
}

ChunkHint *
blob_store_hint (BlobStore *self)
{
  return self->hint;
}

void
blob_store_stored_chunk (BlobStore *self, const guint8 digest[32])
{
  if (self->hint != NULL)
    chunk_hint_add (self->hint, digest);
}

char *
blob_store_upload_owner (BlobStore *self, const char *id)
{
  g_autoptr (GBytes) owner = self->uploads != NULL ? recent_get (self->uploads, id) : NULL;
  return owner != NULL ? g_strndup (g_bytes_get_data (owner, NULL), g_bytes_get_size (owner)) : NULL;
}

void
blob_store_saw_upload (BlobStore *self, const char *id, const char *repository)
{
  g_autoptr (GBytes) owner = g_bytes_new (repository, strlen (repository));
  if (self->uploads != NULL)
    recent_put (self->uploads, id, owner);
}

ObjectStore *
blob_store_objects (BlobStore *self)
{
  return self->objects;
}

static char *
blob_key (const Digest *digest, const char *leaf)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  digest_hex (digest, hex);
  return g_strdup_printf (BLOBS_PREFIX "%s/%.2s/%s/%s", digest_algorithm_name (digest->algorithm), hex, hex, leaf);
}

char *
blob_data_key (const Digest *digest)
{
  return blob_key (digest, "data");
}

char *
blob_recipe_key (const Digest *digest)
{
  return blob_key (digest, "recipe");
}

static gpointer
fail_unknown (GError **error, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  return am_fail_null (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "there is no blob %s",
                       digest_format (digest, text));
}

Recipe *
blob_store_read_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  g_autofree char *key = blob_recipe_key (digest);
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) bytes = object_store_get (ctx, self->objects, key, RECIPE_MAX_BYTES, &problem);
  if (bytes == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return fail_unknown (error, digest);
  if (bytes == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  Recipe *recipe = recipe_read (bytes, digest, error);
  if (recipe == NULL)
    g_prefix_error (error, "object %s: ", key);
  else if (self->recipes != NULL)
    recent_put (self->recipes, digest_format (digest, text), bytes);
  return recipe;
}

/* A recipe never changes: one that was read before is as good as any. */
Recipe *
blob_store_recall_recipe (BlobStore *self, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  g_autoptr (GBytes) bytes = self->recipes != NULL ? recent_get (self->recipes, digest_format (digest, text)) : NULL;
  return bytes != NULL ? recipe_read (bytes, digest, NULL) : NULL;
}

/* A far store is asked for the recipe first: that is what most who ask for one get. */
static Recipe *
recipe_from_afar (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  g_autoptr (GError) problem = NULL;
  gboolean whole = FALSE;
  Recipe *recipe = blob_store_recall_recipe (self, digest);
  if (recipe == NULL)
    recipe = blob_store_read_recipe (ctx, self, digest, &problem);
  if (recipe != NULL)
    return recipe;
  if (am_error_has_reason (problem, "BLOB_UNKNOWN")
      && (!object_store_exists (ctx, self->objects, key, &whole, error) || whole))
    return NULL;
  g_propagate_error (error, g_steal_pointer (&problem));
  return NULL;
}

Recipe *
blob_store_recipe (Ctx *ctx, BlobStore *self, const Digest *digest, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  gboolean whole = FALSE;
  if (object_store_is_far (self->objects))
    return recipe_from_afar (ctx, self, digest, error);
  if (!object_store_exists (ctx, self->objects, key, &whole, error) || whole)
    return NULL;
  return blob_store_read_recipe (ctx, self, digest, error);
}

gboolean
blob_store_stat (Ctx *ctx, BlobStore *self, const Digest *digest, BlobInfo *out_info, GError **error)
{
  g_autofree char *key = blob_data_key (digest);
  g_autoptr (GError) problem = NULL;
  ObjectInfo object;
  if (object_store_stat (ctx, self->objects, key, &object, &problem))
    {
      *out_info = (BlobInfo){ object.size_bytes, object.size_bytes, 0 };
      return TRUE;
    }
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_autoptr (Recipe) recipe = blob_store_read_recipe (ctx, self, digest, error);
  if (recipe == NULL)
    return FALSE;
  *out_info = (BlobInfo){ recipe->blob_size, recipe_encoded_bytes (recipe), recipe->entries->len };
  return TRUE;
}

gboolean
blob_store_put_whole (Ctx *ctx, BlobStore *self, const Digest *digest, GBytes *bytes, GError **error)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  Digest actual;
  g_assert (size <= WHOLE_LIMIT_BYTES);
  digest_of (digest->algorithm, data, size, &actual);
  if (!digest_equal (digest, &actual))
    {
      char wanted[DIGEST_STRING_SIZE], got[DIGEST_STRING_SIZE];
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the content's digest is %s, not %s",
                      digest_format (&actual, got), digest_format (digest, wanted));
    }
  g_autofree char *key = blob_data_key (digest);
  return object_store_put (ctx, self->objects, key, data, size, OBJECT_COMMIT_DEFAULT, error);
}

GBytes *
blob_store_get (Ctx *ctx, BlobStore *self, const Digest *digest, gsize limit_bytes, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self, digest, 0, error);
  if (reader == NULL)
    return NULL;
  guint64 size = blob_reader_size (reader);
  if (size > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL,
                         "blob %s is larger than the limit of %" G_GSIZE_FORMAT " bytes",
                         digest_format (digest, text), limit_bytes);
  g_autofree guint8 *data = g_malloc (size + 1);
  for (gsize done = 0; done < size;)
    {
      gssize n = blob_reader_read (ctx, reader, data + done, size - done, error);
      if (n < 0)
        return NULL;
      g_assert (n > 0); /* the reader knows where the end is */
      done += (gsize) n;
    }
  Digest actual;
  digest_of (digest->algorithm, data, size, &actual);
  if (!digest_equal (digest, &actual))
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "BlobCorrupt",
                         "blob %s is damaged: its bytes have another digest", digest_format (digest, text));
  return g_bytes_new_take (g_steal_pointer (&data), size);
}

typedef struct {
  BlobStore *store;
  const Recipe *recipe;
} ChunkCheck;

static gboolean
check_chunk (Ctx *ctx, gpointer data, guint index, GError **error)
{
  const ChunkCheck *self = data;
  const RecipeEntry *entry = &g_array_index (self->recipe->entries, RecipeEntry, index);
  ChunkHeader header;
  if (!chunk_object_check (ctx, self->store->objects, entry->digest, &header, error))
    return FALSE;
  return header.decoded_size == entry->decoded_size
         || am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "chunk %u of the blob has another size", index);
}

/* That every chunk is there now, as long as it should be: a power cut or a collection may have taken one that
 * was stored lazily, or long ago. A far store loses nothing that it acknowledged, and upload sessions see to it that
 * each chunk was there after it was pinned. */
static gboolean
check_chunks (Ctx *ctx, BlobStore *self, const Recipe *recipe, GError **error)
{
  ChunkCheck check = { self, recipe };
  return object_store_each (ctx, self->objects, recipe->entries->len, check_chunk, &check, error);
}

gboolean
blob_store_put_recipe (Ctx *ctx, BlobStore *self, const Recipe *recipe, GError **error)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  if (!object_store_is_far (self->objects) && !check_chunks (ctx, self, recipe, error))
    return FALSE;
  for (guint i = 0; i < recipe->entries->len; i++)
    g_ptr_array_add (keys, chunk_key (g_array_index (recipe->entries, RecipeEntry, i).digest));
  if (!object_store_sync (ctx, self->objects, (const char *const *) keys->pdata, keys->len, error))
    return FALSE;
  g_autofree char *key = blob_recipe_key (&recipe->blob_digest);
  g_autoptr (GBytes) bytes = recipe_write (recipe);
  return object_store_put (ctx, self->objects, key, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes),
                           OBJECT_COMMIT_DEFAULT, error);
}

gboolean
blob_store_has_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], gboolean *out_has, GError **error)
{
  g_autofree char *key = chunk_key (digest);
  return object_store_exists (ctx, self->objects, key, out_has, error);
}

gssize
blob_store_read_chunk (Ctx *ctx, BlobStore *self, const guint8 digest[32], guint8 *out, GError **error)
{
  g_autoptr (ChunkReader) reader = chunk_reader_new (self->objects);
  Blake3 hash;
  guint8 actual[CHUNK_DIGEST_SIZE];
  gsize done = 0;
  if (!chunk_reader_open (ctx, reader, digest, error))
    return -1;
  blake3_init (&hash);
  for (gsize n = chunk_reader_stripe_size (reader); n > 0; n = chunk_reader_stripe_size (reader))
    {
      if (!chunk_reader_next (ctx, reader, out + done, error))
        return -1;
      blake3_update (&hash, out + done, n);
      done += n;
    }
  blake3_peek (&hash, actual);
  if (memcmp (actual, digest, sizeof actual) == 0)
    return (gssize) done;
  g_autofree char *key = chunk_key (digest);
  am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "object %s: damaged chunk: its bytes have another digest", key);
  return -1;
}
