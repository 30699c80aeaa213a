/* What an answer of an S3 store means. Pure, for s3_client alone. */
#pragma once

#include "net/http_client.h"

typedef enum {
  S3_ANSWER_FINAL,
  S3_ANSWER_PASSING,      /* worth trying again after a while */
  S3_ANSWER_CLOCK_SKEWED, /* the store's clock is another: Date tells */
  S3_ANSWER_OTHER_REGION, /* signed for the wrong region */
} S3Verdict;

/* Sets the error that an answer of failure stands for (a status, or an <Error> document below 200) and says what
 * can be done about it. `what` names the object or bucket. `*out_region` (may be NULL): the right region, caller
 * frees. Codes: NOT_FOUND, FAILED_PRECONDITION (reasons BucketMissing, WrongRegion, ClockSkewed), PERMISSION_DENIED
 * (reason StorageDenied), ALREADY_EXISTS (a condition did not hold), ABORTED, OUT_OF_RANGE, UNIMPLEMENTED,
 * RESOURCE_EXHAUSTED (reason InsufficientStorage when it is full), DATA_LOSS (the bytes changed on the way),
 * UNAVAILABLE, INTERNAL. */
S3Verdict s3_reply_fail (const HttpReply *reply, const char *what, char **out_region, GError **error);
/* Seconds between the store's clock, by its Date header, and `now_s`; 0 without one. */
gint64 s3_reply_clock_skew_s (const HttpReply *reply, gint64 now_s);
/* "Mon, 30 Nov 2026 09:32:41 GMT" as Unix time; FALSE when it is none. */
gboolean s3_http_date_parse (const char *text, gint64 *out_s);
