/* Turns content into chunk frames in order, with reading and hashing, the question which chunks the other side
 * has, and encoding each on threads of their own: a cutter reads the content once, in order, cuts it as the server
 * would and hashes blob and chunk in one pass; workers ask about a batch of chunks and encode what is unknown. The
 * consumer takes frames in order. Memory is bounded whatever the content's size. Private to registry/. */
#pragma once

#include "base/reader.h"
#include "base/sha256.h"
#include "storage/chunk_frame.h"

/* Fills `answers` with one '0' or '1' for each of `n` digests of 32 bytes. Called from several threads. */
typedef gboolean (*AskKnown) (Ctx *ctx, gpointer data, const guint8 *digests, gsize n, char *answers, GError **error);

typedef struct {
  guint64 offset_bytes; /* where the pipeline starts in the content */
  Sha256 blob_hash;     /* over everything before it */
  gboolean is_unhashed; /* the blob's hash is not wanted: `blob_hash` and digest say nothing */
  guint64 whole_until;  /* chunks that start before this are never sent as references */
  AskKnown ask;
  gpointer data;
} PushPipelineConfig;

typedef struct {
  guint64 end_bytes;   /* of the content, behind this chunk */
  Sha256 blob_hash;    /* over everything before `end_bytes` */
  const guint8 *bytes; /* header and payload; valid until the next call */
  gsize size;
  gboolean is_reference;
} PushFrame;

typedef enum { PUSH_FRAME, PUSH_END, PUSH_NOT_YET, PUSH_FAILED } PushNext;

typedef struct PushPipeline PushPipeline;
/* Borrows `content`, which nobody else may read meanwhile. */
PushPipeline *push_pipeline_new (Ctx *ctx, Reader *content, const PushPipelineConfig *config);
/* Waits for the next frame up to `timeout_ms` (-1: until there is one). */
PushNext push_pipeline_next (PushPipeline *self, gint64 timeout_ms, PushFrame *out_frame, GError **error);
/* Digest of the whole content; after PUSH_END, unless it is unhashed. */
void push_pipeline_digest (PushPipeline *self, Digest *out_digest);
void push_pipeline_free (PushPipeline *self); /* stops the threads first */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PushPipeline, push_pipeline_free)
