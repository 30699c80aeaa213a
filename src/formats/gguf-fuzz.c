/* Any bytes as a GGUF file: refused with a reason, or all tensors of known size lie apart inside the file, keys
 * are found, and reading from a prefix gives the same. */
#include "formats/gguf.h"
#include "formats/gguf_facts.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_header (const GgufHeader *header, gsize size)
{
  guint64 end = 0;
  for (guint i = 0; i < header->tensors->len; i++)
    {
      const GgufTensor *tensor = &g_array_index (header->tensors, GgufTensor, i);
      g_assert_cmpuint (tensor->offset_bytes, >=, end);
      g_assert_cmpuint (tensor->offset_bytes % header->alignment, ==, 0);
      end = tensor->offset_bytes + tensor->size_bytes;
      g_assert_cmpuint (header->header_bytes + end, <=, size);
    }
  for (guint i = 0; i < header->values->len; i++)
    {
      const GgufValue *value = &g_array_index (header->values, GgufValue, i);
      g_assert_true (gguf_find (header, value->key) == value);
      g_assert_true (value->strings == NULL || value->strings->len <= value->n);
    }
}

static void
read_facts (const GgufHeader *header)
{
  guint64 histogram[GGUF_FACTS_N_TYPES] = { 0 };
  GgufSplit split;
  g_autoptr (ModelFacts) facts = model_facts_new (MODEL_FORMAT_GGUF);
  gguf_kind (header);
  gguf_facts_read (header, facts);
  gguf_facts_count (header, facts, histogram);
  gguf_facts_quantization (header, histogram, facts);
  gguf_split (header, &split, NULL);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  g_autoptr (Reader) reader = reader_new_bytes (bytes);
  g_autoptr (GError) error = NULL;
  g_autoptr (GgufHeader) header = gguf_read (NULL, reader, &error);
  if (header == NULL)
    {
      g_assert_nonnull (am_error_reason (error));
      return 0;
    }
  gsize needed;
  g_autoptr (GgufHeader) again = gguf_parse_prefix (data, size, &needed, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (needed, ==, 0);
  g_assert_cmpuint (again->header_bytes, ==, header->header_bytes);
  g_assert_cmpuint (again->end_bytes, ==, header->end_bytes);
  check_header (header, size);
  read_facts (header);
  return 0;
}
