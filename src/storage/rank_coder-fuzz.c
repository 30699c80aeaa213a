/* Any bytes as a coded plane: whether and as what they are read does not depend on the speed, and nothing is read or
 * written out of bounds. Any bytes as a plane: what any speed writes is the same and is read back. */
#include "storage/rank_coder.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static const RankSpeed speeds[] = { RANK_AVX512, RANK_AVX2, RANK_PORTABLE };
static guint8 scratch[RANK_SCRATCH_BYTES];

static void
check_decode (const guint8 *stored, gsize stored_size, gsize plane_size)
{
  g_autofree guint8 *exact = g_memdup2 (stored, stored_size); /* so that a read beyond is seen */
  g_autofree guint8 *first = g_malloc (plane_size), *plane = g_malloc (plane_size);
  gboolean is_read = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (speeds); i++)
    {
      rank_coder_limit (speeds[i]);
      gboolean good = rank_decode (exact, stored_size, i == 0 ? first : plane, plane_size);
      g_assert_true (i == 0 || good == is_read);
      g_assert_true (i == 0 || !good || memcmp (first, plane, plane_size) == 0);
      is_read = good;
    }
}

static void
check_roundtrip (const guint8 *plane, gsize size)
{
  g_autofree guint8 *first = g_malloc (size), *coded = g_malloc (size), *back = g_malloc (size);
  gsize first_size = 0;
  for (guint i = 0; i < G_N_ELEMENTS (speeds); i++)
    {
      rank_coder_limit (speeds[i]);
      gsize n = rank_encode (plane, size, i == 0 ? first : coded, size - 1, scratch);
      if (i == 0)
        first_size = n;
      g_assert_true (n == first_size && n < size && (i == 0 || memcmp (first, coded, n) == 0));
      g_assert_true (n == 0 || (rank_decode (first, n, back, size) && memcmp (plane, back, size) == 0));
    }
}

/* The first two bytes are the plane's size. */
int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  if (size < 3)
    return 0;
  check_decode (data + 2, size - 2, 1 + ((gsize) data[0] | (gsize) data[1] << 8) % 5000);
  if (size - 2 <= RANK_PLANE_MAX_BYTES)
    check_roundtrip (data + 2, size - 2);
  return 0;
}
