#include "net/host_addresses.h"

#include <string.h>

static void
test_literals (void)
{
  static const char *const rows[] = { "127.0.0.1", "10.1.2.3" };
  g_autoptr (Ctx) ctx = ctx_new ();
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) found = host_addresses (ctx, rows[i], 4, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (found->len, ==, 1);
      g_assert_cmpstr (g_ptr_array_index (found, 0), ==, rows[i]);
    }
}

static void
test_name (void)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL, too_many = NULL;
  g_autoptr (GPtrArray) found = host_addresses (ctx, "localhost", 4, &error);
  g_assert_no_error (error);
  g_assert_true (g_ptr_array_find_with_equal_func (found, "127.0.0.1", g_str_equal, NULL)
                 || g_ptr_array_find_with_equal_func (found, "::1", g_str_equal, NULL));
  for (guint i = 0; i < found->len; i++)
    for (guint other = 0; other < i; other++)
      g_assert_cmpstr (g_ptr_array_index (found, i), !=, g_ptr_array_index (found, other));
  g_assert_null (host_addresses (ctx, "localhost", 0, &too_many));
  g_assert_true (am_error_is (too_many, AM_ERROR_RESOURCE_EXHAUSTED));
}

static void
test_trouble (void)
{
  g_autoptr (Ctx) ctx = ctx_new (), over = ctx_new_child (ctx, 0);
  g_autoptr (GError) unknown = NULL, late = NULL;
  /* A label of more than 63 characters is none at all. */
  g_autofree char *name = g_strnfill (70, 'a');
  g_assert_null (host_addresses (ctx, name, 4, &unknown));
  g_assert_true (am_error_is (unknown, AM_ERROR_UNAVAILABLE));
  g_assert_true (am_error_has_reason (unknown, "HostUnreachable"));
  g_assert_null (host_addresses (over, "host.invalid", 4, &late));
  g_assert_true (am_error_is (late, AM_ERROR_DEADLINE_EXCEEDED));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/host-addresses/literals", test_literals);
  g_test_add_func ("/host-addresses/name", test_name);
  g_test_add_func ("/host-addresses/trouble", test_trouble);
  return g_test_run ();
}
