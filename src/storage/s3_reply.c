#include "storage/s3_reply.h"

#include <string.h>
#include <time.h>

#include "storage/s3_xml.h"

#define SKEW_LIMIT_S 300 /* stores refuse 900 */

typedef struct {
  const char *code;
  guint status;
  AmErrorCode error;
  const char *reason;
  S3Verdict verdict;
  const char *advice;
} Meaning;

#define KEYS_ADVICE "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
static const Meaning by_code[] = {
  { "NoSuchKey", 0, AM_ERROR_NOT_FOUND, NULL, S3_ANSWER_FINAL, NULL },
  { "NoSuchUpload", 0, AM_ERROR_NOT_FOUND, NULL, S3_ANSWER_FINAL, NULL },
  { "NoSuchBucket", 0, AM_ERROR_FAILED_PRECONDITION, "BucketMissing", S3_ANSWER_FINAL, "create the bucket" },
  { "AccessDenied", 0, AM_ERROR_PERMISSION_DENIED, "StorageDenied", S3_ANSWER_FINAL,
    "these keys may not do this: check the bucket's policy" },
  { "InvalidAccessKeyId", 0, AM_ERROR_PERMISSION_DENIED, "StorageDenied", S3_ANSWER_FINAL, KEYS_ADVICE },
  { "SignatureDoesNotMatch", 0, AM_ERROR_PERMISSION_DENIED, "StorageDenied", S3_ANSWER_FINAL, KEYS_ADVICE },
  { "InvalidToken", 0, AM_ERROR_PERMISSION_DENIED, "StorageDenied", S3_ANSWER_FINAL, "check AWS_SESSION_TOKEN" },
  { "ExpiredToken", 0, AM_ERROR_PERMISSION_DENIED, "StorageDenied", S3_ANSWER_FINAL, "renew AWS_SESSION_TOKEN" },
  { "RequestTimeTooSkewed", 0, AM_ERROR_FAILED_PRECONDITION, "ClockSkewed", S3_ANSWER_CLOCK_SKEWED,
    "set this machine's clock" },
  { "AuthorizationHeaderMalformed", 0, AM_ERROR_FAILED_PRECONDITION, "WrongRegion", S3_ANSWER_OTHER_REGION,
    "name the bucket's region" },
  { "PermanentRedirect", 0, AM_ERROR_FAILED_PRECONDITION, "WrongRegion", S3_ANSWER_OTHER_REGION,
    "name the bucket's region and endpoint" },
  { "TemporaryRedirect", 0, AM_ERROR_FAILED_PRECONDITION, "WrongRegion", S3_ANSWER_OTHER_REGION,
    "name the bucket's region and endpoint" },
  { "PreconditionFailed", 0, AM_ERROR_ALREADY_EXISTS, NULL, S3_ANSWER_FINAL, NULL },
  { "ConditionalRequestConflict", 0, AM_ERROR_ABORTED, NULL, S3_ANSWER_PASSING, NULL },
  { "OperationAborted", 0, AM_ERROR_ABORTED, NULL, S3_ANSWER_PASSING, NULL },
  { "InvalidRange", 0, AM_ERROR_OUT_OF_RANGE, NULL, S3_ANSWER_FINAL, NULL },
  { "NotImplemented", 0, AM_ERROR_UNIMPLEMENTED, NULL, S3_ANSWER_FINAL, NULL },
  { "EntityTooLarge", 0, AM_ERROR_RESOURCE_EXHAUSTED, NULL, S3_ANSWER_FINAL, NULL },
  { "QuotaExceeded", 0, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", S3_ANSWER_FINAL,
    "remove models or give the bucket more space" },
  { "XMinioStorageFull", 0, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", S3_ANSWER_FINAL,
    "remove models or give the store more space" },
  { "BadDigest", 0, AM_ERROR_DATA_LOSS, NULL, S3_ANSWER_PASSING, "the bytes changed on the way" },
  { "XAmzContentSHA256Mismatch", 0, AM_ERROR_DATA_LOSS, NULL, S3_ANSWER_PASSING, "the bytes changed on the way" },
  { "IncompleteBody", 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { "RequestTimeout", 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { "SlowDown", 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { "Throttling", 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { "InternalError", 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { "ServiceUnavailable", 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
};
/* Where there is no document: after HEAD, from proxies. A condition that does not hold is 304 at some stores. */
static const Meaning by_status[] = {
  { NULL, 304, AM_ERROR_ALREADY_EXISTS, NULL, S3_ANSWER_FINAL, NULL },
  { NULL, 403, AM_ERROR_PERMISSION_DENIED, "StorageDenied", S3_ANSWER_FINAL,
    "check the keys and the bucket's policy" },
  { NULL, 404, AM_ERROR_NOT_FOUND, NULL, S3_ANSWER_FINAL, NULL },
  { NULL, 408, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { NULL, 409, AM_ERROR_ABORTED, NULL, S3_ANSWER_PASSING, NULL },
  { NULL, 412, AM_ERROR_ALREADY_EXISTS, NULL, S3_ANSWER_FINAL, NULL },
  { NULL, 416, AM_ERROR_OUT_OF_RANGE, NULL, S3_ANSWER_FINAL, NULL },
  { NULL, 429, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL },
  { NULL, 501, AM_ERROR_UNIMPLEMENTED, NULL, S3_ANSWER_FINAL, NULL },
  { NULL, 507, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", S3_ANSWER_FINAL,
    "remove models or give the store more space" },
};
static const Meaning other_redirect = { NULL,
                                        0,
                                        AM_ERROR_FAILED_PRECONDITION,
                                        "WrongRegion",
                                        S3_ANSWER_OTHER_REGION,
                                        "name the bucket's region and endpoint" };
/* And success whose document is cut short: nobody knows. */
static const Meaning other_5xx = { NULL, 0, AM_ERROR_UNAVAILABLE, NULL, S3_ANSWER_PASSING, NULL };
static const Meaning other = { NULL, 0, AM_ERROR_INTERNAL, NULL, S3_ANSWER_FINAL, NULL };

gboolean
s3_http_date_parse (const char *text, gint64 *out_s)
{
  struct tm time = { 0 };
  const char *end = text != NULL ? strptime (text, "%a, %d %b %Y %H:%M:%S GMT", &time) : NULL;
  if (end == NULL || *end != '\0')
    return FALSE;
  *out_s = (gint64) timegm (&time);
  return TRUE;
}

gint64
s3_reply_clock_skew_s (const HttpReply *reply, gint64 now_s)
{
  gint64 there_s;
  return s3_http_date_parse (http_reply_header (reply, "date"), &there_s) ? there_s - now_s : 0;
}

static const Meaning *
find_meaning (guint status, const char *code)
{
  for (gsize i = 0; code != NULL && i < G_N_ELEMENTS (by_code); i++)
    if (strcmp (by_code[i].code, code) == 0)
      return &by_code[i];
  for (gsize i = 0; i < G_N_ELEMENTS (by_status); i++)
    if (by_status[i].status == status)
      return &by_status[i];
  return status >= 500 || status < 300 ? &other_5xx : status >= 300 && status < 400 ? &other_redirect : &other;
}

static void
take_region (const HttpReply *reply, const S3Error *document, char **out_region)
{
  const char *region = http_reply_header (reply, "x-amz-bucket-region");
  if (region == NULL)
    region = document->region;
  if (out_region != NULL && region != NULL && *region != '\0')
    *out_region = g_strdup (region);
}

/* A refused HEAD has no document to say that it is the clock. */
static S3Verdict
judge (const HttpReply *reply, const Meaning *meaning, const char *code)
{
  gboolean refused = reply->status == 403 && (code == NULL || meaning->verdict == S3_ANSWER_CLOCK_SKEWED);
  gint64 skew_s = s3_reply_clock_skew_s (reply, g_get_real_time () / G_USEC_PER_SEC);
  if (refused && ABS (skew_s) > SKEW_LIMIT_S)
    return S3_ANSWER_CLOCK_SKEWED;
  if (code == NULL && http_reply_header (reply, "x-amz-bucket-region") != NULL && reply->status == 400)
    return S3_ANSWER_OTHER_REGION;
  return meaning->verdict;
}

S3Verdict
s3_reply_fail (const HttpReply *reply, const char *what, char **out_region, GError **error)
{
  g_auto (S3Error) document = { 0 };
  gsize size = 0;
  const char *text = reply->body != NULL ? g_bytes_get_data (reply->body, &size) : NULL;
  s3_error_parse (text, size, &document);
  const Meaning *meaning = find_meaning (reply->status, document.code);
  g_autofree char *message = g_strndup (document.message != NULL ? document.message : "", 300);
  g_autofree char *valid = g_utf8_make_valid (message, -1);
  take_region (reply, &document, out_region);
  am_fail (error, meaning->error, meaning->reason, "%s: the object store answers %s%.100s%sstatus %u%s%s%s%s", what,
           document.code != NULL ? "" : "with ", document.code != NULL ? document.code : "",
           document.code != NULL ? ", " : "", reply->status, *valid != '\0' ? ": " : "", valid,
           meaning->advice != NULL ? "; " : "", meaning->advice != NULL ? meaning->advice : "");
  return judge (reply, meaning, document.code);
}
