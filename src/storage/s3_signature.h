/* AWS Signature Version 4 for S3 (docs.aws.amazon.com, "Signature Calculations for the Authorization Header") and
 * "... Using Query Parameters"): an encoding of names and values, the Authorization line, and links that carry their own
 * permission. Pure; used by s3_client. The vectors of its test are botocore's. */
#pragma once

#include <glib.h>

#define S3_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"
#define S3_TIME_SIZE 17 /* "20261130T093000Z" and NUL */

/* A query parameter or a header; not encoded. */
typedef struct {
  const char *name, *value;
} S3Pair;

typedef struct {
  const char *access_key_id, *secret_access_key;
  const char *session_token; /* or NULL; its header is the caller's to add */
  const char *region;
} S3Signer;

typedef struct {
  const char *method;
  const char *path; /* encoded, begins with '/' */
  const S3Pair *query;
  gsize n_query;
  const S3Pair *headers; /* all that are signed: host, x-amz-date, x-amz-content-sha256 and x-amz-* must be */
  gsize n_headers;
  const char *payload_sha256; /* lower-case hex, or S3_UNSIGNED_PAYLOAD */
  gint64 time_s;              /* Unix time, the one in x-amz-date */
} S3Signed;

/* Percent-encodes every byte but A-Z a-z 0-9 - . _ ~ and, with `keep_slash`, '/'. Appends. */
void s3_encode (GString *out, const char *text, gboolean keep_slash);
/* "a=1&b=2" in canonical order, encoded: what is signed is what is sent. Caller frees. */
char *s3_query_text (const S3Pair *query, gsize n_query);
/* x-amz-date. */
void s3_time_text (gint64 time_s, char out[S3_TIME_SIZE]);
/* Value of the Authorization header; caller frees. A secret is not in it, but it lets the request be sent again for
 * 15 minutes: never log it. */
char *s3_sign (const S3Signer *signer, const S3Signed *request);
/* The query of a link that lets everybody who knows it send `request` (its payload is not signed, its only header `host`)
 * within `ttl_s` seconds; caller frees. Never log it. */
char *s3_presign (const S3Signer *signer, const S3Signed *request, guint ttl_s);
