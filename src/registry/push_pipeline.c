#include "registry/push_pipeline.h"

#include <string.h>

#include "base/buffer_pool.h"
#include "storage/chunk_plan.h"

/* What of the content may be in memory between reading and sending. Must hold several batches. */
#define BUDGET_BYTES (64u << 20)
/* A batch is asked about in one request and encoded by one worker. */
#define BATCH_BYTES (16u << 20)
/* The first one is so small, each other up to twice as large as the one before: sending starts soon. */
#define FIRST_BATCH_BYTES (2u << 20)
#define BATCH_CHUNKS 256u
/* So much is handed over when a worker has nothing to do: what is in memory only is lost when the process dies. */
#define IDLE_BATCH_BYTES (4u << 20)
/* Slow content is not held back for a full batch. */
#define BATCH_MAX_AGE_US (G_USEC_PER_SEC)
/* So much is read and hashed at a time: it stays in the CPU's cache between the two. */
#define SLICE_BYTES (256u << 10)
#define MAX_WORKERS 2u
/* Where to cut mostly follows from so much. */
#define PLAN_FIRST_BYTES (256u << 10)

typedef struct {
  guint8 *data; /* decoded; NULL once it is encoded */
  gsize size;
  guint unit_bytes;
  guint64 offset_bytes;
  ChunkDigest digest;
  Sha256 blob_hash; /* behind this chunk */
  gboolean is_reference;
  guint8 *frame; /* NULL until the batch is done, and for a reference */
  gsize frame_size;
  guint8 reference[CHUNK_HEADER_SIZE];
} Chunk;

typedef struct {
  BufferPool *buffers; /* the pipeline's */
  GPtrArray *chunks;   /* Chunk */
  gsize bytes;
  gint64 started_us;
  gboolean is_done;
} Batch;

struct PushPipeline {
  Ctx *ctx; /* own child: cancelled to stop */
  Reader *content;
  PushPipelineConfig config;
  BufferPool *buffers;
  GThread *cutter;
  GThread *workers[MAX_WORKERS];
  guint n_workers;
  /* The rest is under the lock, but for what one thread has to itself. */
  GMutex lock;
  GCond changed;
  GQueue to_encode; /* Batch, borrowed from `ordered` */
  GQueue ordered;   /* Batch, in the order of the content */
  guint n_idle;     /* workers */
  gsize held_bytes;
  gboolean is_cut; /* the cutter came to the end */
  GError *error;   /* the first */
  /* The consumer's. */
  Batch *current;
  guint next_chunk;
  Chunk *given; /* its frame is in the consumer's hands */
  /* The cutter's. */
  ChunkPlan *plan;
  GByteArray *prefix; /* read to make the plan; served from memory */
  Sha256 blob_hash;
};

static void
drop_data (BufferPool *buffers, Chunk *chunk)
{
  buffer_pool_give (buffers, g_steal_pointer (&chunk->data), chunk_frame_bound (chunk->size));
}

static void
drop_frame (BufferPool *buffers, Chunk *chunk)
{
  buffer_pool_give (buffers, g_steal_pointer (&chunk->frame), chunk_frame_bound (chunk->size));
}

static Batch *
batch_new (BufferPool *buffers)
{
  Batch *self = g_new0 (Batch, 1);
  self->buffers = buffers;
  self->chunks = g_ptr_array_new_with_free_func (g_free);
  return self;
}

static void
batch_free (gpointer data)
{
  Batch *self = data;
  if (self == NULL)
    return;
  for (guint i = 0; i < self->chunks->len; i++)
    {
      drop_data (self->buffers, g_ptr_array_index (self->chunks, i));
      drop_frame (self->buffers, g_ptr_array_index (self->chunks, i));
    }
  g_ptr_array_unref (self->chunks);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Batch, batch_free)

static void
fail (PushPipeline *self, GError *error)
{
  g_mutex_lock (&self->lock);
  if (self->error == NULL)
    self->error = g_steal_pointer (&error);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  g_clear_error (&error);
  ctx_cancel (self->ctx);
}

/* Waits until `size` more bytes may be held. */
static gboolean
reserve (PushPipeline *self, gsize size)
{
  g_mutex_lock (&self->lock);
  while (self->error == NULL && self->held_bytes > 0 && self->held_bytes + size > BUDGET_BYTES)
    g_cond_wait (&self->changed, &self->lock);
  gboolean goes_on = self->error == NULL;
  self->held_bytes += size;
  g_mutex_unlock (&self->lock);
  return goes_on;
}

static void
release (PushPipeline *self, gsize size)
{
  g_mutex_lock (&self->lock);
  self->held_bytes -= size;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

/* What was read for the plan is not read twice. */
static gboolean
read_content (PushPipeline *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error)
{
  if (self->prefix != NULL && offset_bytes < self->prefix->len)
    {
      gsize n = (gsize) MIN (size, self->prefix->len - offset_bytes);
      memcpy (buffer, self->prefix->data + offset_bytes, n);
      offset_bytes += n;
      buffer += n;
      size -= n;
    }
  else
    g_clear_pointer (&self->prefix, g_byte_array_unref);
  return size == 0 || reader_read_at (self->ctx, self->content, offset_bytes, buffer, size, error);
}

/* Where to cut follows from the content's first bytes, wherever the pipeline starts: so a resumed push cuts as
 * the first one did. */
static gboolean
make_plan (PushPipeline *self, GError **error)
{
  guint64 total = self->content->size_bytes;
  gsize needed = (gsize) MIN (total, PLAN_FIRST_BYTES);
  self->prefix = g_byte_array_new ();
  while (self->plan == NULL)
    {
      gsize have = self->prefix->len;
      g_byte_array_set_size (self->prefix, (guint) needed);
      if (!reader_read_at (self->ctx, self->content, have, self->prefix->data + have, needed - have, error))
        return FALSE;
      gsize more = needed;
      self->plan = chunk_plan_probe (self->prefix->data, needed, needed == total, &more);
      needed = (gsize) MIN (total, MIN (MAX (more, needed + 1), CHUNK_PLAN_HEADER_LIMIT_BYTES));
    }
  return TRUE;
}

/* Reads one chunk, hashing blob and chunk side by side. Its buffer is of the size of a frame's, so that one can become
 * the other's. */
static Chunk *
cut_chunk (PushPipeline *self, guint64 offset_bytes, gsize size, guint unit_bytes, GError **error)
{
  Chunk *chunk = g_new0 (Chunk, 1);
  Blake3 hash;
  chunk->data = buffer_pool_take (self->buffers, chunk_frame_bound (size));
  chunk->size = size;
  chunk->unit_bytes = unit_bytes;
  chunk->offset_bytes = offset_bytes;
  blake3_init (&hash);
  for (gsize done = 0; done < size;)
    {
      gsize n = MIN (size - done, SLICE_BYTES);
      if (!ctx_check (self->ctx, error) || !read_content (self, offset_bytes + done, chunk->data + done, n, error))
        {
          drop_data (self->buffers, chunk);
          g_free (chunk);
          return NULL;
        }
      if (!self->config.is_unhashed)
        sha256_update (&self->blob_hash, chunk->data + done, n);
      blake3_update (&hash, chunk->data + done, n);
      done += n;
    }
  blake3_peek (&hash, chunk->digest.bytes);
  chunk->blob_hash = self->blob_hash;
  return chunk;
}

static void
hand_over (PushPipeline *self, Batch *batch)
{
  g_mutex_lock (&self->lock);
  g_queue_push_tail (&self->ordered, batch);
  g_queue_push_tail (&self->to_encode, batch);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static gboolean
somebody_waits (PushPipeline *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return self->n_idle > self->to_encode.length;
}

static gboolean
batch_is_full (PushPipeline *self, const Batch *batch, gsize limit_bytes)
{
  return batch->bytes >= limit_bytes || (batch->bytes >= IDLE_BATCH_BYTES && somebody_waits (self))
         || batch->chunks->len >= BATCH_CHUNKS || g_get_monotonic_time () - batch->started_us >= BATCH_MAX_AGE_US;
}

static gboolean
cut_all (PushPipeline *self, GError **error)
{
  guint64 total = self->content->size_bytes;
  gsize batch_bytes = FIRST_BATCH_BYTES;
  g_autoptr (Batch) batch = NULL;
  if (!make_plan (self, error))
    return FALSE;
  for (guint64 offset = self->config.offset_bytes; offset < total;)
    {
      guint unit_bytes = 0;
      gsize size = (gsize) MIN (chunk_plan_next (self->plan, offset, &unit_bytes), total - offset);
      if (!reserve (self, size))
        return am_fail (error, AM_ERROR_CANCELLED, NULL, "the push was stopped");
      Chunk *chunk = cut_chunk (self, offset, size, unit_bytes, error);
      if (chunk == NULL)
        return FALSE;
      if (batch == NULL)
        {
          batch = batch_new (self->buffers);
          batch->started_us = g_get_monotonic_time ();
        }
      g_ptr_array_add (batch->chunks, chunk);
      batch->bytes += size;
      offset += size;
      if (!batch_is_full (self, batch, batch_bytes) && offset < total)
        continue;
      hand_over (self, g_steal_pointer (&batch));
      batch_bytes = MIN (2 * batch_bytes, BATCH_BYTES);
    }
  return TRUE;
}

static gpointer
run_cutter (gpointer data)
{
  PushPipeline *self = data;
  GError *error = NULL;
  if (!cut_all (self, &error))
    {
      fail (self, error);
      return NULL;
    }
  g_mutex_lock (&self->lock);
  self->is_cut = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return NULL;
}

static void
make_frame (PushPipeline *self, Chunk *chunk, ChunkEncoder *encoder)
{
  if (chunk->is_reference)
    {
      ChunkHeader header = { CHUNK_ENCODING_REF, (guint32) chunk->size, 0, chunk->digest };
      chunk_header_write (&header, chunk->reference);
      chunk->frame_size = CHUNK_HEADER_SIZE;
    }
  else
    {
      chunk->frame = buffer_pool_take (self->buffers, chunk_frame_bound (chunk->size));
      chunk->frame_size = chunk_encode_into (encoder, chunk->unit_bytes, chunk->data, chunk->size, &chunk->digest,
                                             chunk->frame);
    }
  drop_data (self->buffers, chunk);
}

static gboolean
process (PushPipeline *self, Batch *batch, ChunkEncoder *encoder, GError **error)
{
  guint n = batch->chunks->len;
  g_autofree guint8 *digests = g_malloc (32 * n);
  g_autofree char *answers = g_malloc0 (n);
  for (guint i = 0; i < n; i++)
    memcpy (digests + 32 * i, ((Chunk *) g_ptr_array_index (batch->chunks, i))->digest.bytes, CHUNK_DIGEST_SIZE);
  if (!self->config.ask (self->ctx, self->config.data, digests, n, answers, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      Chunk *chunk = g_ptr_array_index (batch->chunks, i);
      chunk->is_reference = answers[i] == '1' && chunk->offset_bytes >= self->config.whole_until;
      if (!ctx_check (self->ctx, error))
        return FALSE;
      make_frame (self, chunk, encoder);
      if (chunk->is_reference)
        release (self, chunk->size);
    }
  return TRUE;
}

static Batch *
take_batch (PushPipeline *self)
{
  g_mutex_lock (&self->lock);
  self->n_idle++;
  while (self->to_encode.length == 0 && !self->is_cut && self->error == NULL)
    g_cond_wait (&self->changed, &self->lock);
  self->n_idle--;
  Batch *batch = self->error == NULL ? g_queue_pop_head (&self->to_encode) : NULL;
  g_mutex_unlock (&self->lock);
  return batch;
}

static gpointer
run_worker (gpointer data)
{
  PushPipeline *self = data;
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  for (Batch *batch = take_batch (self); batch != NULL; batch = take_batch (self))
    {
      GError *error = NULL;
      if (!process (self, batch, encoder, &error))
        {
          fail (self, error);
          break;
        }
      g_mutex_lock (&self->lock);
      batch->is_done = TRUE;
      g_cond_broadcast (&self->changed);
      g_mutex_unlock (&self->lock);
    }
  return NULL;
}

PushPipeline *
push_pipeline_new (Ctx *ctx, Reader *content, const PushPipelineConfig *config)
{
  PushPipeline *self = g_new0 (PushPipeline, 1);
  g_assert (config->offset_bytes <= content->size_bytes);
  self->ctx = ctx_new_child (ctx, -1);
  self->content = content;
  self->config = *config;
  self->buffers = buffer_pool_new ();
  self->blob_hash = config->blob_hash;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->to_encode);
  g_queue_init (&self->ordered);
  self->cutter = g_thread_new ("cutter", run_cutter, self);
  self->n_workers = CLAMP (g_get_num_processors (), 1, MAX_WORKERS);
  for (guint i = 0; i < self->n_workers; i++)
    self->workers[i] = g_thread_new ("encoder", run_worker, self);
  return self;
}

/* Moves on to the first finished batch. */
static PushNext
next_batch (PushPipeline *self, gint64 timeout_ms, GError **error)
{
  gint64 until_us = g_get_monotonic_time () + timeout_ms * 1000;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  while (TRUE)
    {
      Batch *head = g_queue_peek_head (&self->ordered);
      if (self->error != NULL)
        {
          g_propagate_error (error, g_error_copy (self->error));
          return PUSH_FAILED;
        }
      if (head != NULL && head->is_done)
        {
          self->current = g_queue_pop_head (&self->ordered);
          self->next_chunk = 0;
          return PUSH_FRAME;
        }
      if (head == NULL && self->is_cut)
        return PUSH_END;
      if (timeout_ms < 0)
        g_cond_wait (&self->changed, &self->lock);
      else if (!g_cond_wait_until (&self->changed, &self->lock, until_us))
        return PUSH_NOT_YET;
    }
}

/* What the consumer is through with goes. */
static void
drop_given (PushPipeline *self)
{
  if (self->given == NULL)
    return;
  if (!self->given->is_reference)
    release (self, self->given->size);
  drop_frame (self->buffers, self->given);
  self->given = NULL;
  if (self->next_chunk == self->current->chunks->len)
    g_clear_pointer (&self->current, batch_free);
}

PushNext
push_pipeline_next (PushPipeline *self, gint64 timeout_ms, PushFrame *out_frame, GError **error)
{
  drop_given (self);
  PushNext next = self->current != NULL ? PUSH_FRAME : next_batch (self, timeout_ms, error);
  if (next != PUSH_FRAME)
    return next;
  Chunk *chunk = g_ptr_array_index (self->current->chunks, self->next_chunk++);
  self->given = chunk;
  *out_frame = (PushFrame){ .end_bytes = chunk->offset_bytes + chunk->size,
                            .blob_hash = chunk->blob_hash,
                            .bytes = chunk->is_reference ? chunk->reference : chunk->frame,
                            .size = chunk->frame_size,
                            .is_reference = chunk->is_reference };
  return PUSH_FRAME;
}

void
push_pipeline_digest (PushPipeline *self, Digest *out_digest)
{
  sha256_peek (&self->blob_hash, out_digest);
}

void
push_pipeline_free (PushPipeline *self)
{
  if (self == NULL)
    return;
  fail (self, g_error_new_literal (AM_ERROR, AM_ERROR_CANCELLED, "the push was stopped"));
  g_thread_join (self->cutter);
  for (guint i = 0; i < self->n_workers; i++)
    g_thread_join (self->workers[i]);
  g_queue_clear (&self->to_encode);
  g_queue_clear_full (&self->ordered, batch_free);
  batch_free (self->current);
  buffer_pool_free (self->buffers);
  chunk_plan_free (self->plan);
  if (self->prefix != NULL)
    g_byte_array_unref (self->prefix);
  g_clear_error (&self->error);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  ctx_unref (self->ctx);
  g_free (self);
}
