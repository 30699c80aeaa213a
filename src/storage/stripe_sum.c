#include "storage/stripe_sum.h"

#include <xxhash.h>

guint64
stripe_sum (gconstpointer data, gsize size)
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports ("avx2"))
    return stripe_sum_avx2 (data, size);
#endif
  return XXH3_64bits (data, size);
}
