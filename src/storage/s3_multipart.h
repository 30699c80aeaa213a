/* An object of a bucket that is sent in parts: requests of a multipart upload. Nothing of it is visible before it is
 * completed. For object_store_s3. Keys are without the configuration's prefix; errors are those of s3_client_call.
 * Thread-safe. */
#pragma once

#include "storage/s3_client.h"

/* Stores take no more parts of an object. */
#define S3_MAX_PARTS 10000u
/* How large the next part is made after `n_parts` (below S3_MAX_PARTS): small ones while they reach far, so that few bytes
 * are held in memory; together OBJECT_WRITER_MAX_BYTES. Stores take none below 5 MiB but for the last. */
gsize s3_part_bytes (guint n_parts);
/* An upload that was begun so long ago is nobody's any more. */
#define S3_UPLOAD_TTL_MS (24 * 3600 * 1000ll)

/* Begins an upload; `meta` (may be NULL) becomes the object's header. Returns its id, which the caller frees. */
char *s3_multipart_begin (Ctx *ctx, S3Client *client, const char *key, gboolean sends_checksum, const S3Pair *meta,
                          GError **error);
/* Sends part `number` (from 1) and appends what completing says of it to `parts`. */
gboolean s3_multipart_send (Ctx *ctx, S3Client *client, const char *key, const char *id, guint number,
                            gconstpointer data, gsize size, gboolean sends_checksum, GString *parts, GError **error);
/* What was sent so far: ObjectPart in any order, caller unrefs. NOT_FOUND when there is no such upload. */
GPtrArray *s3_multipart_list (Ctx *ctx, S3Client *client, const char *key, const char *id, GError **error);
/* Makes the object of all parts visible. NOT_FOUND also when an earlier attempt did so and its answer got lost;
 * ALREADY_EXISTS where `if_absent` holds the store to it. */
gboolean s3_multipart_complete (Ctx *ctx, S3Client *client, const char *key, const char *id, const char *parts,
                                gboolean if_absent, GError **error);
/* Forgets the upload and its parts; one that is gone is fine. */
gboolean s3_multipart_abort (Ctx *ctx, S3Client *client, const char *key, const char *id, GError **error);
/* Aborts all uploads of keys below `prefix` ("" or ending with '/') that were begun before `before_ms`; the number of them is
 * added to `*n_aborted`. */
gboolean s3_multipart_sweep (Ctx *ctx, S3Client *client, const char *prefix, gint64 before_ms, guint *n_aborted,
                             GError **error);
