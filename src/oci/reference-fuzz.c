/* A reference that parses prints as one that parses to the same; nothing else happens. */
#include "oci/reference.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_autoptr (GError) error = NULL;
  g_autoptr (Reference) reference = reference_parse (text, &error);
  if (reference == NULL)
    {
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_nonnull (am_error_reason (error));
      return 0;
    }
  g_autofree char *printed = reference_to_string (reference);
  g_autoptr (Reference) again = reference_parse (printed, NULL);
  g_assert_nonnull (again);
  g_autofree char *printed_again = reference_to_string (again);
  g_assert_cmpstr (printed, ==, printed_again);
  g_assert_cmpstr (reference->host, ==, again->host);
  g_assert_cmpstr (reference->name, ==, again->name);
  g_assert_true (repository_name_check (reference->name, NULL));
  g_assert_true (reference->host == NULL || registry_host_check (reference->host, NULL));
  return 0;
}
