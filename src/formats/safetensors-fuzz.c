/* Any bytes as a safetensors file: refused with a reason, or every byte belongs to exactly one tensor, every
 * name is there once and found, and the layout probe agrees. */
#include "formats/safetensors.h"

#include "formats/tensor_layout.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_tensors (const SafetensorsHeader *header)
{
  guint64 end = 0;
  g_assert_cmpuint (header->by_name->len, ==, header->tensors->len);
  for (guint i = 0; i < header->tensors->len; i++)
    {
      const SafetensorsTensor *tensor = &g_array_index (header->tensors, SafetensorsTensor, i);
      guint64 n = 1;
      g_assert_cmpuint (tensor->begin_bytes, ==, end);
      for (guint j = 0; j < tensor->n_dims; j++)
        n *= tensor->dims[j];
      g_assert_cmpuint (n, ==, tensor->n_elements);
      end = tensor->end_bytes;
      g_assert_cmpuint (n * safetensors_dtype_info (tensor->dtype)->bits / 8, ==, end - tensor->begin_bytes);
      g_assert_true (safetensors_find (header, tensor->name, tensor->name_size) == tensor);
    }
  g_assert_cmpuint (header->data_bytes, ==, end);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  g_autoptr (Reader) reader = reader_new_bytes (bytes);
  g_autoptr (GError) error = NULL;
  g_autoptr (SafetensorsHeader) header = safetensors_read (NULL, reader, &error);
  if (header == NULL)
    {
      g_assert_nonnull (am_error_reason (error));
      return 0;
    }
  check_tensors (header);
  g_assert_cmpuint (header->header_bytes + header->data_bytes, ==, size);
  gsize needed;
  g_autoptr (TensorLayout) layout = NULL;
  g_assert_cmpint (tensor_layout_probe (data, size, size, &layout, &needed), ==, TENSOR_LAYOUT_FOUND);
  g_assert_cmpuint (layout->header_bytes, ==, header->header_bytes);
  return 0;
}
