#include "storage/collect.h"

#include <string.h>

#include "base/json.h"
#include "storage/chunk_frame.h"
#include "storage/repository_links.h"
#include "storage/upload_session.h"
#include "storage/upload_state.h"

#define MANIFEST_LIMIT_BYTES (4u << 20)
#define PAGE 1000u

typedef struct {
  Ctx *ctx;
  BlobStore *blobs;
  ObjectStore *objects;
  gint64 now_ms, cutoff_ms; /* only what is older may go */
  gint64 link_cutoff_ms;    /* of layer links: until then a push may still be going to name them */
  GHashTable *kept;         /* Digest: manifests and blobs */
  GHashTable *chunks;       /* GBytes of 32 */
  GPtrArray *doomed;        /* keys */
  StoreCollectStats stats;
} Collection;

/* TRUE when it was not marked before. */
static gboolean
keep (Collection *self, const Digest *digest)
{
  if (g_hash_table_contains (self->kept, digest))
    return FALSE;
  return g_hash_table_add (self->kept, g_memdup2 (digest, sizeof *digest));
}

static gboolean mark_manifest (Collection *self, const Digest *digest, guint depth, GError **error);

/* A descriptor's digest; one that cannot be understood makes the whole manifest unreadable. */
static gboolean
mark_descriptor (Collection *self, yyjson_val *descriptor, gboolean is_manifest, guint depth, GError **error)
{
  Digest digest;
  if (!digest_parse (json_get_string (descriptor, "digest"), &digest, error))
    return FALSE;
  if (is_manifest)
    return mark_manifest (self, &digest, depth + 1, error);
  keep (self, &digest);
  return TRUE;
}

static gboolean
mark_list (Collection *self, yyjson_val *list, gboolean is_manifest, guint depth, GError **error)
{
  yyjson_arr_iter iter = yyjson_arr_iter_with (list);
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    if (!mark_descriptor (self, item, is_manifest, depth, error))
      return FALSE;
  return TRUE;
}

static gboolean
mark_document (Collection *self, GBytes *bytes, guint depth, GError **error)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, MANIFEST_LIMIT_BYTES, JSON_STRICT, error);
  if (doc == NULL)
    return FALSE;
  yyjson_val *root = yyjson_doc_get_root (doc);
  yyjson_val *config = json_get_object (root, "config");
  return (config == NULL || mark_descriptor (self, config, FALSE, depth, error))
         && mark_list (self, json_get_array (root, "layers"), FALSE, depth, error)
         && mark_list (self, json_get_array (root, "manifests"), TRUE, depth, error);
}

static gboolean
mark_manifest (Collection *self, const Digest *digest, guint depth, GError **error)
{
  g_autoptr (GError) problem = NULL;
  char text[DIGEST_STRING_SIZE];
  if (!keep (self, digest))
    return TRUE;
  if (depth > JSON_MAX_DEPTH)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "indexes are nested too deeply");
  g_autoptr (GBytes) bytes = blob_store_get (self->ctx, self->blobs, digest, MANIFEST_LIMIT_BYTES, &problem);
  if (bytes == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE; /* a child that was never here, or a manifest that is lost: it keeps nothing */
  if (bytes != NULL && mark_document (self, bytes, depth, &problem))
    return TRUE;
  return am_fail (error, AM_ERROR_DATA_LOSS, "ManifestUnreadable",
                  "manifest %s cannot be read, so nothing was freed; remove it by its digest first: %s",
                  digest_format (digest, text), problem->message);
}

static gboolean
mark_links (Collection *self, GError **error)
{
  g_autoptr (GPtrArray) names = repository_list (self->ctx, self->objects, error);
  for (guint i = 0; names != NULL && i < names->len; i++)
    {
      g_autoptr (GPtrArray) links = manifest_link_list (self->ctx, self->objects, g_ptr_array_index (names, i),
                                                        error);
      for (guint j = 0; links != NULL && j < links->len; j++)
        if (!mark_manifest (self, g_ptr_array_index (links, j), 0, error))
          return FALSE;
      if (links == NULL)
        return FALSE;
    }
  return names != NULL;
}

static gboolean
mark_recipe (Collection *self, const Digest *digest, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (Recipe) recipe = blob_store_recipe (self->ctx, self->blobs, digest, &problem);
  if (problem != NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&problem), "nothing was freed: ");
      return FALSE;
    }
  for (guint i = 0; recipe != NULL && i < recipe->entries->len; i++)
    g_hash_table_add (self->chunks, g_bytes_new (g_array_index (recipe->entries, RecipeEntry, i).digest, 32));
  return TRUE;
}

/* Calls `visit` for every object below `prefix`. */
static gboolean
visit_objects (Collection *self, const char *prefix,
               gboolean (*visit) (Collection *self, const ObjectInfo *info, GError **error), GError **error)
{
  g_autofree char *after = NULL;
  for (;;)
    {
      g_autoptr (GPtrArray) page = object_store_list (self->ctx, self->objects, prefix, after, PAGE, error);
      if (page == NULL || page->len == 0)
        return page != NULL;
      for (guint i = 0; i < page->len; i++)
        if (!visit (self, g_ptr_array_index (page, i), error))
          return FALSE;
      g_free (after);
      after = g_strdup (((ObjectInfo *) g_ptr_array_index (page, page->len - 1))->key);
    }
}

static gboolean
is_old (const Collection *self, const ObjectInfo *info)
{
  return info->modified_ms <= self->cutoff_ms;
}

static void
doom (Collection *self, const ObjectInfo *info, guint *counter)
{
  g_ptr_array_add (self->doomed, g_strdup (info->key));
  self->stats.freed_bytes += info->size_bytes;
  (*counter)++;
}

/* The digest in "<algorithm>/.../<hex>/<leaf>"; FALSE for a key of another form. */
static gboolean
key_digest (const char *rest, Digest *out_digest)
{
  g_auto (GStrv) parts = g_strsplit (rest, "/", -1);
  guint n = g_strv_length (parts);
  g_autofree char *text = n >= 3 ? g_strdup_printf ("%s:%s", parts[0], parts[n - 2]) : NULL;
  g_autoptr (GError) problem = NULL;
  return digest_parse (text, out_digest, &problem);
}

static gboolean
visit_blob (Collection *self, const ObjectInfo *info, GError **error)
{
  Digest digest;
  if (!key_digest (info->key + strlen (BLOBS_PREFIX), &digest))
    return TRUE; /* not ours to judge */
  gboolean is_recipe = g_str_has_suffix (info->key, "/recipe");
  if (g_hash_table_contains (self->kept, &digest) || !is_old (self, info))
    return !is_recipe || mark_recipe (self, &digest, error);
  doom (self, info, &self->stats.n_blobs);
  return TRUE;
}

/* Links to layers: a young one keeps its blob, an old one to a blob that goes goes too. */
static gboolean
visit_young_link (Collection *self, const ObjectInfo *info, GError **error)
{
  const char *mark = strstr (info->key, "/_layers/");
  Digest digest;
  if (mark != NULL && info->modified_ms > self->link_cutoff_ms && key_digest (mark + strlen ("/_layers/"), &digest))
    keep (self, &digest);
  return TRUE;
}

static gboolean
visit_old_link (Collection *self, const ObjectInfo *info, GError **error)
{
  const char *mark = strstr (info->key, "/_layers/");
  Digest digest;
  if (mark != NULL && info->modified_ms <= self->link_cutoff_ms && key_digest (mark + strlen ("/_layers/"), &digest)
      && !g_hash_table_contains (self->kept, &digest))
    doom (self, info, &self->stats.n_links);
  return TRUE;
}

static gboolean
visit_chunk (Collection *self, const ObjectInfo *info, GError **error)
{
  guint8 digest[CHUNK_DIGEST_SIZE];
  if (!is_old (self, info) || !chunk_digest_parse_hex (strrchr (info->key, '/') + 1, digest))
    return TRUE;
  g_autoptr (GBytes) id = g_bytes_new (digest, sizeof digest);
  if (!g_hash_table_contains (self->chunks, id))
    doom (self, info, &self->stats.n_chunks);
  return TRUE;
}

/* What an upload left behind longer ago than sessions live. */
static gboolean
visit_upload (Collection *self, const ObjectInfo *info, GError **error)
{
  if (self->now_ms - info->modified_ms > UPLOAD_SESSION_TTL_MS
      && strlen (info->key) > strlen (UPLOADS_PREFIX) + UPLOAD_ID_LENGTH)
    doom (self, info, &self->stats.n_sessions);
  return TRUE;
}

static void
pin_chunk (gpointer data, const guint8 digest[32])
{
  g_hash_table_add (((Collection *) data)->chunks, g_bytes_new (digest, 32));
}

static const UploadScanEvents pin_events = { .pin = pin_chunk };

static gboolean
mark (Collection *self, GError **error)
{
  return mark_links (self, error) && visit_objects (self, REPOSITORIES_PREFIX, visit_young_link, error)
         && upload_session_scan (self->ctx, self->objects, self->now_ms, &pin_events, self, error)
         && visit_objects (self, BLOBS_PREFIX, visit_blob, error)
         && visit_objects (self, REPOSITORIES_PREFIX, visit_old_link, error)
         && visit_objects (self, CHUNKS_PREFIX, visit_chunk, error)
         && visit_objects (self, UPLOADS_PREFIX, visit_upload, error);
}

/* In the order they were found: a blob's recipe goes before its chunks, so a stop in between leaves only
 * chunks that the next run finds unreferenced. */
static gboolean
sweep (Collection *self, GError **error)
{
  for (guint i = 0; i < self->doomed->len; i++)
    if (!object_store_remove (self->ctx, self->objects, g_ptr_array_index (self->doomed, i), error))
      return FALSE;
  return TRUE;
}

gboolean
store_collect (Ctx *ctx, BlobStore *blobs, gint64 grace_ms, StoreCollectStats *out_stats, GError **error)
{
  g_autoptr (GHashTable) kept = g_hash_table_new_full (digest_hash, digest_equal_func, g_free, NULL);
  g_autoptr (GHashTable) chunks = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref,
                                                         NULL);
  g_autoptr (GPtrArray) doomed = g_ptr_array_new_with_free_func (g_free);
  Collection self = { .ctx = ctx,
                      .blobs = blobs,
                      .objects = blob_store_objects (blobs),
                      .kept = kept,
                      .chunks = chunks,
                      .doomed = doomed };
  self.now_ms = g_get_real_time () / 1000;
  self.cutoff_ms = self.now_ms - grace_ms;
  self.link_cutoff_ms = self.now_ms - MAX (grace_ms, UPLOAD_SESSION_TTL_MS);
  g_autoptr (ObjectLock) alone = object_store_lock (ctx, self.objects, OBJECT_LOCK_ALONE, error);
  if (alone == NULL)
    {
      g_prefix_error (error, "no space was freed: ");
      return FALSE;
    }
  gboolean ok = mark (&self, error) && sweep (&self, error);
  if (ok)
    *out_stats = self.stats;
  return ok;
}
