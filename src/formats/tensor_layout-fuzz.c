/* Any bytes, read from growing prefixes: the probe asks for more until it decides, and then every longer prefix
 * gives the same verdict and the same spans, which ascend without overlap. */
#include "formats/tensor_layout.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_spans (const TensorLayout *layout)
{
  guint64 end = layout->header_bytes;
  for (guint i = 0; i < layout->spans->len; i++)
    {
      const TensorSpan *span = &g_array_index (layout->spans, TensorSpan, i);
      g_assert_cmpuint (span->offset_bytes, >=, end);
      g_assert_cmpuint (span->size_bytes, >, 0);
      end = span->offset_bytes + span->size_bytes;
      g_assert_cmpuint (end, >, span->offset_bytes);
    }
}

static void
check_same (const TensorLayout *a, const TensorLayout *b)
{
  g_assert_cmpuint (a->header_bytes, ==, b->header_bytes);
  g_assert_cmpuint (a->spans->len, ==, b->spans->len);
  for (guint i = 0; i < a->spans->len; i++)
    {
      const TensorSpan *x = &g_array_index (a->spans, TensorSpan, i), *y = &g_array_index (b->spans, TensorSpan, i);
      g_assert_true (x->offset_bytes == y->offset_bytes && x->size_bytes == y->size_bytes
                     && x->unit_bytes == y->unit_bytes);
    }
}

static void
check_limit (const guint8 *data, gsize size, gsize limit)
{
  g_autoptr (TensorLayout) whole = NULL;
  gsize needed, step = MAX (size / 4, 1);
  TensorLayoutVerdict final = tensor_layout_probe (data, size, limit, &whole, &needed);
  gboolean decided = FALSE;
  if (whole != NULL)
    check_spans (whole);
  for (gsize prefix = 0; prefix <= size; prefix += step)
    {
      g_autofree guint8 *copy = g_memdup2 (data, prefix); /* so that a read beyond is seen */
      g_autoptr (TensorLayout) layout = NULL;
      TensorLayoutVerdict verdict = tensor_layout_probe (copy != NULL ? copy : data, prefix, limit, &layout, &needed);
      if (verdict == TENSOR_LAYOUT_NEED_MORE)
        {
          g_assert_false (decided);
          g_assert_true (needed > prefix && needed <= limit);
          continue;
        }
      decided = TRUE;
      g_assert_cmpint (verdict, ==, final);
      if (layout != NULL)
        check_same (layout, whole);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  check_limit (data, size, size % 4 != 0 ? 1 << 24 : MAX (size / 2, 8));
  return 0;
}
