/* The saved form of an upload session. Private to storage/.
 * Keys below `_ai_models/uploads/<uuid>/`: `state-<seq>` (the highest counts; created only if absent, so a
 * second holder of the session is noticed), `list-<k>` (4096 recipe entries each), `tail-<seq>` (bytes
 * behind the last chunk boundary: raw, or a chunk frame), `pins-<uuid>` (chunk digests told as known). */
#pragma once

#include "base/sha256.h"
#include "storage/recipe.h"
#include "storage/object_store.h"

#define UPLOAD_LIST_ENTRIES 4096u

typedef enum { UPLOAD_TAIL_NONE = 0, UPLOAD_TAIL_RAW = 1, UPLOAD_TAIL_FRAME = 2 } UploadTail;

typedef struct {
  guint64 sequence;
  gint64 created_ms;
  guint64 boundary_bytes; /* decoded bytes in whole chunks */
  Sha256 boundary_sha;    /* over them */
  UploadTail tail;
  guint64 tail_bytes; /* decoded */
  char *repository;
  GArray *entries; /* RecipeEntry: all of them once loaded */
} UploadState;

char *upload_prefix (const char *id);
char *upload_key (const char *id, const char *kind, guint64 number);
/* Writes full entry lists not yet written and the state with sequence + 1; then drops its predecessor.
 * ABORTED when somebody else saved meanwhile. */
gboolean upload_state_save (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *state, guint *inout_n_lists,
                            GError **error);
/* NOT_FOUND (reason BLOB_UPLOAD_UNKNOWN); DATA_LOSS when it is damaged. */
gboolean upload_state_load (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *out_state, guint *out_n_lists,
                            GError **error);
void upload_state_clear (UploadState *self);
