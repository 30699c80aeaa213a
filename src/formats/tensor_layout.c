#include "formats/tensor_layout.h"

#include <string.h>

#include "formats/gguf.h"
#include "formats/safetensors.h"

void
tensor_layout_free (TensorLayout *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->spans);
  g_free (self);
}

static TensorLayout *
layout_new (guint64 header_bytes, guint n_spans)
{
  TensorLayout *self = g_new (TensorLayout, 1);
  self->header_bytes = header_bytes;
  self->spans = g_array_sized_new (FALSE, FALSE, sizeof (TensorSpan), n_spans);
  return self;
}

static void
add_span (TensorLayout *self, guint64 offset_bytes, guint64 size_bytes, guint8 unit_bytes)
{
  TensorSpan span = { offset_bytes, size_bytes, unit_bytes };
  if (size_bytes > 0)
    g_array_append_val (self->spans, span);
}

static TensorLayout *
layout_of_safetensors (const SafetensorsHeader *header)
{
  guint64 end;
  if (__builtin_add_overflow (header->header_bytes, header->data_bytes, &end))
    return NULL;
  TensorLayout *self = layout_new (header->header_bytes, header->tensors->len);
  for (guint i = 0; i < header->tensors->len; i++)
    {
      const SafetensorsTensor *tensor = &g_array_index (header->tensors, SafetensorsTensor, i);
      guint bits = safetensors_dtype_info (tensor->dtype)->bits;
      add_span (self, header->header_bytes + tensor->begin_bytes, tensor->end_bytes - tensor->begin_bytes,
                bits % 8 == 0 ? (guint8) (bits / 8) : 0);
    }
  return self;
}

/* A tensor of unknown type reaches to the next one; of the last one nothing is known. */
static TensorLayout *
layout_of_gguf (const GgufHeader *header)
{
  TensorLayout *self = layout_new (header->header_bytes, header->tensors->len);
  for (guint i = 0; i < header->tensors->len; i++)
    {
      const GgufTensor *tensor = &g_array_index (header->tensors, GgufTensor, i);
      const GgufTensorType *type = gguf_tensor_type (tensor->type);
      guint64 size_bytes = tensor->size_bytes;
      if (type->name == NULL && i + 1 < header->tensors->len)
        size_bytes = tensor[1].offset_bytes - tensor->offset_bytes;
      add_span (self, header->header_bytes + tensor->offset_bytes, size_bytes, type->unit_bytes);
    }
  return self;
}

static TensorLayoutVerdict
need (gsize needed_bytes, gsize limit_bytes, gsize *out_needed_bytes)
{
  if (needed_bytes > limit_bytes)
    return TENSOR_LAYOUT_NONE;
  *out_needed_bytes = needed_bytes;
  return TENSOR_LAYOUT_NEED_MORE;
}

static TensorLayoutVerdict
found (TensorLayout *layout, TensorLayout **out_layout)
{
  if (layout == NULL)
    return TENSOR_LAYOUT_NONE;
  *out_layout = layout;
  return TENSOR_LAYOUT_FOUND;
}

static TensorLayoutVerdict
probe_safetensors (const guint8 *prefix, gsize size, gsize limit_bytes, TensorLayout **out_layout,
                   gsize *out_needed_bytes)
{
  guint64 header_bytes;
  memcpy (&header_bytes, prefix, sizeof header_bytes);
  header_bytes = GUINT64_FROM_LE (header_bytes);
  if (header_bytes < 2 || header_bytes > SAFETENSORS_MAX_HEADER_BYTES)
    return TENSOR_LAYOUT_NONE;
  if (size > 8 && strchr ("{ \n\r\t", prefix[8] != 0 ? prefix[8] : 'x') == NULL)
    return TENSOR_LAYOUT_NONE;
  if (header_bytes > size - 8)
    return need ((gsize) header_bytes + 8, limit_bytes, out_needed_bytes);
  g_autoptr (SafetensorsHeader) header = safetensors_parse ((const char *) prefix + 8, (gsize) header_bytes, NULL);
  return header == NULL ? TENSOR_LAYOUT_NONE : found (layout_of_safetensors (header), out_layout);
}

/* The header says nowhere how long it is, so it is read from its start again with twice the bytes. */
static TensorLayoutVerdict
probe_gguf (const guint8 *prefix, gsize size, gsize limit_bytes, TensorLayout **out_layout, gsize *out_needed_bytes)
{
  gsize needed_bytes;
  g_autoptr (GgufHeader) header = gguf_parse_prefix (prefix, size, &needed_bytes, NULL);
  if (header != NULL)
    return found (layout_of_gguf (header), out_layout);
  if (needed_bytes == 0)
    return TENSOR_LAYOUT_NONE;
  if (needed_bytes <= limit_bytes)
    needed_bytes = MAX (needed_bytes, MIN (2 * size, limit_bytes));
  return need (needed_bytes, limit_bytes, out_needed_bytes);
}

TensorLayoutVerdict
tensor_layout_probe (const guint8 *prefix, gsize size, gsize limit_bytes, TensorLayout **out_layout,
                     gsize *out_needed_bytes)
{
  size = MIN (size, limit_bytes);
  if (size < 8)
    return need (8, limit_bytes, out_needed_bytes);
  if (memcmp (prefix, "GGUF", 4) == 0)
    return probe_gguf (prefix, size, limit_bytes, out_layout, out_needed_bytes);
  return probe_safetensors (prefix, size, limit_bytes, out_layout, out_needed_bytes);
}
