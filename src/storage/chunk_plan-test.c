/* Where blobs are cut: by hand-made layouts, by layouts nobody thought of, and by the headers of real formats. */
#include "storage/chunk_plan.h"

#include <string.h>

#include "storage/chunk_frame.h"
#include "storage/storage_fixture.h"

#define KiB ((gsize) 1 << 10)
#define MiB ((gsize) 1 << 20)
#define LARGE ((gsize) CHUNK_LARGE_TENSOR_BYTES)
#define SMALL (LARGE - 1)
#define MAX_CUTS 16

typedef struct {
  guint64 start;
  gsize size;
  guint unit_bytes;
} Cut;

static TensorLayout *
layout_new (guint64 header_bytes)
{
  TensorLayout *self = g_new0 (TensorLayout, 1);
  self->header_bytes = header_bytes;
  self->spans = g_array_new (FALSE, FALSE, sizeof (TensorSpan));
  return self;
}

static void
add_span (TensorLayout *self, guint64 offset, guint64 size, guint unit_bytes)
{
  TensorSpan span = { offset, size, (guint8) unit_bytes };
  g_array_append_val (self->spans, span);
}

/* All chunks of a blob of `size` bytes, in order. */
static GArray *
cut_all (ChunkPlan *plan, guint64 size)
{
  GArray *cuts = g_array_new (FALSE, FALSE, sizeof (Cut));
  for (guint64 at = 0; at < size;)
    {
      Cut cut = { .start = at };
      gsize n = chunk_plan_next (plan, at, &cut.unit_bytes);
      g_assert_cmpuint (n, >, 0);
      g_assert_cmpuint (n, <=, CHUNK_MAX_BYTES);
      cut.size = (gsize) MIN (n, size - at);
      at += cut.size;
      g_array_append_val (cuts, cut);
    }
  return cuts;
}

static char *
describe (const GArray *cuts)
{
  GString *text = g_string_new (NULL);
  for (guint i = 0; i < cuts->len; i++)
    {
      const Cut *cut = &g_array_index (cuts, Cut, i);
      g_string_append_printf (text, "%s%" G_GUINT64_FORMAT "+%" G_GSIZE_FORMAT "/%u", i > 0 ? " " : "", cut->start,
                              cut->size, cut->unit_bytes);
    }
  return g_string_free (text, FALSE);
}

typedef struct {
  const char *name;
  guint64 header, size;
  TensorSpan spans[6]; /* up to one of size 0 */
  Cut cuts[MAX_CUTS];  /* up to one of size 0 */
} Row;

#define H 100
static const Row rows[] = {
  { "no tensor", H, H + 9 * MiB, {}, { { 0, H, 0 }, { H, 8 * MiB, 0 }, { H + 8 * MiB, MiB, 0 } } },
  { "the header alone", H, H, {}, { { 0, H, 0 } } },
  { "no header", 0, LARGE, { { 0, LARGE, 4 } }, { { 0, LARGE, 4 } } },
  { "a header longer than a chunk",
    9 * MiB,
    9 * MiB + 8,
    { { 9 * MiB, 8, 2 } },
    { { 0, 8 * MiB, 0 }, { 8 * MiB, MiB, 0 }, { 9 * MiB, 8, 2 } } },
  { "small neighbours share, the widest share of bytes names the width",
    H,
    H + 600,
    { { H, 100, 4 }, { H + 100, 300, 2 }, { H + 400, 200, 1 } },
    { { 0, H, 0 }, { H, 600, 2 } } },
  { "a large tensor starts a chunk of its own and ends one",
    H,
    H + 100 + LARGE + 50,
    { { H, 100, 2 }, { H + 100, LARGE, 2 }, { H + 100 + LARGE, 50, 4 } },
    { { 0, H, 0 }, { H, 100, 2 }, { H + 100, LARGE, 2 }, { H + 100 + LARGE, 50, 4 } } },
  { "two large neighbours",
    H,
    H + 2 * LARGE,
    { { H, LARGE, 2 }, { H + LARGE, LARGE, 1 } },
    { { 0, H, 0 }, { H, LARGE, 2 }, { H + LARGE, LARGE, 1 } } },
  { "a tensor one byte below the limit shares",
    H,
    H + 10 + SMALL,
    { { H, 10, 2 }, { H + 10, SMALL, 2 } },
    { { 0, H, 0 }, { H, 10 + SMALL, 2 } } },
  { "a large tensor is cut from its own start",
    H,
    H + 17 * MiB,
    { { H, 17 * MiB, 2 } },
    { { 0, H, 0 }, { H, 8 * MiB, 2 }, { H + 8 * MiB, 8 * MiB, 2 }, { H + 16 * MiB, MiB, 2 } } },
  { "packed numbers have no width", H, H + 2 * MiB, { { H, 2 * MiB, 0 } }, { { 0, H, 0 }, { H, 2 * MiB, 0 } } },
  { "bytes behind the last tensor",
    H,
    H + LARGE + 9 * MiB,
    { { H, LARGE, 2 } },
    { { 0, H, 0 }, { H, LARGE, 2 }, { H + LARGE, 8 * MiB, 0 }, { H + LARGE + 8 * MiB, MiB, 0 } } },
  { "bytes behind the last small tensor do not join it",
    H,
    H + 10 + 5,
    { { H, 10, 2 } },
    { { 0, H, 0 }, { H, 10, 2 }, { H + 10, 5, 0 } } },
  { "a short gap belongs to the small tensor behind it",
    H,
    H + 40,
    { { H, 10, 2 }, { H + 32, 8, 2 } },
    { { 0, H, 0 }, { H, 40, 2 } } },
  { "a gap before a large tensor is a chunk",
    H,
    H + 32 + LARGE,
    { { H + 32, LARGE, 2 } },
    { { 0, H, 0 }, { H, 32, 0 }, { H + 32, LARGE, 2 } } },
  { "a gap between a small and a large tensor goes with the small one",
    H,
    H + 32 + LARGE,
    { { H, 10, 2 }, { H + 32, LARGE, 2 } },
    { { 0, H, 0 }, { H, 32, 2 }, { H + 32, LARGE, 2 } } },
  { "a long gap before a large tensor ends where that begins",
    H,
    H + 9 * MiB + LARGE,
    { { H + 9 * MiB, LARGE, 2 } },
    { { 0, H, 0 }, { H, 8 * MiB, 0 }, { H + 8 * MiB, MiB, 0 }, { H + 9 * MiB, LARGE, 2 } } },
  { "a gap is not cut inside the small tensor behind it",
    H,
    H + 8 * MiB + 500,
    { { H + 8 * MiB - 100, 600, 2 } },
    { { 0, H, 0 }, { H, 8 * MiB - 100, 0 }, { H + 8 * MiB - 100, 600, 2 } } },
  { "nor behind another small tensor",
    H,
    H + 8 * MiB + 1000,
    { { H, 500, 4 }, { H + 8 * MiB + 400, 600, 2 } },
    { { 0, H, 0 }, { H, 500, 4 }, { H + 500, 8 * MiB - 100, 0 }, { H + 8 * MiB + 400, 600, 2 } } },
  { "a gap of a chunk and more before a small tensor",
    H,
    H + 20 * MiB + 600,
    { { H + 20 * MiB, 600, 2 } },
    { { 0, H, 0 }, { H, 8 * MiB, 0 }, { H + 8 * MiB, 8 * MiB, 0 }, { H + 16 * MiB, 4 * MiB + 600, 2 } } },
};

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const Row *row = &rows[i];
      TensorLayout *layout = layout_new (row->header);
      g_autoptr (GArray) wanted = g_array_new (FALSE, FALSE, sizeof (Cut));
      for (guint j = 0; j < G_N_ELEMENTS (row->spans) && row->spans[j].size_bytes > 0; j++)
        g_array_append_val (layout->spans, row->spans[j]);
      for (guint j = 0; j < MAX_CUTS && row->cuts[j].size > 0; j++)
        g_array_append_val (wanted, row->cuts[j]);
      g_autoptr (ChunkPlan) plan = chunk_plan_new (layout);
      g_autoptr (GArray) cuts = cut_all (plan, row->size);
      g_autofree char *got_text = describe (cuts), *wanted_text = describe (wanted);
      g_test_message ("%s", row->name);
      g_assert_cmpstr (got_text, ==, wanted_text);
    }
}

static void
test_blind (void)
{
  g_autoptr (ChunkPlan) plan = chunk_plan_new (NULL);
  g_autoptr (GArray) cuts = cut_all (plan, 20 * MiB);
  g_autofree char *text = describe (cuts);
  g_assert_cmpstr (text, ==, "0+8388608/0 8388608+8388608/0 16777216+4194304/0");
}

static guint64
random_size (void)
{
  switch (g_test_rand_int_range (0, 6))
    {
    case 0: return (guint64) g_test_rand_int_range (1, 100);
    case 1: return SMALL - (guint64) g_test_rand_int_range (0, 3);
    case 2: return LARGE + (guint64) g_test_rand_int_range (0, 3);
    case 3: return (guint64) g_test_rand_int_range (1, (gint32) LARGE);
    default: return (guint64) g_test_rand_int_range (1, 20 * MiB);
    }
}

static TensorLayout *
random_layout (guint64 *out_size)
{
  static const guint units[] = { 0, 1, 2, 4, 8 };
  TensorLayout *layout = layout_new ((guint64) g_test_rand_int_range (0, 10 * MiB));
  guint64 at = layout->header_bytes;
  for (gint i = g_test_rand_int_range (0, 30); i > 0; i--)
    {
      at += g_test_rand_bit () ? 0 : random_size ();
      guint64 size = random_size ();
      add_span (layout, at, size, units[g_test_rand_int_range (0, G_N_ELEMENTS (units))]);
      at += size;
    }
  *out_size = at + (g_test_rand_bit () ? 0 : random_size ());
  return layout;
}

/* The rules of a border at `at` seen from one tensor. */
static void
check_border (const TensorSpan *span, guint64 at)
{
  guint64 end = span->offset_bytes + span->size_bytes;
  if (at <= span->offset_bytes || at >= end)
    return;
  g_assert_cmpuint (span->size_bytes, >=, LARGE); /* a small tensor stays in one piece */
  g_assert_cmpuint ((at - span->offset_bytes) % CHUNK_MAX_BYTES, ==, 0);
}

static void
check_chunk (const TensorLayout *layout, const Cut *cut)
{
  guint64 end = cut->start + cut->size;
  guint n_large = 0, n_all = 0;
  for (guint i = 0; i < layout->spans->len; i++)
    {
      const TensorSpan *span = &g_array_index (layout->spans, TensorSpan, i);
      gboolean inside = span->offset_bytes < end && span->offset_bytes + span->size_bytes > cut->start;
      check_border (span, cut->start);
      n_all += inside;
      n_large += inside && span->size_bytes >= LARGE;
      if (inside && span->size_bytes >= LARGE)
        g_assert_true (span->offset_bytes <= cut->start && end <= span->offset_bytes + span->size_bytes);
      if (inside && span->size_bytes >= LARGE)
        g_assert_cmpuint (cut->unit_bytes, ==, span->unit_bytes);
    }
  g_assert_true (n_large == 0 || n_all == 1);
  g_assert_true (cut->start >= layout->header_bytes || end <= layout->header_bytes);
}

static void
test_random (void)
{
  for (guint round = 0; round < 2000; round++)
    {
      guint64 size;
      TensorLayout *layout = random_layout (&size);
      g_autoptr (ChunkPlan) plan = chunk_plan_new (layout);
      g_autoptr (GArray) cuts = cut_all (plan, size);
      for (guint i = 0; i < cuts->len; i++)
        check_chunk (layout, &g_array_index (cuts, Cut, i));
    }
}

/* A tensor's chunks are the same relative to it, whatever comes before. */
static void
test_shifted (void)
{
  static const gsize before[] = { 0, 2, 1000, LARGE, 9 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (before); i++)
    for (guint large = 0; large < 2; large++)
      {
        guint64 start = H + before[i], size = large ? 20 * MiB + 6 : LARGE;
        TensorLayout *layout = layout_new (H);
        if (before[i] > 0)
          add_span (layout, H, before[i], 2);
        add_span (layout, start, size, 2);
        g_autoptr (ChunkPlan) plan = chunk_plan_new (layout);
        g_autoptr (GArray) cuts = cut_all (plan, start + size);
        guint n = 0;
        for (guint j = 0; j < cuts->len; j++)
          if (g_array_index (cuts, Cut, j).start >= start)
            g_assert_cmpuint (g_array_index (cuts, Cut, j).start - start, ==, CHUNK_MAX_BYTES * n++);
        g_assert_cmpuint (n, ==, large ? 3 : 1);
      }
}

/* A blob that is gone on with at a border in the middle is cut on as it would have been. */
static void
test_gone_on_with (void)
{
  for (guint round = 0; round < 200; round++)
    {
      guint64 size;
      TensorLayout *layout = random_layout (&size);
      g_autoptr (ChunkPlan) plan = chunk_plan_new (layout);
      g_autoptr (GArray) cuts = cut_all (plan, size);
      if (cuts->len == 0)
        continue;
      const Cut *from = &g_array_index (cuts, Cut, g_test_rand_int_range (0, (gint32) cuts->len));
      TensorLayout *copy = layout_new (layout->header_bytes);
      g_array_append_vals (copy->spans, layout->spans->data, layout->spans->len);
      g_autoptr (ChunkPlan) later = chunk_plan_new (copy);
      guint unit;
      gsize n = chunk_plan_next (later, from->start, &unit);
      g_assert_cmpuint (MIN (n, size - from->start), ==, from->size);
      g_assert_cmpuint (unit, ==, from->unit_bytes);
    }
}

/* Feeds the probe with prefixes that grow by `step`. */
static ChunkPlan *
probe_growing (GBytes *bytes, gsize step, gsize *out_prefix)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  for (gsize prefix = MIN (step, size);; prefix = MIN (prefix + step, size))
    {
      gsize needed = 0;
      g_autofree guint8 *copy = g_memdup2 (data, prefix); /* so that a read beyond is seen */
      ChunkPlan *plan = chunk_plan_probe (copy, prefix, prefix == size, &needed);
      *out_prefix = prefix;
      if (plan != NULL)
        return plan;
      g_assert_cmpuint (needed, >, prefix);
      g_assert_cmpuint (needed, <=, CHUNK_PLAN_HEADER_LIMIT_BYTES);
    }
}

static void
check_probe (GBytes *bytes, const char *wanted)
{
  static const gsize steps[] = { 1, 7, 64, 1000, 64 * KiB, 64 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      gsize prefix;
      g_autoptr (ChunkPlan) plan = probe_growing (bytes, steps[i], &prefix);
      g_autoptr (GArray) cuts = cut_all (plan, g_bytes_get_size (bytes));
      g_autofree char *text = describe (cuts);
      g_assert_cmpstr (text, ==, wanted);
    }
}

static void
test_safetensors (void)
{
  const gsize sizes[] = { 200, 0, 300, LARGE, 0, 17 * MiB, 4 };
  g_autoptr (GBytes) bytes = fixture_safetensors (1, "BF16", 2, sizes, G_N_ELEMENTS (sizes), 1000);
  gsize h = 8 + 1000;
  g_autofree char *wanted = g_strdup_printf ("0+%zu/0 %zu+500/2 %zu+%zu/2 %zu+%zu/2 %zu+%zu/2 %zu+%zu/2 %zu+4/2", h,
                                             h, h + 500, LARGE, h + 500 + LARGE, 8 * MiB, h + 500 + LARGE + 8 * MiB,
                                             8 * MiB, h + 500 + LARGE + 16 * MiB, MiB, h + 500 + LARGE + 17 * MiB);
  check_probe (bytes, wanted);
}

static void
append (GByteArray *out, guint64 value, gsize size)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (out, (const guint8 *) &value, (guint) size);
}

static void
append_tensor (GByteArray *out, const char *name, guint64 n_elements, guint type, guint64 offset)
{
  append (out, strlen (name), 8);
  g_byte_array_append (out, (const guint8 *) name, (guint) strlen (name));
  append (out, 1, 4);
  append (out, n_elements, 8);
  append (out, type, 4);
  append (out, offset, 8);
}

/* F32, F16 and quantized tensors, 32 bytes aligned, with gaps that the alignment makes. */
static GBytes *
gguf_bytes (gsize *out_header)
{
  GByteArray *out = g_byte_array_new ();
  g_byte_array_append (out, (const guint8 *) "GGUF", 4);
  append (out, 3, 4);
  append (out, 4, 8);
  append (out, 0, 8);
  append_tensor (out, "a", 5, 0, 0);           /* F32, 20 bytes, a gap of 12 */
  append_tensor (out, "b", 3, 1, 32);          /* F16, 6 bytes, a gap of 26 */
  append_tensor (out, "c", LARGE / 2, 1, 64);  /* F16 */
  append_tensor (out, "d", 32, 8, 64 + LARGE); /* Q8_0, 34 bytes */
  g_byte_array_set_size (out, (out->len + 31) / 32 * 32);
  *out_header = out->len;
  g_byte_array_set_size (out, (guint) (*out_header + 64 + LARGE + 34));
  return g_byte_array_free_to_bytes (out);
}

static void
test_gguf (void)
{
  gsize h;
  g_autoptr (GBytes) bytes = gguf_bytes (&h);
  g_autofree char *wanted = g_strdup_printf ("0+%zu/0 %zu+64/4 %zu+%zu/2 %zu+34/0", h, h, h + 64, LARGE,
                                             h + 64 + LARGE);
  check_probe (bytes, wanted);
}

/* Not a model: cut blindly, as soon as that is known. */
static void
test_no_model (void)
{
  static const char *const starts[] = { "",
                                        "x",
                                        "PK\3\4 an archive",
                                        "GGUX no gguf at all",
                                        "\2\0\0\0\0\0\0\0[]",
                                        "\377\377\377\377\377\377\377\377{",
                                        "\20\0\0\0\0\0\0\0{\"not a tensor\"" };
  static const gsize sizes[] = { 0, 1, 8, 20, 8, 9, 24 };
  for (gsize i = 0; i < G_N_ELEMENTS (starts); i++)
    {
      g_autoptr (GByteArray) start = g_byte_array_new ();
      g_byte_array_append (start, (const guint8 *) starts[i], (guint) MIN (sizes[i], strlen (starts[i]) + 1));
      g_byte_array_set_size (start, (guint) (9 * MiB));
      memcpy (start->data, starts[i], strlen (starts[i])); /* what lies behind NULs is zero */
      g_autoptr (GBytes) bytes = g_bytes_new (start->data, start->len);
      gsize prefix;
      g_autoptr (ChunkPlan) plan = probe_growing (bytes, 100, &prefix);
      g_autoptr (GArray) cuts = cut_all (plan, 9 * MiB);
      g_autofree char *text = describe (cuts);
      g_assert_cmpuint (prefix, <=, 100);
      g_assert_cmpstr (text, ==, "0+8388608/0 8388608+1048576/0");
    }
}

/* A header that promises more than is waited for, or ends with the blob, does not hold the blob up. */
static void
test_header_limits (void)
{
  g_autofree guint8 *head = g_malloc0 (CHUNK_PLAN_HEADER_LIMIT_BYTES);
  gsize needed = 0;
  guint64 promised = GUINT64_TO_LE (CHUNK_PLAN_HEADER_LIMIT_BYTES - 8);
  memcpy (head, &promised, 8);
  head[8] = '{';
  g_assert_null (chunk_plan_probe (head, 1000, FALSE, &needed));
  g_assert_cmpuint (needed, ==, CHUNK_PLAN_HEADER_LIMIT_BYTES);
  g_autoptr (ChunkPlan) whole = chunk_plan_probe (head, 1000, TRUE, &needed);
  g_assert_nonnull (whole);
  g_autoptr (ChunkPlan) full = chunk_plan_probe (head, CHUNK_PLAN_HEADER_LIMIT_BYTES, FALSE, &needed);
  g_assert_nonnull (full);
  promised = GUINT64_TO_LE (CHUNK_PLAN_HEADER_LIMIT_BYTES - 7);
  memcpy (head, &promised, 8);
  g_autoptr (ChunkPlan) beyond = chunk_plan_probe (head, 1000, FALSE, &needed);
  g_assert_nonnull (beyond);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/chunk-plan/rows", test_rows);
  g_test_add_func ("/chunk-plan/blind", test_blind);
  g_test_add_func ("/chunk-plan/random", test_random);
  g_test_add_func ("/chunk-plan/shifted", test_shifted);
  g_test_add_func ("/chunk-plan/gone-on-with", test_gone_on_with);
  g_test_add_func ("/chunk-plan/safetensors", test_safetensors);
  g_test_add_func ("/chunk-plan/gguf", test_gguf);
  g_test_add_func ("/chunk-plan/no-model", test_no_model);
  g_test_add_func ("/chunk-plan/header-limits", test_header_limits);
  return g_test_run ();
}
