/* Any bytes as a termination message: refused, or a result within the limits that says the same when it is written. */
#include "cluster/worker_result.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (WorkerResult) result = { 0 }, again = { 0 };
  if (!worker_result_parse ((const char *) data, size, &result, NULL))
    return 0;
  g_autofree char *text = worker_result_format (&result);
  g_assert_cmpuint (strlen (text), <=, WORKER_RESULT_MAX_BYTES);
  g_assert_true (worker_result_parse (text, strlen (text), &again, NULL));
  g_assert_cmpint (result.end, ==, again.end);
  g_assert_cmpstr (result.digest, ==, again.digest);
  g_assert_cmpstr (result.reason, ==, again.reason);
  g_assert_cmpstr (result.source_revision, ==, again.source_revision);
  g_assert_cmpuint (result.size_bytes, ==, again.size_bytes);
  g_assert_cmpint (!result.metadata_complete, ==, !again.metadata_complete);
  g_assert_cmpstr (result.resolved.format, ==, again.resolved.format);
  g_assert_true (result.message == NULL || g_utf8_strlen (result.message, -1) <= WORKER_RESULT_MAX_MESSAGE_CHARS);
  return 0;
}
