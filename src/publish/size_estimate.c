#include "publish/size_estimate.h"

#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"

#define N_SAMPLES 8u
#define SAMPLE_BYTES (1u << 20)
/* Numbers of any width begin there. */
#define SAMPLE_ALIGNMENT 64u
/* Where to look for tensors; a longer header is only read as far. */
#define HEADER_BYTES (256u << 10)
#define HEADER_MAX_BYTES (2u << 20)

typedef struct {
  ChunkEncoder *encoder;
  guint64 decoded_bytes, encoded_bytes;
} Sampling;

static gboolean
is_cut (const SelectedFile *file)
{
  return selected_file_is_kept (file) && file->role == FILE_WEIGHTS && file->size_bytes > BLOB_WHOLE_MAX_BYTES;
}

static ChunkPlan *
read_plan (Ctx *ctx, Reader *reader, GError **error)
{
  g_autoptr (GByteArray) head = g_byte_array_new ();
  gsize limit = (gsize) MIN (HEADER_MAX_BYTES, reader->size_bytes);
  for (gsize needed = MIN (HEADER_BYTES, limit);;)
    {
      gsize have = head->len, more = 0;
      g_byte_array_set_size (head, (guint) needed);
      if (!reader_read_at (ctx, reader, have, head->data + have, needed - have, error))
        return NULL;
      ChunkPlan *plan = chunk_plan_probe (head->data, needed, needed == limit, &more);
      if (plan != NULL)
        return plan;
      needed = MIN (MAX (more, needed + 1), limit);
    }
}

static gboolean
take_sample (Ctx *ctx, Sampling *self, Reader *reader, ChunkPlan *plan, guint64 offset_bytes, GError **error)
{
  guint unit_bytes = 0;
  gsize size = (gsize) MIN (SAMPLE_BYTES, reader->size_bytes - offset_bytes);
  g_autofree guint8 *bytes = g_malloc (size), *frame = g_malloc (chunk_frame_bound (size));
  ChunkDigest digest = { 0 };
  chunk_plan_next (plan, offset_bytes, &unit_bytes);
  if (!reader_read_at (ctx, reader, offset_bytes, bytes, size, error))
    return FALSE;
  self->decoded_bytes += size;
  self->encoded_bytes += chunk_encode_into (self->encoder, unit_bytes, bytes, size, &digest, frame);
  return TRUE;
}

/* Takes those of the samples, which lie evenly over all weights, that fall into this file: the weights before it have
 * `before` bytes. */
static gboolean
sample_file (Ctx *ctx, Sampling *self, const PublishPlan *plan, const SelectedFile *file, guint64 before,
             guint64 total, GError **error)
{
  g_autoptr (Reader) reader = NULL;
  g_autoptr (ChunkPlan) cuts = NULL;
  for (guint i = 0; i < N_SAMPLES; i++)
    {
      guint64 at = total / N_SAMPLES * i + total / N_SAMPLES / 2;
      if (at < before || at - before >= file->size_bytes)
        continue;
      if (reader == NULL)
        reader = model_source_open (plan->source, file->path, error);
      if (cuts == NULL)
        cuts = reader != NULL ? read_plan (ctx, reader, error) : NULL;
      guint64 offset = (at - before) / SAMPLE_ALIGNMENT * SAMPLE_ALIGNMENT;
      if (cuts == NULL || !take_sample (ctx, self, reader, cuts, offset, error))
        {
          g_prefix_error (error, "%s: ", file->target);
          return FALSE;
        }
    }
  return TRUE;
}

gboolean
publish_plan_estimate (Ctx *ctx, const PublishPlan *plan, guint64 *out_stored_bytes, GError **error)
{
  const GArray *files = plan->selection->files;
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  Sampling sampling = { .encoder = encoder };
  guint64 total = 0, before = 0;
  for (guint i = 0; i < files->len; i++)
    total += is_cut (&g_array_index (files, SelectedFile, i)) ? g_array_index (files, SelectedFile, i).size_bytes : 0;
  for (guint i = 0; i < files->len; i++)
    {
      const SelectedFile *file = &g_array_index (files, SelectedFile, i);
      if (!is_cut (file))
        continue;
      if (!sample_file (ctx, &sampling, plan, file, before, total, error))
        return FALSE;
      before += file->size_bytes;
    }
  double ratio = sampling.decoded_bytes > 0 ? (double) sampling.encoded_bytes / (double) sampling.decoded_bytes : 1;
  *out_stored_bytes = plan->total_bytes - total + (guint64) ((double) total * ratio);
  return TRUE;
}
