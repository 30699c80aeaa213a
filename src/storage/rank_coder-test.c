#include <string.h>

#include "storage/rank_coder.h"

#define MAX_BYTES (130u << 10)

static guint8 scratch[RANK_SCRATCH_BYTES];

/* Exponents as a normal distribution has them, or any bytes. */
static void
fill (GRand *random, guint8 *plane, gsize size, guint n_wild)
{
  for (gsize i = 0; i < size; i++)
    {
      guint exponent = 60;
      while (exponent > 40 && g_rand_boolean (random))
        exponent--;
      plane[i] = (guint8) (exponent | (g_rand_boolean (random) ? 0x80 : 0));
      if (n_wild > 0 && g_rand_int_range (random, 0, 1000) < (gint) n_wild)
        plane[i] = (guint8) g_rand_int (random);
    }
}

static RankSpeed tested;

/* FALSE, and the test is skipped, where the CPU does not have that speed. */
static gboolean
use_speed (gconstpointer speed)
{
  tested = (RankSpeed) GPOINTER_TO_UINT (speed);
  if (rank_coder_limit (tested) == tested)
    return TRUE;
  g_test_skip ("this CPU is not as fast");
  return FALSE;
}

/* The speed under test writes what the portable code writes, and each reads it. */
static void
check_plane (const guint8 *plane, gsize size, gboolean must_shrink)
{
  const RankSpeed speeds[] = { RANK_PORTABLE, tested };
  g_autofree guint8 *first = g_malloc0 (size + 1), *coded = g_malloc0 (size + 1), *back = g_malloc0 (size + 1);
  gsize first_size = 0;
  for (guint i = 0; i < G_N_ELEMENTS (speeds); i++)
    {
      rank_coder_limit (speeds[i]);
      gsize coded_size = rank_encode (plane, size, i == 0 ? first : coded, size > 0 ? size - 1 : 0, scratch);
      if (i == 0)
        first_size = coded_size;
      g_assert_cmpuint (coded_size, ==, first_size);
      g_assert_true (i == 0 || memcmp (coded, first, coded_size) == 0);
      if (coded_size == 0)
        continue;
      g_assert_cmpuint (coded_size, <, size);
      memset (back, 0xee, size);
      g_assert_true (rank_decode (first, coded_size, back, size));
      g_assert_cmpmem (back, size, plane, size);
    }
  g_assert_true (first_size > 0 || !must_shrink);
}

static void
test_sizes (gconstpointer speed)
{
  if (!use_speed (speed))
    return;
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  g_autofree guint8 *plane = g_malloc (MAX_BYTES);
  for (gsize size = 0; size < 1200; size += 1 + size / 200)
    {
      fill (random, plane, size, 5);
      check_plane (plane, size, size > 500);
    }
  static const gsize sizes[] = { 4095, 4096, 4160, 65535, 65536, 131071, 131072, MAX_BYTES };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      fill (random, plane, sizes[i], 0);
      check_plane (plane, sizes[i], TRUE);
      fill (random, plane, sizes[i], 20);
      check_plane (plane, sizes[i], TRUE);
    }
}

static void
test_kinds (gconstpointer speed)
{
  if (!use_speed (speed))
    return;
  g_autoptr (GRand) random = g_rand_new_with_seed (2);
  g_autofree guint8 *plane = g_malloc (4096);
  for (guint value = 0; value < 256; value += 5)
    {
      memset (plane, (int) value, 4096);
      check_plane (plane, 4096, TRUE);
    }
  fill (random, plane, 4096, 1000); /* noise does not shrink */
  check_plane (plane, 4096, FALSE);
  g_assert_cmpuint (rank_encode (plane, 4096, scratch, 4095, scratch), ==, 0);
  /* Two halves of their own kind: most of one half escapes. */
  memset (plane, 3, 4096);
  for (guint i = 0; i < 200; i++)
    plane[70 + i] = (guint8) (i + 20);
  check_plane (plane, 4096, TRUE);
}

/* Any change of a coded plane is refused or read as something: never read or written out of bounds. It agrees with the portable code. */
static void
test_damage (gconstpointer speed)
{
  if (!use_speed (speed))
    return;
  g_autoptr (GRand) random = g_rand_new_with_seed (3);
  static const gsize sizes[] = { 100, 1024, 1090, 5000 };
  for (guint i = 0; i < 4000; i++)
    {
      gsize size = sizes[i % G_N_ELEMENTS (sizes)];
      g_autofree guint8 *plane = g_malloc (size), *back = g_malloc (size), *other = g_malloc (size);
      g_autofree guint8 *coded = g_malloc (size);
      fill (random, plane, size, 30);
      rank_coder_limit (tested);
      gsize coded_size = rank_encode (plane, size, coded, size - 1, scratch);
      if (coded_size == 0)
        continue;
      gsize cut = i % 3 == 0 ? (gsize) g_rand_int_range (random, 0, (gint) coded_size) : coded_size;
      for (guint n = 0; i % 3 != 0 && n < 1 + i % 5; n++)
        coded[g_rand_int_range (random, 0, i % 2 == 0 ? 36 : (gint) coded_size)] = (guint8) g_rand_int (random);
      g_autofree guint8 *exact = g_memdup2 (coded, cut); /* so that reading behind it shows */
      gboolean is_read = rank_decode (exact, cut, back, size);
      rank_coder_limit (RANK_PORTABLE);
      g_assert_cmpint (rank_decode (exact, cut, other, size), ==, is_read);
      g_assert_true (!is_read || memcmp (back, other, size) == 0);
      g_assert_true (cut == coded_size || !is_read);
    }
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { [RANK_PORTABLE] = "portable", [RANK_AVX2] = "avx2", [RANK_AVX512] = "avx512" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *sizes_name = g_strdup_printf ("/rank-coder/sizes/%s", names[i]);
      g_autofree char *kinds_name = g_strdup_printf ("/rank-coder/kinds/%s", names[i]);
      g_autofree char *damage_name = g_strdup_printf ("/rank-coder/damage/%s", names[i]);
      g_test_add_data_func (sizes_name, GUINT_TO_POINTER (i), test_sizes);
      g_test_add_data_func (kinds_name, GUINT_TO_POINTER (i), test_kinds);
      g_test_add_data_func (damage_name, GUINT_TO_POINTER (i), test_damage);
    }
  return g_test_run ();
}
