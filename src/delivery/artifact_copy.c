#include "delivery/artifact_copy.h"

#include <stdatomic.h>
#include <string.h>

#include "base/workers.h"
#include "delivery/range_reader.h"
#include "oci/manifest.h"

#define N_BLOBS_AT_ONCE 2
#define MAX_INDEX_DEPTH 8
#define MAX_MANIFESTS 10000u

/* A manifest that is to be copied, its exact bytes. */
typedef struct {
  GBytes *bytes;
  char *media_type;
  Digest digest;
  Manifest *manifest;
} Part;

typedef struct {
  Repository *from, *to;
  const CopyOptions *options;
  GPtrArray *parts;      /* Part, children before parents */
  GHashTable *seen;      /* Digest of parts */
  GPtrArray *blobs;      /* const Descriptor *, each digest once, the large ones first */
  atomic_uint next_blob;
  atomic_uint n_mounted;
  guint64 moved_bytes;
} Copy;

static void
part_free (gpointer data)
{
  Part *self = data;
  manifest_free (self->manifest);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_free (self->media_type);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Part, part_free)

static Part *
read_part (Ctx *ctx, Copy *self, const char *selector, GError **error)
{
  g_autoptr (Part) part = g_new0 (Part, 1);
  part->bytes = repository_get_manifest (ctx, self->from, selector, &part->media_type, &part->digest, error);
  if (part->bytes == NULL)
    return NULL;
  part->manifest = manifest_parse (part->bytes, part->media_type, error);
  if (part->manifest == NULL)
    {
      g_prefix_error (error, "%s, %s: ", self->from->display, selector);
      return NULL;
    }
  return g_steal_pointer (&part);
}

/* Reads a manifest and what it names, depth first. */
static gboolean
collect (Ctx *ctx, Copy *self, const char *selector, int depth, Digest *out_digest, GError **error)
{
  g_autoptr (Part) part = read_part (ctx, self, selector, error);
  if (part == NULL)
    return FALSE;
  *out_digest = part->digest;
  if (g_hash_table_contains (self->seen, &part->digest))
    return TRUE;
  if (depth > MAX_INDEX_DEPTH || self->parts->len >= MAX_MANIFESTS)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "ManifestInvalid",
                    "%s names too many manifests, or too deep in one another", selector);
  for (guint i = 0; i < part->manifest->manifests->len; i++)
    {
      const Descriptor *child = part->manifest->manifests->pdata[i];
      Digest child_digest;
      g_autofree char *child_selector = digest_to_string (&child->digest);
      if (!collect (ctx, self, child_selector, depth + 1, &child_digest, error))
        return FALSE;
    }
  g_hash_table_add (self->seen, g_memdup2 (&part->digest, sizeof part->digest));
  g_ptr_array_add (self->parts, g_steal_pointer (&part));
  return TRUE;
}

static int
larger_first (gconstpointer a, gconstpointer b)
{
  const Descriptor *x = *(Descriptor *const *) a, *y = *(Descriptor *const *) b;
  return x->size_bytes > y->size_bytes ? -1 : x->size_bytes < y->size_bytes;
}

static guint64
list_blobs (Copy *self)
{
  g_autoptr (GHashTable) known = g_hash_table_new (digest_hash, digest_equal_func);
  guint64 total = 0;
  for (guint i = 0; i < self->parts->len; i++)
    {
      g_autoptr (GArray) refs = manifest_refs (((Part *) self->parts->pdata[i])->manifest);
      for (guint j = 0; j < refs->len; j++)
        {
          const ManifestRef *ref = &g_array_index (refs, ManifestRef, j);
          if (ref->role == MANIFEST_REF_CHILD || ref->may_be_absent
              || !g_hash_table_add (known, (gpointer) &ref->descriptor->digest))
            continue;
          g_ptr_array_add (self->blobs, (gpointer) ref->descriptor);
          total += MIN (ref->descriptor->size_bytes, G_MAXUINT64 - total);
        }
    }
  g_ptr_array_sort (self->blobs, larger_first);
  return total;
}

static void
on_transfer (guint64 logical_bytes, guint64 moved_bytes, gpointer data)
{
  Copy *self = data;
  __atomic_add_fetch (&self->moved_bytes, moved_bytes, __ATOMIC_RELAXED);
  transfer_bytes (self->options->events, logical_bytes, moved_bytes);
}

/* Without moving bytes: the blob is there, or the place gives it to both. */
static gboolean
take_over (Ctx *ctx, Copy *self, const Descriptor *blob, gboolean *out_done, GError **error)
{
  g_autoptr (GError) problem = NULL;
  guint64 size = 0;
  *out_done = repository_blob_exists (ctx, self->to, &blob->digest, &size, &problem) && size == blob->size_bytes;
  if (problem != NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (!*out_done && self->options->same_place)
    {
      if (!repository_mount_blob (ctx, self->to, &blob->digest, self->from->name, out_done, error))
        return FALSE;
      atomic_fetch_add (&self->n_mounted, *out_done);
    }
  return TRUE;
}

static gboolean
copy_blob (Ctx *ctx, Copy *self, const Descriptor *blob, GError **error)
{
  gboolean done = FALSE;
  char text[DIGEST_STRING_SIZE];
  const char *path = descriptor_annotation (blob, ANNOTATION_FILEPATH);
  const char *shown = path != NULL ? path : digest_format (&blob->digest, text);
  transfer_file (self->options->events, shown);
  if (!take_over (ctx, self, blob, &done, error))
    return FALSE;
  if (done)
    {
      on_transfer (blob->size_bytes, 0, self);
      transfer_file_done (self->options->events, shown);
      return TRUE;
    }
  g_autoptr (Reader) reader
    = copy_reader_new (ctx, self->from, &blob->digest, blob->size_bytes, self->options->local, error);
  if (reader == NULL
      || !repository_push_blob (ctx, self->to, reader, &blob->digest, NULL, on_transfer, self, NULL, error))
    {
      g_prefix_error (error, "%s: ", shown);
      return FALSE;
    }
  transfer_file_done (self->options->events, shown);
  return TRUE;
}

/* A worker. */
static gboolean
copy_blobs (Ctx *ctx, gpointer data, GError **error)
{
  Copy *self = data;
  guint index;
  while ((index = atomic_fetch_add (&self->next_blob, 1)) < self->blobs->len)
    if (!ctx_check (ctx, error) || !copy_blob (ctx, self, self->blobs->pdata[index], error))
      return FALSE;
  return TRUE;
}

static gboolean
put_parts (Ctx *ctx, Copy *self, const Digest *named, const char *tag, GError **error)
{
  for (guint i = 0; i < self->parts->len; i++)
    {
      const Part *part = self->parts->pdata[i];
      const char *reference = digest_equal (&part->digest, named) ? tag : NULL;
      Digest written;
      if (!repository_put_manifest (ctx, self->to, reference, part->media_type, part->bytes, &written, error))
        return FALSE;
      if (!digest_equal (&written, &part->digest))
        return am_fail (error, AM_ERROR_DATA_LOSS, "DigestMismatch",
                        "%s took a manifest under another digest than it has", self->to->display);
    }
  return TRUE;
}

static gboolean
run (Ctx *ctx, Copy *self, const char *selector, const char *tag, CopyResult *out_result, GError **error)
{
  Digest named;
  if (!collect (ctx, self, selector, 0, &named, error))
    return FALSE;
  guint64 total = list_blobs (self);
  transfer_plan (self->options->events, total, self->blobs->len);
  if (!workers_run (ctx, N_BLOBS_AT_ONCE, copy_blobs, self, error) || !put_parts (ctx, self, &named, tag, error))
    return FALSE;
  *out_result = (CopyResult) {
    .digest = named,
    .n_manifests = self->parts->len,
    .n_blobs = self->blobs->len,
    .n_mounted_blobs = atomic_load (&self->n_mounted),
    .logical_bytes = total,
    .moved_bytes = self->moved_bytes,
  };
  return TRUE;
}

gboolean
artifact_copy (Ctx *ctx, Repository *from, const char *selector, Repository *to, const char *tag,
               const CopyOptions *options, CopyResult *out_result, GError **error)
{
  Copy self = { .from = from, .to = to, .options = options };
  self.parts = g_ptr_array_new_with_free_func (part_free);
  self.seen = g_hash_table_new_full (digest_hash, digest_equal_func, g_free, NULL);
  self.blobs = g_ptr_array_new ();
  atomic_init (&self.next_blob, 0);
  atomic_init (&self.n_mounted, 0);
  gboolean good = run (ctx, &self, selector, tag, out_result, error);
  g_ptr_array_unref (self.blobs);
  g_hash_table_unref (self.seen);
  g_ptr_array_unref (self.parts);
  return good;
}
