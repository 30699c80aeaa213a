#include "base/recent.h"

static void
put (Recent *recent, const char *name, gsize size)
{
  g_autoptr (GBytes) value = g_bytes_new_take (g_malloc0 (size + 1), size);
  recent_put (recent, name, value);
}

static gssize
size_of (Recent *recent, const char *name)
{
  g_autoptr (GBytes) value = recent_get (recent, name);
  return value != NULL ? (gssize) g_bytes_get_size (value) : -1;
}

static void
test_room (void)
{
  g_autoptr (Recent) recent = recent_new (4000, -1);
  g_assert_cmpint (size_of (recent, "a"), ==, -1);
  put (recent, "a", 1000);
  put (recent, "b", 1000);
  put (recent, "a", 500); /* in place of the first */
  put (recent, "c", 1500);
  g_assert_cmpint (size_of (recent, "a"), ==, 500);
  g_assert_cmpint (size_of (recent, "b"), ==, 1000);
  g_assert_cmpint (size_of (recent, "c"), ==, 1500);
  put (recent, "d", 1000);
  g_assert_cmpint (size_of (recent, "a"), ==, -1);
  g_assert_cmpint (size_of (recent, "d"), ==, 1000);
  put (recent, "e", 4000); /* never fits */
  g_assert_cmpint (size_of (recent, "e"), ==, -1);
  put (recent, "f", 0);
  g_assert_cmpint (size_of (recent, "f"), ==, 0);
  recent_clear (recent);
  g_assert_cmpint (size_of (recent, "f"), ==, -1);
}

static void
test_age (void)
{
  g_autoptr (Recent) recent = recent_new (1000, 20), lasting = recent_new (1000, 600000);
  put (recent, "a", 1);
  put (lasting, "a", 1);
  g_usleep (30000);
  g_assert_cmpint (size_of (recent, "a"), ==, -1);
  g_assert_cmpint (size_of (lasting, "a"), ==, 1);
  put (recent, "a", 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recent/room", test_room);
  g_test_add_func ("/recent/age", test_age);
  return g_test_run ();
}
