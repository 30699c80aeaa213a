/* Copies one artifact to a volume that several processes of several machines may write: it is shown, as the directory `model`, when
 * every byte of it was verified, and marked last. Goes on where an earlier run stopped; waits for another that works on the same
 * volume; mends what is damaged. Waits out a registry that is away. delivery-sharedpvc.md, modelpack.md "Materialization". */
#pragma once

#include "delivery/volume_work.h"
#include "registry/repository.h"

typedef struct {
  /* Opens the repository with the grant as it is now: called anew for each attempt. Caller frees. */
  Repository *(*open) (gpointer data, GError **error);
  gpointer open_data;
  const char *digest;     /* of the artifact, "sha256:..." */
  const char *volume;     /* a directory that exists */
  guint64 expected_bytes; /* logical, as the controller knows; 0: not known */
  gint64 patience_ms;     /* how long it goes on after a failure without a byte of progress */
  const VolumeTimes *times;
} MaterializeOrder;

typedef struct {
  gboolean was_there; /* the volume held it already, verified */
  guint n_files;
  guint64 logical_bytes;
  guint64 kept_bytes;  /* were right on the volume at the first attempt */
  guint64 moved_bytes; /* came over the wire, as they travelled */
} MaterializeResult;

/* Blocks until done. Errors as domain/materialize_failure.h judges them. */
gboolean materialize (Ctx *ctx, const MaterializeOrder *order, MaterializeResult *out_result, GError **error);
