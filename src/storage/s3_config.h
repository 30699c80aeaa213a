/* Where a bucket is and with which keys, from a store's URL and the environment that the AWS tools use too. */
#pragma once

#include "base/error.h"

#define S3_SCHEME "s3://"

typedef struct {
  char *endpoint; /* "https://host[:port]" of the service, without a path */
  char *region, *bucket;
  char *prefix;        /* of every key: "" or ends with '/' */
  gboolean path_style; /* https://host/bucket/key, not https://bucket.host/key */
  char *access_key_id, *secret_access_key;
  char *session_token; /* or NULL */
  char *ca_file;       /* or NULL: the system's */
} S3Config;

/* s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path-style=true|false&ca-file=FILE]. What the URL does not say
 * comes from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION and AWS_CA_BUNDLE, at last
 * https://s3.<region>.amazonaws.com and us-east-1. Keys come only from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
 * AWS_SESSION_TOKEN, or, where none of these is set, from profile AWS_PROFILE ("default") of the file
 * AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials): a URL is seen by everybody. Path style is the default everywhere but at Amazon.
 * INVALID_ARGUMENT says what is wrong with the URL; FAILED_PRECONDITION (reason CredentialsMissing): no keys. */
gboolean s3_config_parse (const char *url, S3Config *out_config, GError **error);
void s3_config_clear (S3Config *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (S3Config, s3_config_clear)
