#include "base/sha256.h"

#include <string.h>

#include "base/digest.h"

#define N 1024

static guint8 data[N + 64];

static void
expect (const Sha256 *state, gconstpointer bytes, gsize size)
{
  Digest ours, theirs;
  sha256_peek (state, &ours);
  digest_of (DIGEST_SHA256, bytes, size, &theirs);
  g_assert_true (digest_equal (&ours, &theirs));
}

/* Every length and every start offset mod 64, in one piece and in two. */
static void
test_lengths (void)
{
  for (gsize length = 0; length <= 320; length++)
    for (gsize offset = 0; offset < 64; offset += 7)
      for (gsize cut = 0; cut <= length; cut += 1 + length / 9)
        {
          Sha256 state;
          sha256_init (&state);
          sha256_update (&state, data + offset, cut);
          sha256_update (&state, data + offset + cut, length - cut);
          expect (&state, data + offset, length);
        }
}

static void
test_save_load (void)
{
  for (gsize cut = 0; cut < 200; cut++)
    {
      Sha256 state, again;
      guint8 saved[SHA256_SAVED_SIZE];
      sha256_init (&state);
      sha256_update (&state, data, cut);
      sha256_save (&state, saved);
      memset (&again, 0xee, sizeof again);
      sha256_load (&again, saved);
      sha256_update (&again, data + cut, 333);
      expect (&again, data, cut + 333);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < sizeof data; i++)
    data[i] = (guint8) (i * 2654435761u >> 13);
  g_test_add_func ("/sha256/lengths", test_lengths);
  g_test_add_func ("/sha256/save-load", test_save_load);
  return g_test_run ();
}
