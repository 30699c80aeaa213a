/* The saved form of an upload session. Private to storage/.
 * Keys below `_ai_models/uploads/<uuid>/`: `state-<sequence>` (the highest counts; created only if absent, so a
 * second holder of the session is noticed), `list-<n>-<sum>` (4096 recipe entries each), `tail-<digest>` (bytes
 * behind the last chunk boundary: raw, or a chunk frame), `pins-<uuid>` (chunk digests told as known). Lists and
 * tails are named by what they hold: what one holder writes cannot change what another's state names. */
#pragma once

#include "base/sha256.h"
#include "storage/recipe.h"
#include "storage/object_store.h"

#define UPLOADS_PREFIX "_ai_models/uploads/"
#define UPLOAD_ID_LENGTH 36 /* a UUID */
#define UPLOAD_LIST_ENTRIES 4096u
#define UPLOAD_MAX_REPOSITORY_BYTES 1024u

typedef enum { UPLOAD_TAIL_NONE = 0, UPLOAD_TAIL_RAW = 1, UPLOAD_TAIL_FRAME = 2 } UploadTail;

typedef struct {
  guint64 sequence; /* 0: never saved */
  guint64 holder;   /* random, of whoever wrote it */
  gint64 created_ms;
  guint64 boundary_bytes; /* decoded bytes in whole chunks */
  Sha256 boundary_sha;    /* over them */
  UploadTail tail;
  guint64 tail_bytes;     /* decoded */
  guint8 tail_digest[32]; /* BLAKE3 of its decoded bytes */
  char *repository;
  GArray *entries; /* RecipeEntry: all of them once loaded */
  GArray *lists;   /* guint64: the sum of each full list in the store */
} UploadState;

void upload_state_init (UploadState *self);
void upload_state_clear (UploadState *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (UploadState, upload_state_clear)

/* The id of a session that follows from a text: like a UUID, but the same for the same text. */
void upload_name (const char *repository, const char *key, char out_id[UPLOAD_ID_LENGTH + 1]);
char *upload_prefix (const char *id); /* "_ai_models/uploads/<id>/" */
char *upload_tail_prefix (const char *id);
char *upload_tail_key (const char *id, const UploadState *state);
/* Decoded bytes of the saved tail. NOT_FOUND when it is gone, DATA_LOSS (reason ChunkCorrupt) or INVALID_ARGUMENT
 * (CHUNK_INVALID) when it is damaged. */
GByteArray *upload_tail_read (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state,
                              GError **error);

/* The object that keeps `n` chunks, 32 bytes each, from being collected as long as the session lives. */
gboolean upload_pins_put (Ctx *ctx, ObjectStore *objects, const char *id, const guint8 *digests, gsize n,
                          GError **error);

/* Writes full entry lists not yet written, then the state, whose `sequence` must be one more than `before`'s, and looks
 * whether it is the newest and follows on the state of sequence `seen`, the last that was surely the session's; then
 * drops older ones. On a far store it looks only now and then and when `is_last` of a request: `*out_is_seen` tells. ABORTED when somebody else saved
 * meanwhile, or the session ended. After another error the state may have been saved: see upload_state_settle. */
gboolean upload_state_save (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state,
                            const UploadState *before, guint64 seen, gboolean is_last, gboolean *out_is_seen,
                            GError **error);
/* `out_state` is initialised. NOT_FOUND (reason BLOB_UPLOAD_UNKNOWN), also when it is damaged beyond use. */
gboolean upload_state_load (Ctx *ctx, ObjectStore *objects, const char *id, UploadState *out_state, GError **error);
/* Whose the session is, without its chunks; otherwise as load. Caller frees. */
char *upload_state_repository (Ctx *ctx, ObjectStore *objects, const char *id, GError **error);
/* Whether `state` came to be after all when saving it failed. ABORTED when another one has its place. */
gboolean upload_state_settle (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state,
                              gboolean *out_is_saved, GError **error);
/* ABORTED when `state` is not the session's newest any more, or that of sequence `seen` (0: none) is gone; else TRUE. */
gboolean upload_state_check (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, guint64 seen,
                             GError **error);
/* The two halves of a state without its lists' entries; for the fuzzer and for saving and loading. */
GByteArray *upload_state_write (const UploadState *self);
gboolean upload_state_read (GBytes *bytes, UploadState *out_state, GError **error);
