/* How a materializer ended: the termination message of its Pod, one JSON object of at most 4096 bytes. Written by the
 * materializer, read by the controller; the Pod is a user's namespace's, so it is read as foreign. Pure; values belong to one
 * thread. */
#pragma once

#include "base/json.h"

#define MATERIALIZE_RESULT_MAX_BYTES 4096u

typedef enum {
  MATERIALIZE_DONE,
  MATERIALIZE_FAILED,
  MATERIALIZE_INTERRUPTED, /* told to end: another Job goes on where it stopped */
} MaterializeEnd;

typedef struct {
  MaterializeEnd end;
  /* Of what is done: */
  char *digest; /* of the artifact, "sha256:..." */
  guint64 size_bytes, n_files;
  guint64 moved_bytes; /* came over the wire, as they travelled */
  gboolean was_there;  /* the volume held it already */
  /* Of the others: */
  char *reason;       /* of a failure only: a machine word (domain/materialize_failure.h) */
  char *message;      /* what, and what to do */
  gboolean may_retry; /* of a failure only */
} MaterializeOutcome;

/* Never more than MATERIALIZE_RESULT_MAX_BYTES: messages are cut. Caller frees. */
char *materialize_result_format (const MaterializeOutcome *self);
/* INVALID_ARGUMENT for what is none; RESOURCE_EXHAUSTED for one that is too long. */
gboolean materialize_result_parse (const char *text, gsize size, MaterializeOutcome *out_result, GError **error);
void materialize_outcome_clear (MaterializeOutcome *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MaterializeOutcome, materialize_outcome_clear)
