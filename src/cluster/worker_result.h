/* How a publication worker ended: the termination message of its Pod, one JSON object of at most 4096 bytes (what the
 * kubelet keeps). Written by the worker, read by the controller; the text is of a Pod, so it is read as foreign. Pure;
 * values belong to one thread. */
#pragma once

#include "cluster/resolved_model.h"

#define WORKER_RESULT_MAX_BYTES 4096u
#define WORKER_RESULT_MAX_MESSAGE_CHARS 1024 /* publication-pipeline.md, "Limits summary" */

typedef enum {
  WORKER_HAS_RESULT,
  WORKER_HAS_FAILED,      /* for good */
  WORKER_WAS_INTERRUPTED, /* it goes on where it stopped when it is started anew */
} WorkerEnd;

typedef struct {
  WorkerEnd end;
  /* Of a result: */
  char *digest; /* "sha256:..." */
  char *media_type, *repository;
  guint64 size_bytes;    /* of the config and the layers */
  char *source_type;     /* status.source.resolvedType */
  char *source_revision; /* or NULL */
  ResolvedModel resolved;
  gboolean metadata_complete; /* ModelMetadataCalculated; otherwise ModelMetadataPartial */
  /* Of the others: */
  char *reason; /* of the condition ArtifactResolved (conditions-reasons-events.md); of a failure only */
  char *message;
} WorkerResult;

/* Never more than WORKER_RESULT_MAX_BYTES: what can best be missed goes, and messages are cut. Caller frees. */
char *worker_result_format (const WorkerResult *self);
/* INVALID_ARGUMENT for what is no result; RESOURCE_EXHAUSTED for one that is too long. A reason that no failure of a worker
 * has is read as PublicationFailed; messages are cut. */
gboolean worker_result_parse (const char *text, gsize size, WorkerResult *out_result, GError **error);
void worker_result_clear (WorkerResult *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (WorkerResult, worker_result_clear)

/* A copy of at most WORKER_RESULT_MAX_MESSAGE_CHARS characters, without control characters. Caller frees. */
char *worker_message (const char *text);
