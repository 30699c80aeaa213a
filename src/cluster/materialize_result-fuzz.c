/* Any bytes as a termination message: refused, or an end within the limits that says the same when it is written. */
#include "cluster/materialize_result.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (MaterializeOutcome) result = { 0 }, again = { 0 };
  if (!materialize_result_parse ((const char *) data, size, &result, NULL))
    return 0;
  g_autofree char *text = materialize_result_format (&result);
  g_assert_cmpuint (strlen (text), <=, MATERIALIZE_RESULT_MAX_BYTES);
  g_assert_true (materialize_result_parse (text, strlen (text), &again, NULL));
  g_assert_cmpint (result.end, ==, again.end);
  g_assert_cmpstr (result.digest, ==, again.digest);
  g_assert_cmpstr (result.reason, ==, again.reason);
  g_assert_cmpuint (result.size_bytes, ==, again.size_bytes);
  g_assert_cmpint (!result.may_retry, ==, !again.may_retry);
  g_assert_true (result.end == MATERIALIZE_DONE || g_str_has_prefix (result.message, again.message));
  return 0;
}
