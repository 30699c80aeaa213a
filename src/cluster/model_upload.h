/* An upload session: what the controller, which makes it, and the replicas of the upload gateway, which fill it, know of one
 * another; upload-gateway.md, "Session". It is the Secret `ai-model-upload-auth-<uid>` of the module's namespace, read into
 * a value, changed, and written back under its resourceVersion; members that nobody here knows survive. Pure: times come
 * from the caller. Values belong to one thread. */
#pragma once

#include "cluster/module_objects.h"
#include "domain/model_step.h"

#define MODEL_UPLOAD_TTL_MS (30 * 60 * 1000ll)   /* from issue, and from the last sign of life of an upload */
#define MODEL_UPLOAD_MAX_MS (24 * 3600 * 1000ll) /* from issue: what nobody ended by then is swept from the bucket */
#define MODEL_UPLOAD_HOLD_MS (30 * 1000ll)       /* a replica that did not renew its hold for so long has lost it */
#define MODEL_UPLOAD_MAX_BYTES (5ull << 40)      /* the largest object of a bucket */
#define MODEL_UPLOAD_TOKEN_SIZE 49               /* 48 hex digits and NUL */

typedef enum {
  UPLOAD_ISSUED,
  UPLOAD_PROBING,   /* the beginning was looked at, and found good */
  UPLOAD_UPLOADING, /* one body (`holder`), or parts (`multipart_id`) */
  UPLOAD_UPLOADED,
  UPLOAD_PUBLISHING, /* set by the controller, as are the next two */
  UPLOAD_COMPLETED,
  UPLOAD_FAILED, /* by the gateway too: the file was of another size than expected */
  UPLOAD_ABORTED,
  UPLOAD_EXPIRED,
} UploadPhase;

typedef enum {
  UPLOAD_CALL_PUT,
  UPLOAD_CALL_PROBE,
  UPLOAD_CALL_INIT,
  UPLOAD_CALL_PARTS,
  UPLOAD_CALL_COMPLETE,
  UPLOAD_CALL_ABORT,
} UploadCall;

/* "issued". */
const char *upload_phase_name (UploadPhase phase);
gboolean upload_phase_allows (UploadPhase phase, UploadCall call);
/* Bytes may still come. */
gboolean upload_phase_is_open (UploadPhase phase);

/* Texts are owned; NULL: there is none. */
typedef struct {
  KubeObject *stored; /* the Secret it was read from; NULL: a new one */
  char *id;           /* the Secret's name, and the last part of the session's URL */
  UploadPhase phase;
  char *token_hash;        /* SHA-256 of the token, hex */
  guint64 expected_bytes;  /* 0: not told */
  char *key_prefix;        /* of the staging store: all keys of the session begin with "<key_prefix>/" */
  char *declared_format;   /* or NULL */
  char *failure;           /* a sentence for people, in the phases failed, aborted and expired */
  gint64 expires_ms;       /* Unix time */
  gint64 issued_ms;        /* 0: not stored yet */
  gint64 owner_generation; /* of the model it was made for */

  char *probe_file, *probe_format; /* what the probe accepted; format "GGUF", or NULL: told after unpacking */
  guint64 probe_bytes;             /* the size that was told then; 0: none */
  char *multipart_id, *multipart_file;
  char *holder; /* the request that fills it with one body; lost when not renewed (MODEL_UPLOAD_HOLD_MS) */
  gint64 holder_renewed_ms;
  guint64 uploaded_bytes; /* so far, told every few seconds */
  char *staged_file;      /* what is there whole, from `uploaded` on */
  guint64 staged_bytes;
} ModelUpload;

void model_upload_free (ModelUpload *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelUpload, model_upload_free)

/* A new session for `owner`, issued at `now_ms`; `out_token` is what its user is told and is kept nowhere. `generation` is
 * that of the owner, `expected_bytes` 0 when not told. */
ModelUpload *model_upload_new (const ModelOwner *owner, gint64 generation, guint64 expected_bytes, gint64 now_ms,
                               char out_token[MODEL_UPLOAD_TOKEN_SIZE]);
/* The session in a Secret. INVALID_ARGUMENT names what in it is no session's. */
ModelUpload *model_upload_parse (KubeObject *secret, GError **error);
/* The Secret to create (for `owner`, which may be NULL otherwise) or to update: with the resourceVersion it was read at.
 * Caller frees. */
yyjson_mut_doc *model_upload_document (const ModelUpload *self, const ModelOwner *owner);

/* Whether a token is the session's; takes the same time whatever is wrong with it. */
gboolean model_upload_admits (const ModelUpload *self, const char *token);
/* A replica is writing to it right now. */
gboolean model_upload_is_held (const ModelUpload *self, gint64 now_ms);
/* Takes in what time has done: a body whose writer is gone may be sent again, a session whose time is over is expired.
 * TRUE when that changed something. To be called before phases are looked at. */
gboolean model_upload_settle (ModelUpload *self, gint64 now_ms);
/* It lives for another MODEL_UPLOAD_TTL_MS, but not beyond MODEL_UPLOAD_MAX_MS after its issue. */
void model_upload_extend (ModelUpload *self, gint64 now_ms);
/* Forgets all that was sent; the next file begins anew. */
void model_upload_restart (ModelUpload *self);
/* All bytes are in the staging store, under `staged_file`. */
void model_upload_set_staged (ModelUpload *self, const char *staged_file, guint64 size_bytes);
/* Ends it without bytes in a closed phase; `failure` is a sentence for people. */
void model_upload_end (ModelUpload *self, UploadPhase phase, const char *failure);

/* What the controller decides by; `self` NULL: there is no session. */
ModelUploadState model_upload_state (const ModelUpload *self, gint64 now_ms);
/* "<key_prefix>/<file>", caller frees. */
char *model_upload_key (const ModelUpload *self, const char *file);
