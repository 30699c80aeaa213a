#include "base/error.h"

#include <errno.h>
#include <string.h>

static void
test_table (void)
{
  static const struct {
    AmErrorCode code;
    const char *name;
    guint http_status;
    int exit_status;
    gboolean retryable;
  } rows[] = {
    { AM_ERROR_CANCELLED, "CANCELLED", 499, 130, FALSE },
    { AM_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT", 400, 3, FALSE },
    { AM_ERROR_NOT_FOUND, "NOT_FOUND", 404, 4, FALSE },
    { AM_ERROR_PERMISSION_DENIED, "PERMISSION_DENIED", 403, 5, FALSE },
    { AM_ERROR_UNAUTHENTICATED, "UNAUTHENTICATED", 401, 5, FALSE },
    { AM_ERROR_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", 429, 6, FALSE },
    { AM_ERROR_DATA_LOSS, "DATA_LOSS", 500, 7, FALSE },
    { AM_ERROR_UNAVAILABLE, "UNAVAILABLE", 503, 8, TRUE },
    { AM_ERROR_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", 504, 8, TRUE },
    { AM_ERROR_ABORTED, "ABORTED", 409, 1, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const AmErrorInfo *info = am_error_info (rows[i].code);
      g_assert_cmpint (info->code, ==, rows[i].code);
      g_assert_cmpstr (info->name, ==, rows[i].name);
      g_assert_cmpuint (info->http_status, ==, rows[i].http_status);
      g_assert_cmpint (info->exit_status, ==, rows[i].exit_status);
      g_assert_cmpint (info->retryable, ==, rows[i].retryable);
    }
  for (int code = AM_ERROR_CANCELLED; code <= AM_ERROR_UNAUTHENTICATED; code++)
    g_assert_cmpint (am_error_info ((AmErrorCode) code)->code, ==, code);
  g_assert_cmpint (am_error_info ((AmErrorCode) 99)->code, ==, AM_ERROR_INTERNAL);
  g_assert_cmpint (am_error_info_of (NULL)->code, ==, AM_ERROR_UNKNOWN);
}

static void
test_fail (void)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (am_fail (NULL, AM_ERROR_INTERNAL, "X", "no one listens"));
  g_assert_null (am_fail_null (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "no blob %d", 7));
  g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
  g_assert_cmpstr (error->message, ==, "no blob 7");
  g_assert_true (am_error_is (error, AM_ERROR_NOT_FOUND));
  g_assert_false (am_error_is (error, AM_ERROR_INTERNAL));
  g_assert_false (am_error_is (NULL, AM_ERROR_INTERNAL));
  g_assert_true (am_error_has_reason (error, "BLOB_UNKNOWN"));
  g_assert_false (am_error_has_reason (error, NULL));
  g_assert_cmpint (am_error_retry_after_ms (error), ==, 0);
  am_error_set_retry_after_ms (error, 1500);
  /* Reason and delay travel with copies and prefixes. */
  g_prefix_error (&error, "while reading: ");
  g_autoptr (GError) copy = g_error_copy (error);
  g_assert_cmpstr (copy->message, ==, "while reading: no blob 7");
  g_assert_cmpstr (am_error_reason (copy), ==, "BLOB_UNKNOWN");
  g_assert_cmpint (am_error_retry_after_ms (copy), ==, 1500);
  am_ignore (&error, "tested");
  g_assert_null (error);
  am_ignore (&error, "nothing to ignore");
  am_ignore (NULL, "nothing to ignore");
}

static void
test_foreign_domain (void)
{
  g_autoptr (GError) error = g_error_new (G_FILE_ERROR, G_FILE_ERROR_EXIST, "foreign");
  g_assert_null (am_error_reason (error));
  g_assert_cmpint (am_error_retry_after_ms (error), ==, 0);
  am_error_set_retry_after_ms (error, 5);
  g_assert_false (am_error_is (error, AM_ERROR_NOT_FOUND));
  g_assert_cmpint (am_error_info_of (error)->code, ==, AM_ERROR_UNKNOWN);
  g_assert_false (am_error_retryable (error));
}

static void
test_errno (void)
{
  static const struct {
    int number;
    AmErrorCode code;
    const char *reason;
  } rows[] = {
    { ENOENT, AM_ERROR_NOT_FOUND, NULL },
    { EEXIST, AM_ERROR_ALREADY_EXISTS, NULL },
    { ENOSPC, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
    { EDQUOT, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
    { EFBIG, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
    { EACCES, AM_ERROR_PERMISSION_DENIED, NULL },
    { EROFS, AM_ERROR_PERMISSION_DENIED, "ReadOnlyStorage" },
    { EIO, AM_ERROR_DATA_LOSS, "StorageFault" },
    { ESTALE, AM_ERROR_UNAVAILABLE, "StorageStale" },
    { EBUSY, AM_ERROR_UNAVAILABLE, "StorageBusy" },
    { ETIMEDOUT, AM_ERROR_UNAVAILABLE, "StorageFault" },
    { ENOTCONN, AM_ERROR_UNAVAILABLE, "StorageFault" },
    { EISDIR, AM_ERROR_FAILED_PRECONDITION, NULL },
    { EDOM, AM_ERROR_INTERNAL, NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_false (am_fail_errno (&error, rows[i].number, "cannot open %s", "x"));
      g_assert_error (error, AM_ERROR, (int) rows[i].code);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_true (g_str_has_prefix (error->message, "cannot open x: "));
      g_assert_nonnull (strstr (error->message, g_strerror (rows[i].number)));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/error/table", test_table);
  g_test_add_func ("/error/fail", test_fail);
  g_test_add_func ("/error/foreign-domain", test_foreign_domain);
  g_test_add_func ("/error/errno", test_errno);
  return g_test_run ();
}
