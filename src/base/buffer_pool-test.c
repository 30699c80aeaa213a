#include "base/buffer_pool.h"

#include <string.h>

#define MIB (1u << 20)

/* What was given back is used again for what is of about its size, and for nothing larger. */
static void
test_again (void)
{
  BufferPool *pool = buffer_pool_new ();
  guint8 *small = buffer_pool_take (pool, 1), *large = buffer_pool_take (pool, 3 * MIB);
  memset (small, 1, 1);
  memset (large, 1, 3 * MIB);
  buffer_pool_give (pool, small, 1);
  buffer_pool_give (pool, large, 3 * MIB);
  buffer_pool_give (pool, NULL, MIB);
  guint8 *larger = buffer_pool_take (pool, 5 * MIB), *other = buffer_pool_take (pool, 2 * MIB + 1);
  memset (larger, 2, 5 * MIB);
  g_assert_true (larger != large && other == large);
  g_assert_true (buffer_pool_take (pool, 64 << 10) == small);
  buffer_pool_give (pool, larger, 5 * MIB);
  buffer_pool_give (pool, other, 2 * MIB + 1);
  buffer_pool_give (pool, small, 64 << 10);
  buffer_pool_free (pool);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/buffer-pool/again", test_again);
  return g_test_run ();
}
