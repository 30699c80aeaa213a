#include "delivery/artifact_copy.h"

#include <stdatomic.h>
#include <string.h>

#include "base/workers.h"
#include "delivery/range_reader.h"
#include "oci/manifest.h"

#define N_BLOBS_AT_ONCE 2
#define MAX_INDEX_DEPTH 8
#define MAX_MANIFESTS 10000u
#define MAX_MANIFEST_BYTES (256u << 20) /* of all of them: they are in memory */
#define MAX_REFERRER_DEPTH 8            /* referrers of referrers */

/* Reason: a list of referrers names something that does not refer. */
#define NO_REFERRER "NoReferrer"

/* A manifest that is to be copied, its exact bytes. */
typedef struct {
  GBytes *bytes;
  char *media_type;
  Digest digest;
  Manifest *manifest;
  int referrer_depth; /* 0: of the artifact itself */
} Part;

typedef struct {
  Repository *from, *to;
  const CopyOptions *options;
  GPtrArray *parts; /* Part, children before parents */
  GHashTable *seen; /* Digest of parts */
  GPtrArray *blobs; /* const Descriptor *, each digest once, the large ones first */
  atomic_uint next_blob;
  atomic_uint n_mounted;
  guint64 moved_bytes;
  guint64 manifest_bytes; /* of the parts */
  int referrer_depth;     /* of what is collected now */
  guint n_referrers, n_missing_referrers;
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

/* A referrer that is listed must refer to what it is listed for. */
static gboolean
check_subject (const Part *part, const char *selector, const Digest *subject, GError **error)
{
  return subject == NULL
         || (part->manifest->subject != NULL && digest_equal (&part->manifest->subject->digest, subject))
         || am_fail (error, AM_ERROR_FAILED_PRECONDITION, NO_REFERRER, "%s refers to something else", selector);
}

/* Reads a manifest and what it names, depth first. `subject` (or NULL) is what it must refer to. */
static gboolean
collect (Ctx *ctx, Copy *self, const char *selector, const Digest *subject, int depth, Digest *out_digest,
         GError **error)
{
  g_autoptr (Part) part = read_part (ctx, self, selector, error);
  if (part == NULL || !check_subject (part, selector, subject, error))
    return FALSE;
  *out_digest = part->digest;
  if (g_hash_table_contains (self->seen, &part->digest))
    return TRUE;
  self->manifest_bytes += g_bytes_get_size (part->bytes);
  if (depth > MAX_INDEX_DEPTH || self->parts->len >= MAX_MANIFESTS || self->manifest_bytes > MAX_MANIFEST_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "ManifestInvalid",
                    "%s names too many manifests, too large ones, or too deep in one another", selector);
  for (guint i = 0; i < part->manifest->manifests->len; i++)
    {
      const Descriptor *child = part->manifest->manifests->pdata[i];
      Digest child_digest;
      g_autofree char *child_selector = digest_to_string (&child->digest);
      if (!collect (ctx, self, child_selector, NULL, depth + 1, &child_digest, error))
        return FALSE;
    }
  part->referrer_depth = self->referrer_depth;
  g_hash_table_add (self->seen, g_memdup2 (&part->digest, sizeof part->digest));
  g_ptr_array_add (self->parts, g_steal_pointer (&part));
  return TRUE;
}

/* Takes back what was collected since there were `n_parts` of `manifest_bytes`. */
static void
forget_parts (Copy *self, guint n_parts, guint64 manifest_bytes)
{
  for (guint i = n_parts; i < self->parts->len; i++)
    g_hash_table_remove (self->seen, &((const Part *) self->parts->pdata[i])->digest);
  g_ptr_array_set_size (self->parts, (gint) n_parts);
  self->manifest_bytes = manifest_bytes;
}

/* A referrer with everything it names. One that is listed and gone, as fallback tags leave them, or not all there, is
 * counted. */
static gboolean
collect_referrer (Ctx *ctx, Copy *self, const Digest *referrer, const Digest *subject, GError **error)
{
  g_autofree char *selector = digest_to_string (referrer);
  g_autoptr (GError) failure = NULL;
  guint n_parts = self->parts->len;
  guint64 manifest_bytes = self->manifest_bytes;
  Digest digest;
  if (g_hash_table_contains (self->seen, referrer))
    return TRUE;
  if (collect (ctx, self, selector, subject, 0, &digest, &failure))
    {
      self->n_referrers++;
      return TRUE;
    }
  if (am_error_has_reason (failure, "MANIFEST_UNKNOWN") || am_error_has_reason (failure, NO_REFERRER))
    {
      am_ignore (&failure, "the referrer is listed, but gone, in part, or none");
      forget_parts (self, n_parts, manifest_bytes);
      self->n_missing_referrers++;
      return TRUE;
    }
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

/* What refers to the manifests collected so far, to what refers to them, and so on. */
static gboolean
collect_referrers (Ctx *ctx, Copy *self, GError **error)
{
  for (guint i = 0; i < self->parts->len; i++)
    {
      const Part *part = self->parts->pdata[i];
      g_autoptr (GPtrArray) referrers = repository_list_referrers (ctx, self->from, &part->digest, error);
      char text[DIGEST_STRING_SIZE];
      if (referrers == NULL)
        return FALSE;
      self->referrer_depth = part->referrer_depth + 1;
      if (referrers->len > 0 && self->referrer_depth > MAX_REFERRER_DEPTH)
        return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "ManifestInvalid",
                        "%s has referrers of referrers, more than %d deep, down to those of %s", self->from->display,
                        MAX_REFERRER_DEPTH, digest_format (&part->digest, text));
      for (guint j = 0; j < referrers->len; j++)
        if (!collect_referrer (ctx, self, referrers->pdata[j], &part->digest, error))
          return FALSE;
    }
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

/* Without moving bytes: the blob is there, or the place gives it to both. A local store does not say here what it
 * has: pushing looks whether that is whole, and takes the content where it is not. */
static gboolean
take_over (Ctx *ctx, Copy *self, const Descriptor *blob, gboolean *out_done, GError **error)
{
  g_autoptr (GError) problem = NULL;
  guint64 size = 0;
  *out_done = FALSE;
  if (self->to->is_local && !self->options->same_place)
    return TRUE;
  *out_done = repository_claim_blob (ctx, self->to, &blob->digest, &size, &problem) && size == blob->size_bytes;
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
  g_autoptr (Reader) reader = copy_reader_new (ctx, self->from, &blob->digest, blob->size_bytes, self->options->local,
                                               error);
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
put_part (Ctx *ctx, Copy *self, const Part *part, const char *tag, GError **error)
{
  Digest written;
  if (!repository_put_manifest (ctx, self->to, tag, part->media_type, part->bytes, &written, error))
    return FALSE;
  return digest_equal (&written, &part->digest)
         || am_fail (error, AM_ERROR_DATA_LOSS, "DigestMismatch",
                     "%s took a manifest under another digest than it has", self->to->display);
}

/* The named manifest follows what it names; what refers to it may need it, so its tag comes last. */
static gboolean
put_parts (Ctx *ctx, Copy *self, const Digest *named, const char *tag, GError **error)
{
  const Part *last = NULL;
  for (guint i = 0; i < self->parts->len; i++)
    {
      const Part *part = self->parts->pdata[i];
      if (digest_equal (&part->digest, named))
        last = part;
      gboolean waits_for_tag = part == last && tag != NULL && i + 1 == self->parts->len;
      if (!waits_for_tag && !put_part (ctx, self, part, NULL, error))
        return FALSE;
    }
  return tag == NULL || put_part (ctx, self, last, tag, error);
}

static gboolean
run (Ctx *ctx, Copy *self, const char *selector, const char *tag, CopyResult *out_result, GError **error)
{
  Digest named;
  if (!collect (ctx, self, selector, NULL, 0, &named, error)
      || (self->options->referrers && !collect_referrers (ctx, self, error)))
    return FALSE;
  guint64 total = list_blobs (self);
  transfer_plan (self->options->events, total, self->blobs->len);
  if (!workers_run (ctx, N_BLOBS_AT_ONCE, copy_blobs, self, error) || !put_parts (ctx, self, &named, tag, error))
    return FALSE;
  *out_result = (CopyResult){
    .digest = named,
    .n_manifests = self->parts->len,
    .n_blobs = self->blobs->len,
    .n_mounted_blobs = atomic_load (&self->n_mounted),
    .n_referrers = self->n_referrers,
    .n_missing_referrers = self->n_missing_referrers,
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
