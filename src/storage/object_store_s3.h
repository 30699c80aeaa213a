/* Object store in an S3 bucket. What the store itself does not promise (conditional writes, the order of listings)
 * is found out when it is opened and made up for here. No locks: OBJECT_LOCK_* are UNIMPLEMENTED. */
#pragma once

#include "storage/object_store.h"

/* `url` as s3_config_parse takes it. Asks the bucket what it is good for (s3_probe.h) and logs the verdict; with
 * `ctx` the caller bounds that. Where no store is yet: NOT_FOUND unless `create` is set; FAILED_PRECONDITION for
 * one of a newer format. Other errors: those of s3_config_parse, and of every request (s3_reply.h). An object is
 * held in memory while it is written, RESOURCE_EXHAUSTED above 64 MiB; by object_store_create_at a part of it is
 * (s3_part_bytes); one of up to 9 MiB is read in one request,
 * of a larger one a piece at a time, and then ABORTED when it was replaced meanwhile. */
ObjectStore *object_store_s3_new (Ctx *ctx, const char *url, gboolean create, GError **error);
