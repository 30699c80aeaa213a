#include "formats/gguf.h"

#include <string.h>

#include "formats/formats_fixture.h"

#define F32 0
#define Q4_0 2

static GgufHeader *
read_bytes (GBytes *bytes, GError **error)
{
  g_autoptr (Reader) reader = fixture_reader (bytes);
  return gguf_read (NULL, reader, error);
}

static void
expect_error (GBytes *bytes, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GgufHeader) header = read_bytes (bytes, &error);
  g_assert_null (header);
  fixture_assert_error (&error, part);
}

static GgufHeader *
expect_good (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  GgufHeader *header = read_bytes (bytes, &error);
  g_assert_no_error (error);
  return header;
}

/* A small whole model: two tensors of 32 + 18 bytes. */
static GgufBuilder *
small_model (void)
{
  GgufBuilder *b = gguf_builder_new (3, 2, 2);
  gguf_builder_pair_string (b, "general.architecture", "llama");
  gguf_builder_pair_u64 (b, "llama.context_length", 4096);
  gguf_builder_tensor (b, "norm", 8, 0, F32, 0);
  gguf_builder_tensor (b, "weight", 32, 1, Q4_0, 32);
  return b;
}

static void
test_header (void)
{
  expect_error (fixture_text (""), "truncated");
  expect_error (fixture_text ("GGUF"), "truncated");
  expect_error (fixture_text ("GGUF\3"), "truncated");
  expect_error (fixture_cut (gguf_builder_finish (gguf_builder_new (3, 0, 0), 1, 0), 8), "truncated");
  expect_error (fixture_cut (gguf_builder_finish (gguf_builder_new (3, 0, 0), 1, 0), 23), "truncated");
  g_autoptr (GgufHeader) empty = expect_good (gguf_builder_finish (gguf_builder_new (3, 0, 0), 1, 0));
  g_assert_null (gguf_string (empty, "general.architecture"));
  g_autoptr (GgufHeader) padded = expect_good (gguf_builder_finish (gguf_builder_new (2, 0, 0), 32, 0));
  g_assert_cmpuint (padded->version, ==, 2);
  expect_error (gguf_builder_finish (gguf_builder_new (1, 0, 0), 1, 0), "version 1 is obsolete");
  expect_error (gguf_builder_finish (gguf_builder_new (4, 0, 0), 1, 0), "unsupported GGUF version 4");
  expect_error (gguf_builder_finish (gguf_builder_new (0, 0, 0), 1, 0), "unsupported GGUF version 0");
  expect_error (gguf_builder_finish (gguf_builder_new (0x03000000, 0, 0), 1, 0), "big-endian");
  expect_error (gguf_builder_finish (gguf_builder_new (3, G_MAXUINT64, 0), 1, 0), "tensors, at most");
  expect_error (gguf_builder_finish (gguf_builder_new (3, 0, G_MAXUINT64), 1, 0), "metadata pairs, at most");
  expect_error (gguf_builder_finish (gguf_builder_new (3, 1000, 0), 1, 0), "do not fit");
  expect_error (fixture_text ("ggjt\3aaaaaaaaaaaaaaaaaaa"), "obsolete");
  expect_error (fixture_text ("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull");
  expect_error (fixture_text ("<!doctype html>"), "web page");
  expect_error (fixture_text ("NOPE\3\0\0\0aaaaaaaaaaaaaaaaaaa"), "magic");
}

static void
test_good (void)
{
  g_autoptr (GgufHeader) header = expect_good (gguf_builder_finish (small_model (), 32, 50));
  guint64 context;
  g_assert_cmpstr (gguf_string (header, "general.architecture"), ==, "llama");
  g_assert_true (gguf_value_u64 (gguf_find_arch (header, "context_length"), &context));
  g_assert_cmpuint (context, ==, 4096);
  g_assert_false (gguf_value_u64 (gguf_find_arch (header, "block_count"), &context));
  g_assert_cmpuint (header->tensors->len, ==, 2);
  g_assert_cmpuint (header->header_bytes % 32, ==, 0);
  const GgufTensor *weight = &g_array_index (header->tensors, GgufTensor, 1);
  g_assert_cmpstr (weight->name, ==, "weight");
  g_assert_cmpuint (weight->size_bytes, ==, 18);
  g_assert_cmpuint (weight->n_elements, ==, 32);
  g_assert_cmpuint (header->end_bytes, ==, header->header_bytes + 50);
}

static void
test_file_size (void)
{
  expect_error (gguf_builder_finish (small_model (), 32, 49), "truncated: the GGUF header says");
  g_autoptr (GgufHeader) padded = expect_good (gguf_builder_finish (small_model (), 32, 64));
  g_autoptr (GgufHeader) odd = expect_good (gguf_builder_finish (small_model (), 32, 50 + 31));
  g_assert_cmpuint (padded->end_bytes, ==, odd->end_bytes);
  expect_error (gguf_builder_finish (small_model (), 32, 50 + 32), "32 surplus bytes");
  /* A whole model behind a model. */
  expect_error (fixture_grow (gguf_builder_finish (small_model (), 32, 64), 4096), "surplus");
}

typedef struct {
  guint64 dim0, dim1;
  guint32 type;
  guint64 offset;
} TensorCase;

static GBytes *
one_tensor (TensorCase t, gsize data_bytes)
{
  GgufBuilder *b = gguf_builder_new (3, 1, 0);
  gguf_builder_text (b, "t");
  gguf_builder_u32 (b, 2);
  gguf_builder_u64 (b, t.dim0);
  gguf_builder_u64 (b, t.dim1);
  gguf_builder_u32 (b, t.type);
  gguf_builder_u64 (b, t.offset);
  return gguf_builder_finish (b, 32, data_bytes);
}

static void
test_tensors (void)
{
  static const struct {
    TensorCase tensor;
    const char *part;
  } bad[] = {
    { { G_GUINT64_CONSTANT (1) << 32, G_GUINT64_CONSTANT (1) << 32, F32, 0 }, "overflows" },
    { { G_MAXUINT64, 2, F32, 0 }, "overflows" },
    { { G_MAXINT64, 1, F32, 0 }, "size overflows" },
    { { 33, 1, Q4_0, 0 }, "not a multiple" },
    { { 8, 1, F32, 16 }, "not aligned" },
    { { 8, 1, F32, 64 }, "truncated" },
    { { 8, 1, F32, G_MAXUINT64 - 31 }, "overflows" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    expect_error (one_tensor (bad[i].tensor, 32), bad[i].part);
  /* llama.cpp#25596: no division by a dimension of zero. */
  g_autoptr (GgufHeader) zero = expect_good (one_tensor ((TensorCase){ 1, 0, F32, 0 }, 0));
  g_assert_cmpuint (g_array_index (zero->tensors, GgufTensor, 0).n_elements, ==, 0);
  g_autoptr (GgufHeader) zeros = expect_good (one_tensor ((TensorCase){ 0, 0, F32, 0 }, 0));
  g_assert_cmpuint (g_array_index (zeros->tensors, GgufTensor, 0).n_elements, ==, 0);
  static const guint32 unknown[] = { 4, 31, 36, 43, 99, G_MAXUINT32 };
  for (guint i = 0; i < G_N_ELEMENTS (unknown); i++)
    {
      g_autoptr (GgufHeader) header = expect_good (one_tensor ((TensorCase){ 7, 3, unknown[i], 0 }, 4096));
      g_assert_cmpuint (header->n_unknown_types, ==, 1);
      g_assert_null (gguf_tensor_type (unknown[i])->name);
    }
}

static void
test_more_tensors (void)
{
  GgufBuilder *b = gguf_builder_new (3, 2, 0);
  gguf_builder_tensor (b, "a", 16, 0, F32, 0);
  gguf_builder_tensor (b, "b", 16, 0, F32, 32);
  expect_error (gguf_builder_finish (b, 32, 128), "overlaps");
  b = gguf_builder_new (3, 2, 0);
  gguf_builder_tensor (b, "a", 8, 0, F32, 0);
  gguf_builder_tensor (b, "a", 8, 0, F32, 32);
  expect_error (gguf_builder_finish (b, 32, 64), "twice");
  b = gguf_builder_new (3, 1, 0);
  gguf_builder_text (b, "t");
  gguf_builder_u32 (b, 5);
  expect_error (gguf_builder_finish (b, 32, 64), "more than 4 dimensions");
  b = gguf_builder_new (3, 1, 0);
  gguf_builder_u64 (b, G_MAXUINT64);
  expect_error (gguf_builder_finish (b, 1, 64), "tensor name");
  b = gguf_builder_new (3, 2, 0); /* a scalar, and tensors not in the order of their offsets */
  gguf_builder_tensor (b, "b", 8, 0, F32, 32);
  gguf_builder_tensor (b, "a", 0, 0, F32, 0);
  g_autoptr (GgufHeader) header = expect_good (gguf_builder_finish (b, 32, 64));
  g_assert_cmpstr (g_array_index (header->tensors, GgufTensor, 0).name, ==, "a");
  g_assert_cmpuint (g_array_index (header->tensors, GgufTensor, 0).n_elements, ==, 1);
}

static void
begin_pair (GgufBuilder *b, const char *key, guint32 type)
{
  gguf_builder_text (b, key);
  gguf_builder_u32 (b, type);
}

static void
expect_bad_alignment (guint32 type, guint32 value)
{
  GgufBuilder *b = gguf_builder_new (3, 0, 1);
  begin_pair (b, "general.alignment", type);
  gguf_builder_u32 (b, value);
  expect_error (gguf_builder_finish (b, 32, 0), "general.alignment");
}

/* llama.cpp#24988, CVE-2025-0317. */
static void
test_alignment (void)
{
  guint32 one = 64;
  expect_bad_alignment (GGUF_I32, 32);
  expect_bad_alignment (GGUF_U32, 0);
  expect_bad_alignment (GGUF_U32, 3);
  expect_bad_alignment (GGUF_U32, 0x80000000);
  GgufBuilder *b = gguf_builder_new (3, 0, 1);
  gguf_builder_pair_u32s (b, "general.alignment", &one, 1);
  expect_error (gguf_builder_finish (b, 32, 0), "general.alignment");
  b = gguf_builder_new (3, 1, 1);
  gguf_builder_pair_u32 (b, "general.alignment", 256);
  gguf_builder_tensor (b, "t", 1, 0, F32, 256);
  g_autoptr (GgufHeader) header = expect_good (gguf_builder_finish (b, 256, 256 + 4));
  g_assert_cmpuint (header->header_bytes % 256, ==, 0);
}

static void
expect_bad_pair (void (*add) (GgufBuilder *), const char *part)
{
  GgufBuilder *b = gguf_builder_new (3, 0, 1);
  add (b);
  expect_error (gguf_builder_finish (b, 32, 64), part);
}

static void
add_array (GgufBuilder *b, guint32 type, guint64 n)
{
  begin_pair (b, "k", GGUF_ARRAY);
  gguf_builder_u32 (b, type);
  gguf_builder_u64 (b, n);
}

static void
add_nested (GgufBuilder *b)
{
  add_array (b, GGUF_ARRAY, 1);
}

static void
add_huge_array (GgufBuilder *b)
{
  add_array (b, GGUF_U64, G_GUINT64_CONSTANT (1) << 61);
}

static void
add_long_array (GgufBuilder *b)
{
  add_array (b, GGUF_U64, 1000);
}

static void
add_odd_array (GgufBuilder *b)
{
  add_array (b, 13, 1);
}

static void
add_huge_string (GgufBuilder *b)
{
  begin_pair (b, "k", GGUF_STRING);
  gguf_builder_u64 (b, G_GUINT64_CONSTANT (1) << 63);
}

static void
add_long_string (GgufBuilder *b)
{
  begin_pair (b, "k", GGUF_STRING);
  gguf_builder_u64 (b, 1000);
}

static void
add_odd_type (GgufBuilder *b)
{
  begin_pair (b, "k", 99);
}

static void
add_empty_key (GgufBuilder *b)
{
  gguf_builder_u64 (b, 0); /* llama.cpp#24884 */
  gguf_builder_u32 (b, GGUF_BOOL);
  gguf_builder_u8 (b, 1);
}

static void
add_long_key (GgufBuilder *b)
{
  gguf_builder_u64 (b, 65536);
}

static void
add_control_key (GgufBuilder *b)
{
  gguf_builder_pair_u32 (b, "a\nb", 1);
}

static void
add_latin_key (GgufBuilder *b)
{
  gguf_builder_pair_u32 (b, "a\xe9", 1);
}

static void
test_bad_pairs (void)
{
  static const struct {
    void (*add) (GgufBuilder *);
    const char *part;
  } cases[] = {
    { add_nested, "array of arrays" },
    { add_huge_array, "array elements, at most" },
    { add_long_array, "do not fit" },
    { add_odd_array, "unknown element type" },
    { add_huge_string, "a string of" },
    { add_long_string, "do not fit" },
    { add_odd_type, "unknown value type" },
    { add_empty_key, "empty key" },
    { add_long_key, "a key of" },
    { add_control_key, "control" },
    { add_latin_key, "UTF-8" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    expect_bad_pair (cases[i].add, cases[i].part);
  GgufBuilder *b = gguf_builder_new (3, 0, 2);
  gguf_builder_pair_u32 (b, "k", 1);
  gguf_builder_pair_u64 (b, "k", 1);
  expect_error (gguf_builder_finish (b, 32, 0), "twice");
}

/* Writers differ in number types; per-layer arrays stand where scalars are expected. */
static void
test_values (void)
{
  static const guint32 heads[] = { 0, 8, 0, 16 };
  GgufBuilder *b = gguf_builder_new (3, 0, 6);
  gguf_builder_pair_u32s (b, "x.attention.head_count_kv", heads, G_N_ELEMENTS (heads));
  gguf_builder_pair_i32 (b, "negative", -1);
  gguf_builder_pair_string (b, "general.architecture", "x");
  gguf_builder_pair_strings (b, "tokens", 5000, "token");
  gguf_builder_pair_strings (b, "tags", 3, "tag");
  gguf_builder_pair_u16 (b, "split.count", 0);
  g_autoptr (GgufHeader) header = expect_good (gguf_builder_finish (b, 32, 0));
  guint64 value;
  g_assert_true (gguf_value_u64 (gguf_find_arch (header, "attention.head_count_kv"), &value));
  g_assert_cmpuint (value, ==, 16);
  g_assert_cmpuint (gguf_find (header, "x.attention.head_count_kv")->integers->len, ==, 4);
  g_assert_false (gguf_value_u64 (gguf_find (header, "negative"), &value));
  g_assert_false (gguf_value_u64 (gguf_find (header, "general.architecture"), &value));
  g_assert_null (gguf_find (header, "tokens")->strings);
  g_assert_cmpuint (gguf_find (header, "tokens")->n, ==, 5000);
  g_assert_cmpuint (gguf_find (header, "tags")->strings->len, ==, 3);
  g_assert_null (gguf_string (header, "tags"));
  g_assert_null (gguf_find (header, "absent"));
}

static void
test_split (void)
{
  g_autoptr (GError) error = NULL;
  GgufSplit split;
  GgufBuilder *b = gguf_builder_new (3, 0, 3);
  gguf_builder_pair_u16 (b, "split.no", 1);
  gguf_builder_pair_u16 (b, "split.count", 3);
  gguf_builder_pair_i32 (b, "split.tensors.count", 291);
  g_autoptr (GgufHeader) header = expect_good (gguf_builder_finish (b, 32, 0));
  g_assert_true (gguf_split (header, &split, &error));
  g_assert_cmpuint (split.no, ==, 1);
  g_assert_cmpuint (split.count, ==, 3);
  g_assert_cmpuint (split.n_tensors_in_all, ==, 291);
  b = gguf_builder_new (3, 0, 2);
  gguf_builder_pair_u16 (b, "split.no", 3);
  gguf_builder_pair_u16 (b, "split.count", 3);
  g_autoptr (GgufHeader) beyond = expect_good (gguf_builder_finish (b, 32, 0));
  g_assert_false (gguf_split (beyond, &split, &error));
  fixture_assert_error (&error, "split.no");
  b = gguf_builder_new (3, 0, 1);
  gguf_builder_pair_i32 (b, "split.count", -3);
  g_autoptr (GgufHeader) negative = expect_good (gguf_builder_finish (b, 32, 0));
  g_assert_false (gguf_split (negative, &split, &error));
  fixture_assert_error (&error, "split.count");
}

static void
test_names (void)
{
  g_assert_cmpstr (gguf_file_type_name (15), ==, "Q4_K_M");
  g_assert_cmpstr (gguf_file_type_name (15 | 1024), ==, "Q4_K_M");
  g_assert_cmpstr (gguf_file_type_name (32), ==, "BF16");
  g_assert_null (gguf_file_type_name (5));
  g_assert_null (gguf_file_type_name (1000));
  g_assert_null (gguf_file_type_name (G_MAXUINT64));
  g_assert_cmpstr (gguf_tensor_type (39)->name, ==, "MXFP4");
  g_assert_cmpuint (gguf_tensor_type (30)->unit_bytes, ==, 2);
}

/* Every truncation of a prefix asks for more and then gives the same. */
static void
test_prefix (void)
{
  g_autoptr (GBytes) bytes = gguf_builder_finish (small_model (), 32, 50);
  gsize size, needed;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  gsize header_size = size - 50;
  for (gsize i = 0; i <= size; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree guint8 *copy = g_memdup2 (data, i); /* exact, so that ASan sees a read beyond */
      g_autoptr (GgufHeader) header = gguf_parse_prefix (copy, i, &needed, &error);
      g_assert_no_error (error);
      if (header == NULL)
        g_assert_cmpuint (needed, >, i);
      g_assert_true (header != NULL || i < header_size);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/gguf/header", test_header);
  g_test_add_func ("/gguf/good", test_good);
  g_test_add_func ("/gguf/file-size", test_file_size);
  g_test_add_func ("/gguf/tensors", test_tensors);
  g_test_add_func ("/gguf/more-tensors", test_more_tensors);
  g_test_add_func ("/gguf/alignment", test_alignment);
  g_test_add_func ("/gguf/bad-pairs", test_bad_pairs);
  g_test_add_func ("/gguf/values", test_values);
  g_test_add_func ("/gguf/split", test_split);
  g_test_add_func ("/gguf/names", test_names);
  g_test_add_func ("/gguf/prefix", test_prefix);
  return g_test_run ();
}
