/* Requests about many keys at once: pages of listings, batch removal. For object_store_s3 and s3_probe; keys are
 * without the configuration's prefix. Thread-safe. */
#pragma once

#include "storage/s3_client.h"
#include "storage/s3_xml.h"

typedef struct {
  const char *prefix;
  const char *delimiter; /* or NULL */
  const char *after;     /* only keys behind this one; or NULL */
  const char *token;     /* of the page before; or NULL */
  guint limit;
} S3ListCall;

/* DATA_LOSS when the answer makes no sense. */
gboolean s3_list_page (Ctx *ctx, S3Client *client, const S3ListCall *call, S3Listing *out_page, GError **error);
/* Up to 1000 keys; missing ones are fine. UNIMPLEMENTED where stores have no batches. */
gboolean s3_remove_batch (Ctx *ctx, S3Client *client, const char *const *keys, gsize n_keys, GError **error);
