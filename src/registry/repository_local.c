#include "registry/repository_local.h"

#include "base/workers.h"
#include "oci/reference.h"
#include "registry/manifest_store.h"
#include "registry/read_ahead.h"
#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"
#include "storage/repository_links.h"
#include "storage/upload_session.h"

#define READ_BLOCK_BYTES (1u << 20)
#define MAX_READERS 4u
#define MAX_ATTEMPTS 3u
#define LEAVE_TIMEOUT_MS 10000

typedef struct {
  Repository base;
  BlobStore *blobs;
} Local;

static ObjectStore *
objects_of (Local *self)
{
  return blob_store_objects (self->blobs);
}

static gboolean
fail_no_blob (Local *self, const Digest *digest, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "repository %s has no blob %s", self->base.display,
                  digest_format (digest, text));
}

/* FALSE with NOT_FOUND for a blob that is not the repository's, even when the store has it. */
static gboolean
stat_member (Ctx *ctx, Local *self, const Digest *digest, BlobInfo *out_info, GError **error)
{
  gboolean is_linked = FALSE;
  if (!layer_link_exists (ctx, objects_of (self), self->base.name, digest, &is_linked, error))
    return FALSE;
  return is_linked ? blob_store_stat (ctx, self->blobs, digest, out_info, error) : fail_no_blob (self, digest, error);
}

static gboolean
local_blob_exists (Ctx *ctx, Repository *base, const Digest *digest, guint64 *out_size, GError **error)
{
  BlobInfo info;
  if (!stat_member (ctx, (Local *) base, digest, &info, error))
    return FALSE;
  if (out_size != NULL)
    *out_size = info.size_bytes;
  return TRUE;
}

static gboolean
local_claim_blob (Ctx *ctx, Repository *base, const Digest *digest, guint64 *out_size, GError **error)
{
  Local *self = (Local *) base;
  gboolean is_linked = FALSE;
  BlobInfo info;
  if (!layer_link_claim (ctx, objects_of (self), self->base.name, digest, &is_linked, error))
    return FALSE;
  if (!is_linked)
    return fail_no_blob (self, digest, error);
  if (!blob_store_stat (ctx, self->blobs, digest, &info, error))
    return FALSE;
  if (out_size != NULL)
    *out_size = info.size_bytes;
  return TRUE;
}

/* Makes a blob that the store has the repository's, `whole`: only when every byte of it is right. Linked first and
 * looked at afterwards, so that collection cannot come in between. */
static gboolean
adopt (Ctx *ctx, Local *self, const Digest *digest, gboolean whole, gboolean *out_adopted, guint64 *out_size,
       GError **error)
{
  g_autoptr (GError) cause = NULL;
  BlobInfo info = { 0 };
  gboolean was_linked = FALSE;
  if (!layer_link_claim (ctx, objects_of (self), self->base.name, digest, &was_linked, error)
      || (!was_linked && !layer_link_put (ctx, objects_of (self), self->base.name, digest, error)))
    return FALSE;
  *out_adopted = blob_store_stat (ctx, self->blobs, digest, &info, &cause)
                 && (!whole || blob_store_verify (ctx, self->blobs, digest, NULL, NULL, &cause));
  *out_size = info.size_bytes;
  if (*out_adopted || am_error_is (cause, AM_ERROR_NOT_FOUND) || (whole && am_error_is (cause, AM_ERROR_DATA_LOSS)))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&cause));
  return FALSE;
}

static void
drop_link_to_nothing (Ctx *ctx, Local *self, const Digest *digest)
{
  g_autoptr (GError) problem = NULL;
  BlobInfo info;
  if (!blob_store_stat (ctx, self->blobs, digest, &info, &problem) && am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_clear_error (&problem);
      layer_link_remove (ctx, objects_of (self), self->base.name, digest, &problem);
    }
  am_ignore (&problem, "a link to nothing is harmless");
}

typedef struct {
  TransferProgress report;
  gpointer data;
  guint64 position_bytes, told_bytes;
} Progress;

/* What is done a second time was told already. */
static void
progress_to (Progress *self, guint64 position_bytes, guint64 moved_bytes)
{
  guint64 before = self->told_bytes;
  self->position_bytes = position_bytes;
  self->told_bytes = MAX (before, position_bytes);
  if (self->report != NULL)
    self->report (self->told_bytes - before, moved_bytes, self->data);
}

/* Gives the session the content from where it stands. */
static gboolean
feed_session (Ctx *ctx, UploadSession *session, Reader *content, Progress *progress, GError **error)
{
  const guint8 *block = NULL;
  guint64 offset = upload_session_offset (session);
  gssize n;
  if (offset > content->size_bytes)
    return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN",
                    "an interrupted push left more bytes than the content has");
  progress_to (progress, offset, 0);
  g_autoptr (ReadAhead) ahead = read_ahead_new (ctx, content, offset, NULL);
  while ((n = read_ahead_next (ahead, &block, error)) > 0)
    {
      if (!upload_session_write (ctx, session, block, (gsize) n, error))
        return FALSE;
      progress_to (progress, progress->position_bytes + (guint64) n, (guint64) n);
    }
  return n == 0;
}

static gboolean
fill_session (Ctx *ctx, Local *self, UploadSession *session, Reader *content, const Digest *expected,
              Progress *progress, Digest *out_digest, GError **error)
{
  Digest digest;
  if (!feed_session (ctx, session, content, progress, error) || !upload_session_digest (ctx, session, &digest, error))
    return FALSE;
  if (expected != NULL)
    digest = *expected;
  /* The link comes before the blob, so that no collection finds the blob without it. */
  if (!layer_link_put (ctx, objects_of (self), self->base.name, &digest, error))
    return FALSE;
  if (!upload_session_finish (ctx, session, &digest, error))
    {
      if (expected == NULL)
        drop_link_to_nothing (ctx, self, &digest);
      return FALSE;
    }
  *out_digest = digest;
  return TRUE;
}

/* Leaves an unfinished session for the next process, or nothing of one that is of no use. The context may be what ended. */
static void
leave_session (UploadSession *session, const GError *failure)
{
  g_autoptr (Ctx) root = ctx_new ();
  g_autoptr (Ctx) brief = ctx_new_child (root, LEAVE_TIMEOUT_MS);
  g_autoptr (GError) problem = NULL;
  gboolean is_useless = am_error_has_reason (failure, "DIGEST_INVALID")
                        || am_error_has_reason (failure, "BLOB_UPLOAD_UNKNOWN");
  if (!(is_useless ? upload_session_cancel (brief, session, &problem)
                   : upload_session_save (brief, session, &problem)))
    am_ignore (&problem, "the push starts anew");
}

/* Nobody is to take up again what ends here: what an upload lost, the store lost. Takes `failure` over. */
static gboolean
fail_store (GError *failure, GError **error)
{
  g_autoptr (GError) owned = failure;
  if (am_error_has_reason (failure, "BLOB_UPLOAD_UNKNOWN"))
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkMissing", "the store lost some of what was written to it: %s",
                    failure->message);
  g_propagate_error (error, g_steal_pointer (&owned));
  return FALSE;
}

/* Large content whose push may be interrupted has a session that the next process finds. When what it held is lost, or two
 * processes push the same at a time, there is another attempt. */
static gboolean
store_content (Ctx *ctx, Local *self, Reader *content, const Digest *expected, const char *resume_key,
               Progress *progress, Digest *out_digest, GError **error)
{
  gboolean is_named = resume_key != NULL && content->size_bytes > BLOB_WHOLE_MAX_BYTES;
  for (guint attempt = 1;; attempt++)
    {
      g_autoptr (GError) failure = NULL;
      g_autoptr (UploadSession) session = is_named ? upload_session_named (ctx, self->blobs, self->base.name,
                                                                           resume_key, &failure)
                                                   : upload_session_new (self->blobs, self->base.name);
      if (session != NULL && fill_session (ctx, self, session, content, expected, progress, out_digest, &failure))
        return TRUE;
      gboolean is_taken = am_error_has_reason (failure, "BLOB_UPLOAD_INVALID");
      if (is_named && session != NULL && !is_taken)
        leave_session (session, failure);
      if (!is_named || attempt == MAX_ATTEMPTS
          || (!is_taken && !am_error_has_reason (failure, "BLOB_UPLOAD_UNKNOWN")))
        return fail_store (g_steal_pointer (&failure), error);
      is_named = !is_taken;
    }
}

static gboolean
local_push_blob (Ctx *ctx, Repository *base, Reader *content, const Digest *expected, const char *resume_key,
                 TransferProgress report, gpointer data, Digest *out_digest, GError **error)
{
  Local *self = (Local *) base;
  Progress progress = { .report = report, .data = data };
  gboolean is_there = FALSE;
  guint64 size = 0;
  char text[DIGEST_STRING_SIZE];
  if (expected != NULL && !adopt (ctx, self, expected, TRUE, &is_there, &size, error))
    return FALSE;
  if (!is_there && store_content (ctx, self, content, expected, resume_key, &progress, out_digest, error))
    return TRUE;
  if (!is_there)
    {
      if (expected != NULL)
        drop_link_to_nothing (ctx, self, expected);
      return FALSE;
    }
  if (size != content->size_bytes)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID",
                    "the content has %" G_GUINT64_FORMAT " bytes, but %s has %" G_GUINT64_FORMAT, content->size_bytes,
                    digest_format (expected, text), size);
  if (report != NULL)
    report (size, 0, data);
  *out_digest = *expected;
  return TRUE;
}

static gboolean
local_mount_blob (Ctx *ctx, Repository *base, const Digest *digest, const char *from_repository,
                  gboolean *out_mounted, GError **error)
{
  Local *self = (Local *) base;
  gboolean has = FALSE;
  guint64 size;
  *out_mounted = FALSE;
  if (!repository_name_check (from_repository, error)
      || !layer_link_exists (ctx, objects_of (self), from_repository, digest, &has, error))
    return FALSE;
  if (!has)
    return TRUE;
  if (!adopt (ctx, self, digest, FALSE, out_mounted, &size, error))
    return FALSE;
  if (!*out_mounted)
    drop_link_to_nothing (ctx, self, digest);
  return TRUE;
}

/* Narrows [offset, offset + size) to a blob of `total` bytes. */
static gboolean
check_span (const Digest *digest, guint64 total, guint64 offset_bytes, guint64 *inout_size, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  if (offset_bytes > total || (*inout_size != G_MAXUINT64 && *inout_size > total - offset_bytes))
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, NULL,
                    "the range is not within the %" G_GUINT64_FORMAT " bytes of blob %s", total,
                    digest_format (digest, text));
  if (*inout_size == G_MAXUINT64)
    *inout_size = total - offset_bytes;
  return TRUE;
}

static gboolean
local_read_blob (Ctx *ctx, Repository *base, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                 BlobSink sink, gpointer data, GError **error)
{
  Local *self = (Local *) base;
  BlobInfo info;
  if (!stat_member (ctx, self, digest, &info, error)
      || !check_span (digest, info.size_bytes, offset_bytes, &size_bytes, error))
    return FALSE;
  if (size_bytes == 0)
    return TRUE;
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self->blobs, digest, offset_bytes, error);
  g_autofree guint8 *block = g_malloc (READ_BLOCK_BYTES);
  char text[DIGEST_STRING_SIZE];
  if (reader == NULL)
    return FALSE;
  while (size_bytes > 0)
    {
      if (!ctx_check (ctx, error))
        return FALSE;
      gssize n = blob_reader_read (ctx, reader, block, (gsize) MIN (size_bytes, READ_BLOCK_BYTES), error);
      if (n == 0)
        return am_fail (error, AM_ERROR_DATA_LOSS, "BlobCorrupt", "blob %s ends early in the store",
                        digest_format (digest, text));
      if (n < 0 || !sink (ctx, data, block, (gsize) n, error))
        return FALSE;
      size_bytes -= (guint64) n;
    }
  return TRUE;
}

static Recipe *
local_get_recipe (Ctx *ctx, Repository *base, const Digest *digest, GError **error)
{
  Local *self = (Local *) base;
  BlobInfo info;
  return stat_member (ctx, self, digest, &info, error) && info.n_chunks > 0
           ? blob_store_recipe (ctx, self->blobs, digest, error)
           : NULL;
}

typedef struct {
  Local *self;
  const Recipe *recipe;
  const guint8 *wanted;
  ChunkSink sink;
  TransferProgress progress;
  gpointer data;
  guint next; /* atomic */
} ChunkTask;

static gboolean
read_chunk (Ctx *ctx, ChunkTask *task, guint index, guint8 *buffer, GError **error)
{
  const RecipeEntry *entry = &g_array_index (task->recipe->entries, RecipeEntry, index);
  gssize n = blob_store_read_chunk (ctx, task->self->blobs, entry->digest, buffer, error);
  if (n < 0)
    return FALSE;
  if ((gsize) n != entry->decoded_size)
    return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "chunk %u has another size than its recipe says",
                    index);
  if (!task->sink (ctx, task->data, task->recipe->starts[index], buffer, (gsize) n, error))
    return FALSE;
  if (task->progress != NULL)
    task->progress ((guint64) n, entry->encoded_size, task->data);
  return TRUE;
}

static gboolean
chunk_worker (Ctx *ctx, gpointer data, GError **error)
{
  ChunkTask *task = data;
  g_autofree guint8 *buffer = g_malloc (CHUNK_MAX_BYTES);
  while (TRUE)
    {
      guint index = (guint) g_atomic_int_add (&task->next, 1);
      if (index >= task->recipe->entries->len)
        return TRUE;
      if (!ctx_check (ctx, error) || (task->wanted[index] != 0 && !read_chunk (ctx, task, index, buffer, error)))
        return FALSE;
    }
}

static gboolean
local_read_chunks (Ctx *ctx, Repository *base, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                   TransferProgress progress, gpointer data, GError **error)
{
  Local *self = (Local *) base;
  BlobInfo info;
  if (!stat_member (ctx, self, &recipe->blob_digest, &info, error))
    return FALSE;
  ChunkTask task = { self, recipe, wanted, sink, progress, data, 0 };
  return workers_run (ctx, MIN (g_get_num_processors (), MAX_READERS), chunk_worker, &task, error);
}

static GBytes *
local_get_manifest (Ctx *ctx, Repository *base, const char *reference, char **out_media_type, Digest *out_digest,
                    GError **error)
{
  Local *self = (Local *) base;
  return manifest_store_get (ctx, self->blobs, base->name, reference, out_media_type, out_digest, error);
}

static gboolean
local_put_manifest (Ctx *ctx, Repository *base, const char *reference, const char *media_type, GBytes *bytes,
                    Digest *out_digest, GError **error)
{
  Local *self = (Local *) base;
  const char *tags[] = { reference, NULL };
  Digest digest;
  gboolean is_digest = FALSE;
  ManifestPut put = { .bytes = bytes, .media_type = media_type };
  ManifestPutResult result;
  if (reference != NULL && !reference_selector_parse (reference, &is_digest, &digest, error))
    return FALSE;
  if (is_digest)
    put.expected = &digest;
  else
    put.tags = tags;
  if (!manifest_store_put (ctx, self->blobs, base->name, &put, &result, error))
    return FALSE;
  if (out_digest != NULL)
    *out_digest = result.digest;
  return TRUE;
}

static GPtrArray *
local_list_tags (Ctx *ctx, Repository *base, GError **error)
{
  Local *self = (Local *) base;
  gboolean exists = FALSE;
  if (!repository_exists (ctx, objects_of (self), base->name, &exists, error))
    return NULL;
  if (!exists)
    return am_fail_null (error, AM_ERROR_NOT_FOUND, "NAME_UNKNOWN", "there is no repository %s", base->display);
  return tag_list (ctx, objects_of (self), base->name, error);
}

static gboolean
take_referrer (const Digest *referrer, GBytes *descriptor, gpointer data, gboolean *goes_on, GError **error)
{
  GPtrArray *found = data;
  g_ptr_array_add (found, g_memdup2 (referrer, sizeof *referrer));
  return found->len <= REPOSITORY_MAX_REFERRERS
         || am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "a manifest has more than %u referrers",
                     REPOSITORY_MAX_REFERRERS);
}

static GPtrArray *
local_list_referrers (Ctx *ctx, Repository *base, const Digest *subject, GError **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_free);
  return referrer_walk (ctx, objects_of ((Local *) base), base->name, subject, NULL, take_referrer, found, error)
           ? g_steal_pointer (&found)
           : NULL;
}

static gboolean
local_remove_manifest (Ctx *ctx, Repository *base, const char *reference, GError **error)
{
  return manifest_store_remove (ctx, ((Local *) base)->blobs, base->name, reference, error);
}

static void
local_free (Repository *base)
{
  g_free (base);
}

static const RepositoryClass local_class = {
  .blob_exists = local_blob_exists,
  .claim_blob = local_claim_blob,
  .push_blob = local_push_blob,
  .mount_blob = local_mount_blob,
  .read_blob = local_read_blob,
  .get_recipe = local_get_recipe,
  .read_chunks = local_read_chunks,
  .get_manifest = local_get_manifest,
  .put_manifest = local_put_manifest,
  .list_tags = local_list_tags,
  .list_referrers = local_list_referrers,
  .remove_manifest = local_remove_manifest,
  .free = local_free,
};

Repository *
repository_local_new (BlobStore *blobs, const char *name, GError **error)
{
  if (!repository_name_check (name, error))
    return NULL;
  Local *self = g_new0 (Local, 1);
  self->base = (Repository){ &local_class, g_strdup (name), g_strdup (name), TRUE };
  self->blobs = blobs;
  return &self->base;
}
