/* XXH3-64 over a stripe, with the widest instructions that the CPU has: the packaged library is built for
 * the oldest CPU. The value is plain XXH3-64 either way. Private to storage/. Thread-safe. */
#pragma once

#include <glib.h>

guint64 stripe_sum (gconstpointer data, gsize size);
/* For stripe_sum alone: the form for AVX2. */
guint64 stripe_sum_avx2 (gconstpointer data, gsize size);
