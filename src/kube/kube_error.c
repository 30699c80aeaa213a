#include "kube/kube_error.h"

#include <string.h>

#include "base/json.h"

#define MAX_STATUS_BYTES (1024 * 1024)
#define MAX_RETRY_AFTER_S 300

static const struct {
  const char *reason;
  guint status;
  AmErrorCode code;
} rows[] = {
  { "BadRequest", 400, AM_ERROR_INVALID_ARGUMENT },
  { "Unauthorized", 401, AM_ERROR_UNAUTHENTICATED },
  { "Forbidden", 403, AM_ERROR_PERMISSION_DENIED },
  { "NotFound", 404, AM_ERROR_NOT_FOUND },
  { "MethodNotAllowed", 405, AM_ERROR_UNIMPLEMENTED },
  { "NotAcceptable", 406, AM_ERROR_UNIMPLEMENTED },
  { KUBE_REASON_CONFLICT, 409, AM_ERROR_ABORTED },
  { "AlreadyExists", 409, AM_ERROR_ALREADY_EXISTS },
  { KUBE_REASON_EXPIRED, 410, AM_ERROR_OUT_OF_RANGE },
  { "Gone", 410, AM_ERROR_OUT_OF_RANGE },
  { "RequestEntityTooLarge", 413, AM_ERROR_INVALID_ARGUMENT },
  { "UnsupportedMediaType", 415, AM_ERROR_UNIMPLEMENTED },
  { "Invalid", 422, AM_ERROR_INVALID_ARGUMENT },
  { "TooManyRequests", 429, AM_ERROR_RESOURCE_EXHAUSTED },
};

/* By reason; without one, or with one that nobody here knows, the first of that status. */
static const char *
find_reason (const char *reason, guint status, AmErrorCode *out_code)
{
  for (int by_status = reason == NULL; by_status < 2; by_status++)
    for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
      if (by_status ? rows[i].status == status : strcmp (rows[i].reason, reason) == 0)
        {
          *out_code = rows[i].code;
          return rows[i].code == AM_ERROR_OUT_OF_RANGE ? KUBE_REASON_EXPIRED : rows[i].reason;
        }
  *out_code = AM_ERROR_UNAVAILABLE;
  return reason;
}

gboolean
kube_fail (const char *what, guint status, gconstpointer body, gsize size, GError **error)
{
  g_autoptr (yyjson_doc) doc = size > 0 ? json_parse (body, size, MAX_STATUS_BYTES, JSON_STRICT, NULL) : NULL;
  yyjson_val *root = yyjson_doc_get_root (doc);
  const char *kind = json_get_string (root, "kind");
  gboolean is_status = kind != NULL && strcmp (kind, "Status") == 0;
  const char *message = is_status ? json_get_string (root, "message") : NULL;
  const char *reason = is_status ? json_get_string (root, "reason") : NULL;
  gint64 wait_s = yyjson_get_sint (yyjson_obj_get (json_get_object (root, "details"), "retryAfterSeconds"));
  AmErrorCode code;
  reason = find_reason (reason != NULL && reason[0] != '\0' ? reason : NULL, status, &code);
  GError *problem = NULL;
  if (message != NULL && message[0] != '\0')
    am_fail (&problem, code, reason, "%s: %s", what, message);
  else
    am_fail (&problem, code, reason, "%s: status %u", what, status);
  am_error_set_retry_after_ms (problem, CLAMP (wait_s, 0, MAX_RETRY_AFTER_S) * 1000);
  g_propagate_error (error, problem);
  return FALSE;
}
