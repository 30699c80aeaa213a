/* Signed requests to one bucket, over net/http_client: signed anew for every attempt, retried while that makes
 * sense, with the store's clock and the bucket's region learned from its answers. Used by object_store_s3 and
 * s3_probe. Thread-safe. */
#pragma once

#include "net/http_client.h"
#include "storage/s3_config.h"
#include "storage/s3_signature.h"

typedef struct S3Client S3Client;

/* Copies the configuration. FAILED_PRECONDITION when the CA file cannot be used. */
S3Client *s3_client_new (const S3Config *config, GError **error);
void s3_client_free (S3Client *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (S3Client, s3_client_free)

typedef struct {
  const char *method;
  const char *key;  /* below the configuration's prefix; NULL: the bucket */
  const char *what; /* for messages: "object a/b"; NULL: made from the key */
  const S3Pair *query;
  gsize n_query;
  const S3Pair *headers; /* beside those of the signature */
  gsize n_headers;
  gconstpointer body; /* borrowed */
  gsize body_size;
  gboolean sends_checksum;      /* x-amz-checksum-sha256 of the body, which the store compares and keeps */
  const HttpDownload *download; /* `start` must begin anew: it is called for every attempt; NULL: collected */
  gpointer download_data;
  const char *answer_root; /* a 2xx answer must be a whole XML document with this root: anything else is unknown */
  gboolean once;           /* one attempt, whatever comes of it */
} S3Call;

/* Up to five attempts with growing pauses; the context's deadline is kept. Errors by s3_reply.h, UNAVAILABLE for
 * network trouble. `out_reply` is the last answer, also after an error that an answer was the reason for. */
gboolean s3_client_call (Ctx *ctx, S3Client *self, const S3Call *call, HttpReply *out_reply, GError **error);
/* A link that lets everybody who knows it do `method` on `key` for `ttl_s` seconds (by the store's clock and in the bucket's
 * region as far as earlier answers told them); caller frees. Never log it. */
char *s3_client_presign (S3Client *self, const char *method, const char *key, const S3Pair *query, gsize n_query,
                         guint ttl_s);
/* The prefix of the configuration, which listed keys begin with. */
const char *s3_client_prefix (S3Client *self);
const char *s3_client_bucket (S3Client *self);
