#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

typedef struct {
  char *reason;
  gint64 retry_after_ms;
} AmErrorPrivate;

static void
am_error_private_init (AmErrorPrivate *self)
{
  self->reason = NULL;
  self->retry_after_ms = 0;
}

static void
am_error_private_copy (const AmErrorPrivate *from, AmErrorPrivate *to)
{
  to->reason = g_strdup (from->reason);
  to->retry_after_ms = from->retry_after_ms;
}

static void
am_error_private_clear (AmErrorPrivate *self)
{
  g_free (self->reason);
}

G_DEFINE_EXTENDED_ERROR (AmError, am_error)

static const AmErrorInfo infos[] = {
  { AM_ERROR_CANCELLED, "CANCELLED", 499, 130, FALSE },
  { AM_ERROR_UNKNOWN, "UNKNOWN", 500, 1, FALSE },
  { AM_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT", 400, 3, FALSE },
  { AM_ERROR_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", 504, 8, TRUE },
  { AM_ERROR_NOT_FOUND, "NOT_FOUND", 404, 4, FALSE },
  { AM_ERROR_ALREADY_EXISTS, "ALREADY_EXISTS", 409, 3, FALSE },
  { AM_ERROR_PERMISSION_DENIED, "PERMISSION_DENIED", 403, 5, FALSE },
  { AM_ERROR_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", 429, 6, FALSE },
  { AM_ERROR_FAILED_PRECONDITION, "FAILED_PRECONDITION", 412, 3, FALSE },
  { AM_ERROR_ABORTED, "ABORTED", 409, 1, TRUE },
  { AM_ERROR_OUT_OF_RANGE, "OUT_OF_RANGE", 416, 3, FALSE },
  { AM_ERROR_UNIMPLEMENTED, "UNIMPLEMENTED", 405, 3, FALSE },
  { AM_ERROR_INTERNAL, "INTERNAL", 500, 1, FALSE },
  { AM_ERROR_UNAVAILABLE, "UNAVAILABLE", 503, 8, TRUE },
  { AM_ERROR_DATA_LOSS, "DATA_LOSS", 500, 7, FALSE },
  { AM_ERROR_UNAUTHENTICATED, "UNAUTHENTICATED", 401, 5, FALSE },
};

const AmErrorInfo *
am_error_info (AmErrorCode code)
{
  const AmErrorInfo *internal = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (infos); i++)
    {
      if (infos[i].code == code)
        return &infos[i];
      if (infos[i].code == AM_ERROR_INTERNAL)
        internal = &infos[i];
    }
  return internal;
}

const AmErrorInfo *
am_error_info_of (const GError *error)
{
  if (error == NULL || error->domain != AM_ERROR)
    return am_error_info (AM_ERROR_UNKNOWN);
  return am_error_info ((AmErrorCode) error->code);
}

static void
fail_valist (GError **error, AmErrorCode code, const char *reason, const char *format, va_list args)
{
  if (error == NULL)
    return;
  g_assert (*error == NULL);
  *error = g_error_new_valist (AM_ERROR, (int) code, format, args);
  if (reason != NULL)
    am_error_get_private (*error)->reason = g_strdup (reason);
}

gboolean
am_fail (GError **error, AmErrorCode code, const char *reason, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  fail_valist (error, code, reason, format, args);
  va_end (args);
  return FALSE;
}

gpointer
am_fail_null (GError **error, AmErrorCode code, const char *reason, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  fail_valist (error, code, reason, format, args);
  va_end (args);
  return NULL;
}

static const struct {
  int number;
  AmErrorCode code;
  const char *reason;
} errno_codes[] = {
  { ENOENT, AM_ERROR_NOT_FOUND, NULL },
  { ENOTDIR, AM_ERROR_NOT_FOUND, NULL },
  { EEXIST, AM_ERROR_ALREADY_EXISTS, NULL },
  { ENOSPC, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
  { EDQUOT, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
  { EFBIG, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
  { EMFILE, AM_ERROR_RESOURCE_EXHAUSTED, NULL },
  { ENFILE, AM_ERROR_RESOURCE_EXHAUSTED, NULL },
  { EACCES, AM_ERROR_PERMISSION_DENIED, NULL },
  { EPERM, AM_ERROR_PERMISSION_DENIED, NULL },
  { EROFS, AM_ERROR_PERMISSION_DENIED, "ReadOnlyStorage" },
  { EIO, AM_ERROR_DATA_LOSS, "StorageFault" },
  { EISDIR, AM_ERROR_FAILED_PRECONDITION, NULL },
  { ENOTEMPTY, AM_ERROR_FAILED_PRECONDITION, NULL },
  { EAGAIN, AM_ERROR_UNAVAILABLE, NULL },
  { EBUSY, AM_ERROR_UNAVAILABLE, "StorageBusy" },
  { ESTALE, AM_ERROR_UNAVAILABLE, "StorageStale" },
  { ETIMEDOUT, AM_ERROR_UNAVAILABLE, "StorageFault" }, /* a network's file system, as the next two */
  { ENOTCONN, AM_ERROR_UNAVAILABLE, "StorageFault" },
  { EREMOTEIO, AM_ERROR_UNAVAILABLE, "StorageFault" },
  { EUCLEAN, AM_ERROR_DATA_LOSS, "StorageFault" },
  { EINVAL, AM_ERROR_INVALID_ARGUMENT, NULL },
  { ENAMETOOLONG, AM_ERROR_INVALID_ARGUMENT, NULL },
  { ELOOP, AM_ERROR_INVALID_ARGUMENT, NULL },
};

gboolean
am_fail_errno (GError **error, int saved_errno, const char *format, ...)
{
  AmErrorCode code = AM_ERROR_INTERNAL;
  const char *reason = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (errno_codes); i++)
    if (errno_codes[i].number == saved_errno)
      {
        code = errno_codes[i].code;
        reason = errno_codes[i].reason;
      }
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  return am_fail (error, code, reason, "%s: %s", what, g_strerror (saved_errno));
}

gboolean
am_error_is (const GError *error, AmErrorCode code)
{
  return error != NULL && error->domain == AM_ERROR && error->code == (int) code;
}

const char *
am_error_reason (const GError *error)
{
  if (error == NULL || error->domain != AM_ERROR)
    return NULL;
  return am_error_get_private ((GError *) error)->reason;
}

gboolean
am_error_has_reason (const GError *error, const char *reason)
{
  return g_strcmp0 (am_error_reason (error), reason) == 0;
}

gint64
am_error_retry_after_ms (const GError *error)
{
  if (error == NULL || error->domain != AM_ERROR)
    return 0;
  return am_error_get_private ((GError *) error)->retry_after_ms;
}

void
am_error_set_retry_after_ms (GError *error, gint64 retry_after_ms)
{
  if (error != NULL && error->domain == AM_ERROR)
    am_error_get_private (error)->retry_after_ms = retry_after_ms;
}

gboolean
am_error_retryable (const GError *error)
{
  return am_error_info_of (error)->retryable;
}

void
am_ignore (GError **error, const char *why)
{
  if (error == NULL || *error == NULL)
    return;
  am_log_debug (NULL, "ignored error", "why", why, "err", (*error)->message, NULL);
  g_clear_error (error);
}
