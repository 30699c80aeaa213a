/* One OCI upload session: the only way bytes become a blob. Takes raw bytes or chunk frames, cuts,
 * encodes, hashes and stores as they arrive with fixed memory, and saves its state so that any process
 * can go on after a crash (storage.md, "Writing"). One handler at a time holds a session; a second holder
 * elsewhere makes this one's next save fail with ABORTED. Not thread-safe. */
#pragma once

#include "storage/blob_store.h"

/* Sessions untouched for this long are dead and their pins gone. */
#define UPLOAD_SESSION_TTL_MS (24 * 3600 * 1000ll)

typedef struct UploadSession UploadSession;

/* A new session for `repository`; nothing is stored until the first save. */
UploadSession *upload_session_new (BlobStore *blobs, const char *repository);
/* Goes on with a saved one. NOT_FOUND (reason BLOB_UPLOAD_UNKNOWN), also for another repository's. */
UploadSession *upload_session_open (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id,
                                    GError **error);
/* The session of `repository` that follows from `key`: what an earlier process left of it, or a new one, saved at once, so
 * that it saves itself as it grows. ABORTED when another holder begins it too. */
UploadSession *upload_session_named (Ctx *ctx, BlobStore *blobs, const char *repository, const char *key,
                                     GError **error);
const char *upload_session_id (const UploadSession *self);
guint64 upload_session_offset (const UploadSession *self); /* decoded bytes taken */

/* Takes raw bytes at the current offset. After an error only save, cancel and free are allowed.
 * NOT_FOUND (reason BLOB_UPLOAD_UNKNOWN) when bytes taken before got lost: start again. ABORTED when another holder
 * went on. */
gboolean upload_session_write (Ctx *ctx, UploadSession *self, gconstpointer data, gsize size, GError **error);
/* Takes a stream of chunk frames in pieces. A frame whose digest does not agree: DIGEST_INVALID; a ref
 * to a chunk that is missing or damaged: FAILED_PRECONDITION (reason CHUNK_UNKNOWN), send it whole. */
gboolean upload_session_frames (Ctx *ctx, UploadSession *self, gconstpointer data, gsize size, GError **error);
/* Ends the stream of frames of one request; INVALID_ARGUMENT when it stopped inside a frame. */
gboolean upload_session_frames_end (UploadSession *self, GError **error);
/* Most digests that one question may hold. */
#define UPLOAD_KNOWN_MAX (1u << 18)
/* Answers which of `n` chunk digests (32 bytes each) exist, '1' or '0' each, and pins them to the saved session `id`
 * of `repository`, which somebody may be filling meanwhile. NOT_FOUND (reason BLOB_UPLOAD_UNKNOWN) as for open;
 * INVALID_ARGUMENT (reason SIZE_INVALID) for too many. */
gboolean upload_session_known (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id,
                               const guint8 *digests, gsize n, GString *out_answers, GError **error);
/* SHA-256 of everything taken so far. Errors as for write. */
gboolean upload_session_digest (Ctx *ctx, UploadSession *self, Digest *out_digest, GError **error);
/* Persists everything taken so far, or after an error what of it can be kept, never less than what an earlier save
 * kept. When it fails, the session is as after an error. ABORTED (reason BLOB_UPLOAD_INVALID): another holder went
 * on. */
gboolean upload_session_save (Ctx *ctx, UploadSession *self, GError **error);
/* Verifies the digest and makes the blob visible and durable. DIGEST_INVALID drops the session.
 * Other errors are as for write: what was taken may be saved, and finishing tried again. */
gboolean upload_session_finish (Ctx *ctx, UploadSession *self, const Digest *expected, GError **error);
/* Forgets the session. Stored chunks stay until collection. */
gboolean upload_session_cancel (Ctx *ctx, UploadSession *self, GError **error);
void upload_session_free (UploadSession *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (UploadSession, upload_session_free)

/* What live sessions hold: calls `pin` for every chunk that they were told as known or have stored, and `dead` (may be
 * NULL) for every object of sessions that nobody touched for UPLOAD_SESSION_TTL_MS. */
typedef struct {
  void (*pin) (gpointer data, const guint8 digest[32]);
  gboolean (*dead) (gpointer data, const ObjectInfo *info, GError **error);
} UploadScanEvents;
gboolean upload_session_scan (Ctx *ctx, ObjectStore *objects, gint64 now_ms, const UploadScanEvents *events,
                              gpointer data, GError **error);
