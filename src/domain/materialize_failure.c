#include "domain/materialize_failure.h"

#define FIRST_PAUSE_MS 1000
#define MAX_PAUSE_MS (30 * 1000)
#define MAX_ASKED_PAUSE_MS (5 * 60 * 1000)
#define MAX_DOUBLINGS 16

#define AGAIN "publish the model again"

/* The first row that fits. Errors of the volume carry the reasons that base/error.h gives to errno. */
static const struct {
  const char *error_reason; /* NULL: any */
  AmErrorCode code;         /* 0: any */
  MaterializeVerdict verdict;
} rows[] = {
  { "InsufficientStorage",
    0,
    { "VolumeFull",
      "the volume must grow, or the namespace's quota: enlarge the claim, or free what others keep there", FALSE,
      FALSE } },
  { "ReadOnlyStorage",
    0,
    { "VolumeReadOnly",
      "the volume must be writable for the Job: look at its StorageClass, its PersistentVolume and the storage",
      FALSE, FALSE } },
  { "StorageStale",
    0,
    { "VolumeStale", "the storage forgot an open file: another Job mounts the volume anew", FALSE, TRUE } },
  { "StorageFault",
    0,
    { "VolumeFault", "the storage fails to read or to write: look at it; when it is well another Job goes on", FALSE,
      TRUE } },
  { "StorageBusy",
    0,
    { "VolumeBusy", "the storage keeps a file in use that is to go: whoever holds it open must let it go", TRUE,
      TRUE } },
  { "DENIED",
    0,
    { "GrantRefused", "the Job's read grant is for another model: its Job must be made anew", FALSE, FALSE } },
  { NULL,
    AM_ERROR_UNAUTHENTICATED,
    { "GrantExpired", "the Job's read grant has ended: another Job gets a new one and goes on", FALSE, TRUE } },
  { NULL,
    AM_ERROR_PERMISSION_DENIED,
    { "VolumeDenied", "the Job's user (or its group) must be let write on the volume", FALSE, FALSE } },
  { "CertificateNotTrusted",
    0,
    { "RegistryNotTrusted",
      "the certificate authority that the Job was given is not the registry's: another Job gets the "
      "present one",
      FALSE, TRUE } },
  { "MANIFEST_UNKNOWN", 0, { "ModelMissing", AGAIN, FALSE, FALSE } },
  { "BLOB_UNKNOWN", 0, { "ModelMissing", AGAIN, FALSE, FALSE } },
  { "NAME_UNKNOWN", 0, { "ModelMissing", AGAIN, FALSE, FALSE } },
  { NULL, AM_ERROR_DATA_LOSS, { "ModelDamaged", AGAIN, FALSE, FALSE } },
  { NULL, AM_ERROR_INVALID_ARGUMENT, { "ModelUnacceptable", AGAIN, FALSE, FALSE } },
  { "VolumeBusy",
    AM_ERROR_UNAVAILABLE,
    { "VolumeBusy", "another Job holds the volume and does nothing: delete its Pod; another Job goes on", FALSE,
      TRUE } },
  { NULL,
    AM_ERROR_UNAVAILABLE,
    { "RegistryAway",
      "the module's registry does not answer: look at Deployment dmcr and the bucket; another Job goes on", TRUE,
      TRUE } },
  { NULL,
    AM_ERROR_DEADLINE_EXCEEDED,
    { "RegistryAway",
      "the module's registry is too slow: look at Deployment dmcr and the bucket; another Job goes on", TRUE,
      TRUE } },
  { NULL, AM_ERROR_ABORTED, { "VolumeBusy", "another Job works on the volume", TRUE, TRUE } },
  { NULL,
    AM_ERROR_INTERNAL,
    { "MaterializationFailed", "look at the logs of the Job and of Deployment dmcr; another Job goes on", TRUE,
      TRUE } },
};

static const MaterializeVerdict other = { "MaterializationFailed",
                                          "look at the logs of the Job and of Deployment dmcr", FALSE, TRUE };

MaterializeVerdict
materialize_judge (const GError *error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    if ((rows[i].error_reason == NULL || am_error_has_reason (error, rows[i].error_reason))
        && (rows[i].code == 0 || am_error_is (error, rows[i].code)))
      return rows[i].verdict;
  MaterializeVerdict verdict = other;
  /* Rationed by somebody who says when to come back. */
  verdict.goes_on = am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED) && am_error_retry_after_ms (error) > 0;
  return verdict;
}

gint64
materialize_pause_ms (guint n_failures, gint64 retry_after_ms)
{
  guint n_doublings = MIN (MAX (n_failures, 1) - 1, MAX_DOUBLINGS);
  gint64 pause_ms = MIN ((gint64) FIRST_PAUSE_MS << n_doublings, MAX_PAUSE_MS);
  return MIN (MAX (pause_ms, retry_after_ms), MAX_ASKED_PAUSE_MS);
}
