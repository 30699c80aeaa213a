#include "controllers/review_room.h"

#define TAKEN 1
#define REFUSED 0
#define GIVEN_BACK (-1)

/* Of 100 bytes, 40 for each. */
static void
test_steps (void)
{
  static const struct {
    const char *peer;
    gsize n_bytes;
    int outcome;
  } steps[] = {
    { "a", 0, TAKEN },       { "a", 30, TAKEN },      { "a", 11, REFUSED }, /* which takes nothing */
    { "a", 10, TAKEN },      { "a", 1, REFUSED },     { "a", 0, TAKEN },           { "b", 41, REFUSED },
    { "b", 40, TAKEN },      { "c", 21, REFUSED },    { "c", G_MAXSIZE, REFUSED }, { "c", 20, TAKEN },
    { "d", 1, REFUSED },     { "a", 40, GIVEN_BACK }, { "d", 40, TAKEN },          { "a", 1, REFUSED },
    { "d", 40, GIVEN_BACK }, { "b", 40, GIVEN_BACK }, { "c", 20, GIVEN_BACK },     { "c", 40, TAKEN },
    { "c", 0, GIVEN_BACK },  { "c", 40, GIVEN_BACK },
  };
  g_autoptr (ReviewRoom) room = review_room_new (100, 40);
  for (gsize i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      g_autoptr (GError) error = NULL;
      g_test_message ("step %" G_GSIZE_FORMAT, i);
      if (steps[i].outcome == GIVEN_BACK)
        review_room_give_back (room, steps[i].peer, steps[i].n_bytes);
      else
        g_assert_cmpint (review_room_take (room, steps[i].peer, steps[i].n_bytes, &error), ==, steps[i].outcome);
      g_assert_cmpint (error != NULL, ==, steps[i].outcome == REFUSED);
      g_assert_true (error == NULL || am_error_is (error, AM_ERROR_UNAVAILABLE));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/review-room/steps", test_steps);
  return g_test_run ();
}
