#include "storage/chunk_plan.h"

#include "storage/chunk_frame.h"

struct ChunkPlan {
  TensorLayout *layout; /* NULL: cut blindly */
  guint next_span;      /* first span that may still matter */
};

ChunkPlan *
chunk_plan_new (TensorLayout *layout)
{
  ChunkPlan *self = g_new0 (ChunkPlan, 1);
  self->layout = layout;
  return self;
}

ChunkPlan *
chunk_plan_probe (const guint8 *prefix, gsize size, gboolean is_whole, gsize *out_needed_bytes)
{
  g_autoptr (TensorLayout) layout = NULL;
  TensorLayoutVerdict verdict = tensor_layout_probe (prefix, size, CHUNK_PLAN_HEADER_LIMIT_BYTES, &layout,
                                                     out_needed_bytes);
  if (verdict == TENSOR_LAYOUT_NEED_MORE && !is_whole && size < CHUNK_PLAN_HEADER_LIMIT_BYTES)
    return NULL;
  return chunk_plan_new (verdict == TENSOR_LAYOUT_FOUND ? g_steal_pointer (&layout) : NULL);
}

void
chunk_plan_free (ChunkPlan *self)
{
  if (self == NULL)
    return;
  tensor_layout_free (self->layout);
  g_free (self);
}

static const TensorSpan *
span_at (const ChunkPlan *self, guint index)
{
  return index < self->layout->spans->len ? &g_array_index (self->layout->spans, TensorSpan, index) : NULL;
}

static guint64
span_end (const TensorSpan *span)
{
  return span->offset_bytes + span->size_bytes;
}

/* Small tensors from `offset` on, with what lies between them, up to the next large one. */
static gsize
group_small (const ChunkPlan *self, guint64 offset, guint *out_unit_bytes)
{
  guint64 weights[9] = { 0 };
  guint64 end = offset;
  for (guint i = self->next_span;; i++)
    {
      const TensorSpan *span = span_at (self, i);
      if (span == NULL)
        {
          if (end == offset)
            end = offset + CHUNK_MAX_BYTES; /* behind the last tensor */
          break;
        }
      if (span->size_bytes >= CHUNK_LARGE_TENSOR_BYTES && span->offset_bytes > offset)
        {
          end = MAX (end, MIN (span->offset_bytes, offset + CHUNK_MAX_BYTES));
          break;
        }
      if (span_end (span) - offset > CHUNK_MAX_BYTES)
        {
          if (end == offset)
            end = MIN (span->offset_bytes, offset + CHUNK_MAX_BYTES); /* a gap no tensor explains */
          break;
        }
      weights[span->unit_bytes] += span->size_bytes;
      end = span_end (span);
    }
  guint unit = 0;
  for (guint i = 1; i < G_N_ELEMENTS (weights); i++)
    if (weights[i] > weights[unit])
      unit = i;
  *out_unit_bytes = weights[unit] > 0 ? unit : 0;
  return (gsize) (end - offset);
}

gsize
chunk_plan_next (ChunkPlan *self, guint64 offset_bytes, guint *out_unit_bytes)
{
  *out_unit_bytes = 0;
  if (self->layout == NULL)
    return CHUNK_MAX_BYTES;
  if (offset_bytes < self->layout->header_bytes)
    return (gsize) MIN (CHUNK_MAX_BYTES, self->layout->header_bytes - offset_bytes);
  const TensorSpan *span = span_at (self, self->next_span);
  while (span != NULL && span_end (span) <= offset_bytes)
    span = span_at (self, ++self->next_span);
  if (span == NULL || span->size_bytes < CHUNK_LARGE_TENSOR_BYTES || span->offset_bytes > offset_bytes)
    return group_small (self, offset_bytes, out_unit_bytes);
  *out_unit_bytes = span->unit_bytes;
  return (gsize) MIN (CHUNK_MAX_BYTES, span_end (span) - offset_bytes);
}
