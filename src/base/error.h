/* The one error idiom: a GError of domain AM_ERROR whose codes are gRPC's canonical ones, plus a
 * machine-readable reason and an optional delay before a retry. Used by everything; thread-safe. */
#pragma once

#include <glib.h>

typedef enum {
  AM_ERROR_CANCELLED = 1,
  AM_ERROR_UNKNOWN = 2,
  AM_ERROR_INVALID_ARGUMENT = 3,
  AM_ERROR_DEADLINE_EXCEEDED = 4,
  AM_ERROR_NOT_FOUND = 5,
  AM_ERROR_ALREADY_EXISTS = 6,
  AM_ERROR_PERMISSION_DENIED = 7,
  AM_ERROR_RESOURCE_EXHAUSTED = 8,
  AM_ERROR_FAILED_PRECONDITION = 9,
  AM_ERROR_ABORTED = 10,
  AM_ERROR_OUT_OF_RANGE = 11,
  AM_ERROR_UNIMPLEMENTED = 12,
  AM_ERROR_INTERNAL = 13,
  AM_ERROR_UNAVAILABLE = 14,
  AM_ERROR_DATA_LOSS = 15,
  AM_ERROR_UNAUTHENTICATED = 16,
} AmErrorCode;

/* What a code means to each audience. `exit_status` is what a command ends with (docs/cli.md). */
typedef struct {
  AmErrorCode code;
  const char *name; /* "NOT_FOUND" */
  guint http_status;
  int exit_status;
  gboolean retryable;
} AmErrorInfo;

#define AM_ERROR (am_error_quark ())
GQuark am_error_quark (void);

/* Never NULL; an unknown code is INTERNAL's row. Errors of other domains count as UNKNOWN. */
const AmErrorInfo *am_error_info (AmErrorCode code);
const AmErrorInfo *am_error_info_of (const GError *error);

/* Sets `*error` (which must be unset) when `error` is not NULL. `reason` is a word such as
 * "BLOB_UNKNOWN" or "InsufficientStorage", or NULL; it is copied. Returns FALSE so that
 * `return am_fail (error, ...)` reads well in functions that return gboolean. */
gboolean am_fail (GError **error, AmErrorCode code, const char *reason, const char *format, ...) G_GNUC_PRINTF (4, 5);
/* The same for functions that return a pointer. */
gpointer am_fail_null (GError **error, AmErrorCode code, const char *reason, const char *format, ...)
  G_GNUC_PRINTF (4, 5);
/* From errno, with the fitting code: ENOENT NOT_FOUND, ENOSPC, EDQUOT and EFBIG RESOURCE_EXHAUSTED (reason
 * InsufficientStorage), EACCES, EPERM and EROFS PERMISSION_DENIED, EIO DATA_LOSS (StorageFault), ESTALE (StorageStale),
 * EBUSY (StorageBusy) and ETIMEDOUT (StorageFault) UNAVAILABLE, others INTERNAL (the table in error.c is complete). The message is "<formatted>: <strerror>". */
gboolean am_fail_errno (GError **error, int saved_errno, const char *format, ...) G_GNUC_PRINTF (3, 4);

gboolean am_error_is (const GError *error, AmErrorCode code);
/* Reason of an AM_ERROR, or NULL. Owned by the error. */
const char *am_error_reason (const GError *error);
gboolean am_error_has_reason (const GError *error, const char *reason);
/* Milliseconds the other side asked to wait before a retry; 0 when it did not say. */
gint64 am_error_retry_after_ms (const GError *error);
void am_error_set_retry_after_ms (GError *error, gint64 retry_after_ms);
/* TRUE when trying the same again may succeed (by the code's table row). */
gboolean am_error_retryable (const GError *error);

/* Clears an error that is ignored on purpose and says why at debug level. */
void am_ignore (GError **error, const char *why);
