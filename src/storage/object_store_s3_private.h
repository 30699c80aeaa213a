/* What the parts of object_store_s3 share. */
#pragma once

#include "storage/object_store.h"
#include "storage/s3_client.h"
#include "storage/s3_probe.h"

#define S3_N_GATES 64
/* Who wrote an object, so that he knows it again when the answer got lost. */
#define S3_WRITER_HEADER "x-amz-meta-writer"

typedef struct {
  ObjectStore base;
  S3Client *client;
  S3Profile profile;
  GMutex gates[S3_N_GATES]; /* by key: conditional commits, where the store itself does not keep them apart */
} S3Store;

/* A store over a bucket that keeps what `profile` says. Takes the client over. */
ObjectStore *s3_store_new (S3Client *client, const S3Profile *profile);
Reader *s3_store_open (Ctx *ctx, ObjectStore *base, const char *key, GError **error);
Reader *s3_store_open_head (Ctx *ctx, ObjectStore *base, const char *key, gsize head_bytes, GError **error);
/* Whether the object there carries this writer's name; FALSE also when it cannot be looked at. */
gboolean s3_store_is_from (Ctx *ctx, S3Store *self, const char *key, const char *writer);
GMutex *s3_store_gate (S3Store *self, const char *key);
ObjectWriter *s3_store_create_at (Ctx *ctx, ObjectStore *base, const char *key, GError **error);
ObjectWriter *s3_store_create (Ctx *ctx, ObjectStore *base, GError **error);
GPtrArray *s3_store_list (Ctx *ctx, ObjectStore *base, const char *prefix, const char *after, guint limit,
                          GError **error);
GPtrArray *s3_store_list_any (Ctx *ctx, ObjectStore *base, const char *prefix, char **cursor, GError **error);
extern const ObjectPartsClass s3_store_parts;
