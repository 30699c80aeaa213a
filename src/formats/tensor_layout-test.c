#include "formats/tensor_layout.h"

#include <string.h>

#include "formats/formats_fixture.h"

#define LIMIT (64 * 1024 * 1024)

static TensorLayoutVerdict
probe (GBytes *bytes, gsize size, TensorLayout **out_layout, gsize *out_needed)
{
  g_autofree guint8 *copy = g_memdup2 (g_bytes_get_data (bytes, NULL), size);
  return tensor_layout_probe (copy != NULL ? copy : (const guint8 *) "", size, LIMIT, out_layout, out_needed);
}

static void
assert_same (const TensorLayout *a, const TensorLayout *b)
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

/* Asks with every prefix: more, more, ... then always the same. */
static TensorLayout *
probe_all (GBytes *bytes, TensorLayoutVerdict expected)
{
  TensorLayout *whole = NULL;
  gsize needed;
  gboolean decided = FALSE;
  TensorLayoutVerdict verdict = probe (bytes, g_bytes_get_size (bytes), &whole, &needed);
  g_assert_cmpint (verdict, ==, expected);
  for (gsize size = 0; size <= g_bytes_get_size (bytes); size++)
    {
      g_autoptr (TensorLayout) layout = NULL;
      TensorLayoutVerdict now = probe (bytes, size, &layout, &needed);
      if (now == TENSOR_LAYOUT_NEED_MORE)
        {
          g_assert_false (decided);
          g_assert_cmpuint (needed, >, size);
          continue;
        }
      decided = TRUE;
      g_assert_cmpint (now, ==, expected);
      if (layout != NULL)
        assert_same (layout, whole);
    }
  return whole;
}

static void
test_safetensors (void)
{
  g_autoptr (GBytes) bytes = fixture_safetensors (
    "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"
    "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
    "\"c\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[12,13]},"
    "\"d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[12,12]},"
    "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[13,14]},"
    "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[14,18]}} ",
    18);
  static const guint8 units[] = { 8, 2, 0, 1, 4 };
  static const guint64 sizes[] = { 8, 4, 1, 1, 4 };
  g_autoptr (TensorLayout) layout = probe_all (bytes, TENSOR_LAYOUT_FOUND);
  guint64 offset = g_bytes_get_size (bytes) - 18;
  g_assert_cmpuint (layout->header_bytes, ==, offset);
  g_assert_cmpuint (layout->spans->len, ==, G_N_ELEMENTS (units));
  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    {
      const TensorSpan *span = &g_array_index (layout->spans, TensorSpan, i);
      g_assert_cmpuint (span->offset_bytes, ==, offset);
      g_assert_cmpuint (span->size_bytes, ==, sizes[i]);
      g_assert_cmpuint (span->unit_bytes, ==, units[i]);
      offset += sizes[i];
    }
}

static void
test_gguf (void)
{
  GgufBuilder *b = gguf_builder_new (3, 4, 2);
  gguf_builder_pair_string (b, "general.architecture", "llama");
  gguf_builder_pair_strings (b, "tokenizer.ggml.tokens", 300, "x");
  gguf_builder_tensor (b, "f16", 16, 0, 1, 0);
  gguf_builder_tensor (b, "q4", 32, 0, 2, 32);
  gguf_builder_tensor (b, "unknown", 32, 0, 99, 64);
  gguf_builder_tensor (b, "last", 8, 0, 0, 128);
  g_autoptr (GBytes) bytes = gguf_builder_finish (b, 32, 160);
  g_autoptr (TensorLayout) layout = probe_all (bytes, TENSOR_LAYOUT_FOUND);
  static const TensorSpan spans[] = { { 0, 32, 2 }, { 32, 18, 0 }, { 64, 64, 0 }, { 128, 32, 4 } };
  g_assert_cmpuint (layout->spans->len, ==, G_N_ELEMENTS (spans));
  for (guint i = 0; i < G_N_ELEMENTS (spans); i++)
    {
      const TensorSpan *span = &g_array_index (layout->spans, TensorSpan, i);
      g_assert_cmpuint (span->offset_bytes, ==, layout->header_bytes + spans[i].offset_bytes);
      g_assert_cmpuint (span->size_bytes, ==, spans[i].size_bytes);
      g_assert_cmpuint (span->unit_bytes, ==, spans[i].unit_bytes);
    }
}

static void
test_none (void)
{
  static const char *const texts[] = {
    "{\"error\":\"no\"} and more text",
    "PK\3\4 and so on and on",
    "version https://git-lfs.github.com/spec/v1\n",
  };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (GBytes) bytes = fixture_text (texts[i]);
      g_assert_null (probe_all (bytes, TENSOR_LAYOUT_NONE));
    }
  g_autoptr (GBytes) version = gguf_builder_finish (gguf_builder_new (4, 0, 0), 1, 0);
  g_assert_null (probe_all (version, TENSOR_LAYOUT_NONE));
  g_autoptr (GBytes) hole = fixture_safetensors ("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                                 2);
  g_assert_null (probe_all (hole, TENSOR_LAYOUT_NONE));
  g_autoptr (GBytes) tiny = fixture_text ("tiny");
  g_assert_null (probe_all (tiny, TENSOR_LAYOUT_NEED_MORE));
  g_autoptr (GBytes) empty = fixture_safetensors ("{}", 0);
  g_autoptr (TensorLayout) layout = probe_all (empty, TENSOR_LAYOUT_FOUND);
  g_assert_cmpuint (layout->spans->len, ==, 0);
}

/* Above the limit the verdict is NONE for every prefix that tells. */
static void
test_limit (void)
{
  TensorLayout *layout = NULL;
  gsize needed, size;
  g_autoptr (GBytes) bytes = fixture_safetensors ("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                                                  1);
  const guint8 *data = g_bytes_get_data (bytes, &size);
  g_assert_cmpint (tensor_layout_probe (data, size, size - 1, &layout, &needed), ==, TENSOR_LAYOUT_FOUND);
  g_clear_pointer (&layout, tensor_layout_free);
  g_assert_cmpint (tensor_layout_probe (data, size, size - 2, &layout, &needed), ==, TENSOR_LAYOUT_NONE);
  g_assert_cmpint (tensor_layout_probe (data, 8, size - 2, &layout, &needed), ==, TENSOR_LAYOUT_NONE);
  GgufBuilder *b = gguf_builder_new (3, 0, 1);
  gguf_builder_pair_strings (b, "tokenizer.ggml.tokens", 100, "0123456789");
  g_autoptr (GBytes) gguf = gguf_builder_finish (b, 1, 0);
  data = g_bytes_get_data (gguf, &size);
  for (gsize i = 8; i <= size; i++)
    {
      TensorLayoutVerdict verdict = tensor_layout_probe (data, i, 1000, &layout, &needed);
      gboolean over = i + 8 + 10 > 1000; /* the next string ends beyond the limit */
      if (verdict == TENSOR_LAYOUT_NEED_MORE)
        g_assert_true (i < 1000 && needed > i && needed <= 1000);
      else
        g_assert_true (over && verdict == TENSOR_LAYOUT_NONE);
    }
}

/* The whole way of a stream: come back with what was asked for. Doubling bounds the work. */
static void
test_doubling (void)
{
  GgufBuilder *b = gguf_builder_new (3, 0, 1);
  gguf_builder_pair_strings (b, "tokenizer.ggml.tokens", 200000, "0123456789");
  g_autoptr (GBytes) bytes = gguf_builder_finish (b, 32, 0);
  gsize size, needed = 8;
  guint n_probes = 0;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  g_autoptr (TensorLayout) layout = NULL;
  TensorLayoutVerdict verdict;
  do
    {
      verdict = tensor_layout_probe (data, MIN (needed, size), LIMIT, &layout, &needed);
      n_probes++;
    }
  while (verdict == TENSOR_LAYOUT_NEED_MORE);
  g_assert_cmpint (verdict, ==, TENSOR_LAYOUT_FOUND);
  g_assert_cmpuint (n_probes, <, 25);
}

static void
test_fast (void)
{
  g_autoptr (GString) text = g_string_new ("{");
  guint n = 100000;
  for (guint i = 0; i < n; i++)
    g_string_append_printf (
      text, "%s\"model.layers.%u.weight\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
      i > 0 ? "," : "", i, 2 * i, 2 * i + 2);
  g_string_append_c (text, '}');
  g_autoptr (GBytes) bytes = fixture_safetensors (text->str, 0);
  gint64 start = g_get_monotonic_time ();
  gsize needed;
  g_autoptr (TensorLayout) layout = NULL;
  g_assert_cmpint (probe (bytes, g_bytes_get_size (bytes), &layout, &needed), ==, TENSOR_LAYOUT_FOUND);
  g_assert_cmpuint (layout->spans->len, ==, n);
  g_test_message ("%u tensors in %" G_GINT64_FORMAT " us", n, g_get_monotonic_time () - start);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 10 * G_USEC_PER_SEC);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tensor-layout/safetensors", test_safetensors);
  g_test_add_func ("/tensor-layout/gguf", test_gguf);
  g_test_add_func ("/tensor-layout/none", test_none);
  g_test_add_func ("/tensor-layout/limit", test_limit);
  g_test_add_func ("/tensor-layout/doubling", test_doubling);
  g_test_add_func ("/tensor-layout/fast", test_fast);
  return g_test_run ();
}
