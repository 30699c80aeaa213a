#include "domain/materialize_failure.h"

#include <errno.h>

static void
test_volume (void)
{
  const struct {
    int number;
    const char *reason;
    gboolean goes_on, may_retry;
  } rows[] = {
    { ENOSPC, "VolumeFull", FALSE, FALSE },    { EDQUOT, "VolumeFull", FALSE, FALSE },
    { EFBIG, "VolumeFull", FALSE, FALSE },     { EROFS, "VolumeReadOnly", FALSE, FALSE },
    { EIO, "VolumeFault", FALSE, TRUE },       { ESTALE, "VolumeStale", FALSE, TRUE },
    { ETIMEDOUT, "VolumeFault", FALSE, TRUE }, { ENOTCONN, "VolumeFault", FALSE, TRUE },
    { EBUSY, "VolumeBusy", TRUE, TRUE },       { EACCES, "VolumeDenied", FALSE, FALSE },
    { EPERM, "VolumeDenied", FALSE, FALSE },   { EMFILE, "MaterializationFailed", FALSE, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      am_fail_errno (&error, rows[i].number, "x");
      MaterializeVerdict verdict = materialize_judge (error);
      g_assert_cmpstr (verdict.reason, ==, rows[i].reason);
      g_assert_cmpint (verdict.goes_on, ==, rows[i].goes_on);
      g_assert_cmpint (verdict.may_retry, ==, rows[i].may_retry);
      g_assert_nonnull (verdict.remedy);
    }
}

static void
test_registry (void)
{
  const struct {
    AmErrorCode code;
    const char *error_reason, *reason;
    gboolean goes_on, may_retry;
  } rows[] = {
    { AM_ERROR_UNAVAILABLE, NULL, "RegistryAway", TRUE, TRUE },
    { AM_ERROR_UNAVAILABLE, "HostUnreachable", "RegistryAway", TRUE, TRUE },
    { AM_ERROR_DEADLINE_EXCEEDED, NULL, "RegistryAway", TRUE, TRUE },
    { AM_ERROR_INTERNAL, NULL, "MaterializationFailed", TRUE, TRUE },
    { AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", "GrantExpired", FALSE, TRUE },
    { AM_ERROR_PERMISSION_DENIED, "DENIED", "GrantRefused", FALSE, FALSE },
    { AM_ERROR_FAILED_PRECONDITION, "CertificateNotTrusted", "RegistryNotTrusted", FALSE, TRUE },
    { AM_ERROR_NOT_FOUND, "MANIFEST_UNKNOWN", "ModelMissing", FALSE, FALSE },
    { AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "ModelMissing", FALSE, FALSE },
    { AM_ERROR_DATA_LOSS, "DigestMismatch", "ModelDamaged", FALSE, FALSE },
    { AM_ERROR_INVALID_ARGUMENT, "ManifestInvalid", "ModelUnacceptable", FALSE, FALSE },
    { AM_ERROR_ABORTED, "VolumeBusy", "VolumeBusy", TRUE, TRUE },
    { AM_ERROR_UNAVAILABLE, "VolumeBusy", "VolumeBusy", FALSE, TRUE },
    { AM_ERROR_RESOURCE_EXHAUSTED, NULL, "MaterializationFailed", FALSE, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      am_fail (&error, rows[i].code, rows[i].error_reason, "x");
      MaterializeVerdict verdict = materialize_judge (error);
      g_assert_cmpstr (verdict.reason, ==, rows[i].reason);
      g_assert_cmpint (verdict.goes_on, ==, rows[i].goes_on);
      g_assert_cmpint (verdict.may_retry, ==, rows[i].may_retry);
    }
  g_autoptr (GError) error = NULL;
  am_fail (&error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "slowly");
  am_error_set_retry_after_ms (error, 500);
  g_assert_true (materialize_judge (error).goes_on);
}

static void
test_pauses (void)
{
  g_assert_cmpint (materialize_pause_ms (1, 0), ==, 1000);
  g_assert_cmpint (materialize_pause_ms (3, 0), ==, 4000);
  g_assert_cmpint (materialize_pause_ms (3, 7000), ==, 7000);
  g_assert_cmpint (materialize_pause_ms (G_MAXUINT, 0), ==, 30000);
  g_assert_cmpint (materialize_pause_ms (1, G_MAXINT64), ==, 300000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/domain/materialize_failure/volume", test_volume);
  g_test_add_func ("/domain/materialize_failure/registry", test_registry);
  g_test_add_func ("/domain/materialize_failure/pauses", test_pauses);
  return g_test_run ();
}
