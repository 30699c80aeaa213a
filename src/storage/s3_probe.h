/* What a store really does of what S3 promises, found out by trying when it is opened: stores differ, and some
 * accept what they do not do. */
#pragma once

#include "storage/s3_client.h"

typedef struct {
  gboolean writable;       /* FALSE: these keys only read; then the rest is unknown, and FALSE */
  gboolean takes_checksum; /* x-amz-checksum-sha256 is not refused as such */
  gboolean checksum;       /* and a body that does not match it is refused */
  gboolean if_none_match;  /* of several that create an object at once exactly one succeeds */
  gboolean if_match;       /* replacing an object that has changed is refused; nothing here needs it */
  gboolean list_at_once;   /* what was written is listed */
  gboolean byte_order;     /* listings are in the order of the keys' bytes */
  gboolean batch_delete;
} S3Profile;

/* Fails when the bucket cannot be listed. Works below ".probe/" and cleans up; logs the verdict and shows it as
 * metric object_store_feature. About 20 small requests. */
gboolean s3_probe (Ctx *ctx, S3Client *client, S3Profile *out_profile, GError **error);
