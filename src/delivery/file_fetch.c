#include "delivery/file_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/workers.h"
#include "delivery/chunk_file.h"
#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"

#define N_LOCAL_THREADS 2
#define HASH_BLOCK_BYTES (1u << 20)

/* One file on its way. */
typedef struct {
  const FetchSource *source;
  const Digest *digest;
  guint64 size_bytes;
  int fd;
  const char *name;
  FetchCounts *counts;
} Fetch;

static void
add_count (guint64 *count, guint64 n)
{
  __atomic_add_fetch (count, n, __ATOMIC_RELAXED);
}

static void
on_transfer (guint64 logical_bytes, guint64 moved_bytes, gpointer data)
{
  Fetch *self = data;
  add_count (&self->counts->moved_bytes, moved_bytes);
  transfer_bytes (self->source->events, logical_bytes, moved_bytes);
}

/* What is wrong goes, so that the next run does not start from it. */
static gboolean
fail_mismatch (Fetch *self, const Digest *actual, GError **error)
{
  char wanted_text[DIGEST_STRING_SIZE], actual_text[DIGEST_STRING_SIZE];
  if (ftruncate (self->fd, 0) < 0)
    am_log_warning (NULL, "a wrong file could not be emptied", "file", self->name, NULL);
  return am_fail (error, AM_ERROR_DATA_LOSS, "DigestMismatch",
                  "%s is damaged at its source %s: its bytes are %s, not %s as the manifest says", self->name,
                  self->source->repository->display, digest_format (actual, actual_text),
                  digest_format (self->digest, wanted_text));
}

/* After a failed sync the system forgets what it did not write, and still shows it to who reads: so nothing of the file can be
 * gone on from. */
static gboolean
sync_file (Fetch *self, GError **error)
{
  if (fsync (self->fd) == 0)
    return TRUE;
  int saved_errno = errno;
  if (ftruncate (self->fd, 0) < 0)
    am_log_warning (NULL, "a file that was not synced could not be emptied", "file", self->name, NULL);
  return am_fail_errno (error, saved_errno, "cannot sync %s", self->name);
}

/* Small: held in memory until they are known to be right, so the file is never shorter or other than it will be, whoever
 * else works on it. */

static gboolean
small_is_right_on_disk (Fetch *self, guint8 *buffer, gboolean *out_is_right, GError **error)
{
  struct stat info;
  Digest actual;
  *out_is_right = FALSE;
  if (fstat (self->fd, &info) < 0)
    return am_fail_errno (error, errno, "cannot read %s", self->name);
  if ((guint64) info.st_size != self->size_bytes)
    return TRUE;
  if (!file_pread_all (self->fd, 0, buffer, self->size_bytes, self->name, error))
    return FALSE;
  digest_of (self->digest->algorithm, buffer, self->size_bytes, &actual);
  *out_is_right = digest_equal (&actual, self->digest);
  return TRUE;
}

typedef struct {
  Fetch *fetch;
  guint8 *bytes;
  gsize fill;
} Small;

static gboolean
take_small (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Small *self = data;
  if (size > self->fetch->size_bytes - self->fill)
    return am_fail (error, AM_ERROR_DATA_LOSS, "SIZE_INVALID", "%s: more bytes came than it has", self->fetch->name);
  memcpy (self->bytes + self->fill, bytes, size);
  self->fill += size;
  on_transfer (size, size, self->fetch);
  return TRUE;
}

static gboolean
fetch_small (Ctx *ctx, Fetch *self, GError **error)
{
  gboolean is_right = FALSE;
  Digest actual;
  g_autofree guint8 *bytes = g_malloc (self->size_bytes + 1);
  Small small = { self, bytes, 0 };
  if (!small_is_right_on_disk (self, bytes, &is_right, error))
    return FALSE;
  if (is_right)
    {
      self->counts->kept_bytes += self->size_bytes;
      transfer_bytes (self->source->events, self->size_bytes, 0);
      return TRUE;
    }
  if (self->size_bytes > 0
      && !repository_read_blob (ctx, self->source->repository, self->digest, 0, self->size_bytes, take_small, &small,
                                error))
    return FALSE;
  digest_of (self->digest->algorithm, bytes, small.fill, &actual);
  if (!digest_equal (&actual, self->digest))
    return fail_mismatch (self, &actual, error);
  if (!file_pwrite_all (self->fd, 0, bytes, self->size_bytes, error))
    {
      g_prefix_error (error, "%s: ", self->name);
      return FALSE;
    }
  return ftruncate (self->fd, (off_t) self->size_bytes) == 0
         || am_fail_errno (error, errno, "cannot write %s", self->name);
}

/* Without chunks: one stream, which goes on behind the bytes that are there. */

typedef struct {
  Fetch *fetch;
  Hasher *hasher;
  guint64 offset_bytes;
} Stream;

static gboolean
take_bytes (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Stream *self = data;
  if (!file_pwrite_all (self->fetch->fd, self->offset_bytes, bytes, size, error))
    {
      g_prefix_error (error, "%s: ", self->fetch->name);
      return FALSE;
    }
  hasher_update (self->hasher, bytes, size);
  self->offset_bytes += size;
  on_transfer (size, size, self->fetch);
  return TRUE;
}

/* Hashes the first `size_bytes` of the file, which an earlier run left. */
static gboolean
hash_prefix (Ctx *ctx, Stream *self, guint64 size_bytes, GError **error)
{
  g_autofree guint8 *block = g_malloc (HASH_BLOCK_BYTES);
  while (self->offset_bytes < size_bytes)
    {
      gsize n = (gsize) MIN ((guint64) HASH_BLOCK_BYTES, size_bytes - self->offset_bytes);
      if (!ctx_check (ctx, error)
          || !file_pread_all (self->fetch->fd, self->offset_bytes, block, n, self->fetch->name, error))
        return FALSE;
      hasher_update (self->hasher, block, n);
      self->offset_bytes += n;
    }
  return TRUE;
}

static gboolean
stream_from (Ctx *ctx, Fetch *self, guint64 prefix_bytes, Digest *out_digest, GError **error)
{
  g_autoptr (Hasher) hasher = hasher_new (self->digest->algorithm);
  Stream stream = { self, hasher, 0 };
  if (ftruncate (self->fd, (off_t) prefix_bytes) < 0)
    return am_fail_errno (error, errno, "cannot write %s", self->name);
  if (!hash_prefix (ctx, &stream, prefix_bytes, error))
    return FALSE;
  transfer_bytes (self->source->events, prefix_bytes, 0);
  if (prefix_bytes < self->size_bytes
      && !repository_read_blob (ctx, self->source->repository, self->digest, prefix_bytes,
                                self->size_bytes - prefix_bytes, take_bytes, &stream, error))
    return FALSE;
  hasher_finish (hasher, out_digest);
  return TRUE;
}

static gboolean
fetch_stream (Ctx *ctx, Fetch *self, guint64 prefix_bytes, GError **error)
{
  Digest actual;
  if (!stream_from (ctx, self, prefix_bytes, &actual, error))
    return FALSE;
  if (digest_equal (&actual, self->digest))
    {
      self->counts->kept_bytes += prefix_bytes;
      return TRUE;
    }
  /* What was there may have been wrong: once more from the start. */
  if (prefix_bytes > 0 && !stream_from (ctx, self, 0, &actual, error))
    return FALSE;
  return digest_equal (&actual, self->digest) || fail_mismatch (self, &actual, error);
}

/* With chunks. */

typedef struct {
  Fetch *fetch;
  const Recipe *recipe;
  ChunkFile *file;
  atomic_uint next; /* chunk to look at */
  guint8 *is_local; /* of each chunk: to be taken from the local store */
} Assembly;

static gboolean
chunk_is_right_on_disk (Assembly *self, guint index, guint8 *buffer, gboolean *out_is_right, GError **error)
{
  const RecipeEntry *entry = &g_array_index (self->recipe->entries, RecipeEntry, index);
  guint64 start = self->recipe->starts[index];
  guint8 actual[CHUNK_DIGEST_SIZE];
  off_t data_start = lseek (self->fetch->fd, (off_t) start, SEEK_DATA);
  *out_is_right = FALSE;
  /* A hole is what was never written; a chunk of zeros only costs its transfer again. */
  if (data_start < 0 ? errno == ENXIO : (guint64) data_start >= start + entry->decoded_size)
    return TRUE;
  if (!file_pread_all (self->fetch->fd, start, buffer, entry->decoded_size, self->fetch->name, error))
    return FALSE;
  blake3_of (buffer, entry->decoded_size, actual);
  *out_is_right = memcmp (actual, entry->digest, sizeof actual) == 0;
  return TRUE;
}

/* A worker: rehashes chunks that an earlier run wrote. */
static gboolean
keep_right_chunks (Ctx *ctx, gpointer data, GError **error)
{
  Assembly *self = data;
  g_autofree guint8 *buffer = g_malloc (CHUNK_MAX_BYTES);
  guint index;
  while ((index = atomic_fetch_add (&self->next, 1)) < self->recipe->entries->len)
    {
      gboolean is_right = FALSE;
      if (!ctx_check (ctx, error) || !chunk_is_right_on_disk (self, index, buffer, &is_right, error))
        return FALSE;
      if (!is_right)
        continue;
      guint64 size = g_array_index (self->recipe->entries, RecipeEntry, index).decoded_size;
      add_count (&self->fetch->counts->kept_bytes, size);
      transfer_bytes (self->fetch->source->events, size, 0);
      chunk_file_mark (self->file, index);
    }
  return TRUE;
}

/* A worker: copies chunks that the local store has. One that is damaged there is left to be fetched. */
static gboolean
copy_local_chunks (Ctx *ctx, gpointer data, GError **error)
{
  Assembly *self = data;
  g_autofree guint8 *buffer = g_malloc (CHUNK_MAX_BYTES);
  guint index;
  while ((index = atomic_fetch_add (&self->next, 1)) < self->recipe->entries->len)
    {
      g_autoptr (GError) damage = NULL;
      const RecipeEntry *entry = &g_array_index (self->recipe->entries, RecipeEntry, index);
      if (!self->is_local[index])
        continue;
      if (!ctx_check (ctx, error))
        return FALSE;
      gssize n = blob_store_read_chunk (ctx, self->fetch->source->local, entry->digest, buffer, &damage);
      if (n != (gssize) entry->decoded_size)
        {
          am_ignore (&damage, "the chunk is fetched from the registry instead");
          continue;
        }
      if (!chunk_file_write (self->file, self->recipe->starts[index], buffer, (gsize) n, error))
        return FALSE;
      add_count (&self->fetch->counts->local_bytes, (guint64) n);
      transfer_bytes (self->fetch->source->events, (guint64) n, 0);
    }
  return TRUE;
}

static gboolean
take_chunk (Ctx *ctx, gpointer data, guint64 offset_bytes, const guint8 *bytes, gsize size, GError **error)
{
  Assembly *self = data;
  return chunk_file_write (self->file, offset_bytes, bytes, size, error);
}

static void
on_chunk_transfer (guint64 logical_bytes, guint64 moved_bytes, gpointer data)
{
  Assembly *self = data;
  on_transfer (logical_bytes, moved_bytes, self->fetch);
}

/* One byte a chunk: 1 for those that are neither right nor to come from the local store. Returns how many. */
static guint
list_wanted (Assembly *self, guint8 *out_wanted)
{
  guint n = 0;
  for (guint i = 0; i < self->recipe->entries->len; i++)
    {
      out_wanted[i] = !self->is_local[i] && !chunk_file_has (self->file, i);
      n += out_wanted[i];
    }
  return n;
}

static gboolean
fetch_wanted (Ctx *ctx, Assembly *self, GError **error)
{
  g_autofree guint8 *wanted = g_malloc0 (self->recipe->entries->len + 1);
  if (list_wanted (self, wanted) == 0)
    return TRUE;
  return repository_read_chunks (ctx, self->fetch->source->repository, self->recipe, wanted, take_chunk,
                                 on_chunk_transfer, self, error);
}

/* Marks what the local store has. */
static gboolean
find_local_chunks (Ctx *ctx, Assembly *self, GError **error)
{
  const FetchSource *source = self->fetch->source;
  for (guint i = 0; source->local != NULL && i < self->recipe->entries->len; i++)
    {
      gboolean has = FALSE;
      if (chunk_file_has (self->file, i))
        continue;
      const RecipeEntry *entry = &g_array_index (self->recipe->entries, RecipeEntry, i);
      if (!blob_store_has_chunk (ctx, source->local, entry->digest, &has, error))
        return FALSE;
      self->is_local[i] = has;
    }
  return TRUE;
}

typedef struct {
  Ctx *ctx;
  Assembly *assembly;
  GError *error;
} LocalCopy;

static gpointer
local_copy_thread (gpointer data)
{
  LocalCopy *self = data;
  workers_run (self->ctx, N_LOCAL_THREADS, copy_local_chunks, self->assembly, &self->error);
  return NULL;
}

/* Copies from the local store and fetches the rest at the same time; then fetches what the store had only in
 * name. `can_fetch` is FALSE when the other side offers no chunks. */
static gboolean
gather (Ctx *ctx, Assembly *self, gboolean can_fetch, GError **error)
{
  g_autoptr (Ctx) own = ctx_new_child (ctx, -1);
  LocalCopy copy = { own, self, NULL };
  if (!find_local_chunks (ctx, self, error))
    return FALSE;
  atomic_store (&self->next, 0);
  GThread *thread = g_thread_new ("local-chunks", local_copy_thread, &copy);
  gboolean fetched = !can_fetch || fetch_wanted (ctx, self, error);
  if (!fetched)
    ctx_cancel (own);
  g_thread_join (thread);
  if (copy.error != NULL && fetched)
    {
      g_propagate_error (error, g_steal_pointer (&copy.error));
      return FALSE;
    }
  g_clear_error (&copy.error);
  if (!fetched)
    return FALSE;
  memset (self->is_local, 0, self->recipe->entries->len);
  return !can_fetch || fetch_wanted (ctx, self, error);
}

static gboolean
is_complete (Assembly *self)
{
  for (guint i = 0; i < self->recipe->entries->len; i++)
    if (!chunk_file_has (self->file, i))
      return FALSE;
  return TRUE;
}

/* `*out_complete` is FALSE without an error when chunks are missing that the other side does not offer. */
static gboolean
assemble (Ctx *ctx, Fetch *self, const Recipe *recipe, gboolean can_fetch, gboolean *out_complete, GError **error)
{
  struct stat info;
  Digest actual;
  g_autofree guint8 *is_local = g_malloc0 (recipe->entries->len + 1);
  if (fstat (self->fd, &info) < 0 || ftruncate (self->fd, (off_t) self->size_bytes) < 0)
    return am_fail_errno (error, errno, "cannot write %s", self->name);
  g_autoptr (ChunkFile) file = chunk_file_new (ctx, self->fd, recipe, self->name);
  Assembly assembly = { .fetch = self, .recipe = recipe, .file = file, .is_local = is_local };
  atomic_init (&assembly.next, 0);
  if (info.st_blocks > 0 && !workers_run (ctx, N_LOCAL_THREADS, keep_right_chunks, &assembly, error))
    return FALSE;
  if (!gather (ctx, &assembly, can_fetch, error))
    return FALSE;
  *out_complete = is_complete (&assembly);
  if (!*out_complete)
    return !can_fetch || am_fail (error, AM_ERROR_INTERNAL, NULL, "%s: not every chunk arrived", self->name);
  if (!chunk_file_finish (file, &actual, error))
    return FALSE;
  return digest_equal (&actual, self->digest) || fail_mismatch (self, &actual, error);
}

/* Small blobs are kept whole; the local store checks their digest. */
static gboolean
copy_local_whole (Ctx *ctx, Fetch *self, gboolean *out_done, GError **error)
{
  g_autoptr (GError) missing = NULL;
  *out_done = FALSE;
  if (self->source->local == NULL || self->size_bytes > BLOB_WHOLE_MAX_BYTES)
    return TRUE;
  g_autoptr (GBytes) bytes = blob_store_get (ctx, self->source->local, self->digest, BLOB_WHOLE_MAX_BYTES, &missing);
  am_ignore (&missing, "the blob is fetched from the registry instead");
  if (bytes == NULL || g_bytes_get_size (bytes) != self->size_bytes)
    return TRUE;
  if (ftruncate (self->fd, 0) < 0)
    return am_fail_errno (error, errno, "cannot write %s", self->name);
  if (!file_pwrite_all (self->fd, 0, g_bytes_get_data (bytes, NULL), self->size_bytes, error))
    return FALSE;
  self->counts->local_bytes += self->size_bytes;
  transfer_bytes (self->source->events, self->size_bytes, 0);
  *out_done = TRUE;
  return TRUE;
}

/* A recipe from either side; what it claims is proven by the digests. NULL without an error: none. */
static gboolean
find_recipe (Ctx *ctx, Fetch *self, Recipe **out_recipe, gboolean *out_can_fetch, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (Recipe) recipe = repository_get_recipe (ctx, self->source->repository, self->digest, &problem);
  *out_can_fetch = recipe != NULL;
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (recipe == NULL && self->source->local != NULL)
    {
      recipe = blob_store_recipe (ctx, self->source->local, self->digest, &problem);
      am_ignore (&problem, "the local store does not have the blob");
    }
  if (recipe != NULL && recipe->blob_size != self->size_bytes)
    return am_fail (error, AM_ERROR_DATA_LOSS, "SIZE_INVALID",
                    "%s: the manifest says %" G_GUINT64_FORMAT " bytes, the store has %" G_GUINT64_FORMAT, self->name,
                    self->size_bytes, recipe->blob_size);
  *out_recipe = g_steal_pointer (&recipe);
  return TRUE;
}

static gboolean
fetch_content (Ctx *ctx, Fetch *self, GError **error)
{
  g_autoptr (Recipe) recipe = NULL;
  gboolean done = FALSE, can_fetch = FALSE;
  struct stat info;
  if (!copy_local_whole (ctx, self, &done, error))
    return FALSE;
  if (done)
    return TRUE;
  if (self->size_bytes <= BLOB_WHOLE_MAX_BYTES)
    return fetch_small (ctx, self, error);
  if (!find_recipe (ctx, self, &recipe, &can_fetch, error))
    return FALSE;
  if (recipe != NULL)
    {
      g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (self->source->heavy);
      if (!assemble (ctx, self, recipe, can_fetch, &done, error))
        return FALSE;
      if (done)
        return TRUE;
      /* The file may have holes now, so its length says nothing any more. */
      return fetch_stream (ctx, self, 0, error);
    }
  if (fstat (self->fd, &info) < 0)
    return am_fail_errno (error, errno, "cannot read %s", self->name);
  return fetch_stream (ctx, self, MIN ((guint64) info.st_size, self->size_bytes), error);
}

gboolean
file_fetch (Ctx *ctx, const FetchSource *source, const Digest *digest, guint64 size_bytes, int fd, const char *name,
            FetchCounts *counts, GError **error)
{
  Fetch self = { source, digest, size_bytes, fd, name, counts };
  return fetch_content (ctx, &self, error) && sync_file (&self, error);
}
